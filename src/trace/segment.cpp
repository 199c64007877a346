#include "trace/segment.h"

#include "python/compat.h"
#include "python/text.h"
#include "runtime/dispatch.h"
#include "runtime/random_state.h"
#include "trace/run_code.h"
#include "trace/shape_plans.h"

#include <ATen/Context.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <ATen/record_function.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/PythonDispatcherTLS.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <ATen/PythonTorchFunctionTLS.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <stdexcept>

#include <immintrin.h>

namespace dynrun::trace {

using python::Ref;

/// Whether denormal results and operands count as zero (torch.set_flush_denormal): two bits of the control word of vector arithmetic.
static bool flushes_denormal() { return (_mm_getcsr() & 0x8040) != 0; }

/// Set where "cuda" may mean one GPU or another.
static std::atomic<bool> watches_device{false};

static const c10::impl::DeviceGuardImplInterface& gpus() { return *c10::impl::getDeviceGuardImpl(c10::kCUDA); }

void TorchState::watch_device(const graph::Graph& graph) {
  auto on_gpu = [](const graph::Value& value) { return value.is_tensor() && value.tensor().device.is_cuda(); };
  if (std::none_of(graph.values.begin(), graph.values.end(), on_gpu) || gpus().deviceCount() < 2) return;
  watches_device.store(true, std::memory_order_relaxed);
  device = gpus().getDevice().index();
}

TorchState TorchState::now() {
  auto& context = at::globalContext();
  const auto convolutions = context.float32Precision(at::Float32Backend::CUDA, at::Float32Op::CONV);
  return now(static_cast<int>(context.float32MatmulPrecision()) | static_cast<int>(convolutions) << 8);
}

TorchState TorchState::now(int precision) {
  TorchState state;
  state.grad = c10::GradMode::is_enabled();
  state.inference = c10::InferenceMode::is_enabled();
  state.autocast = at::autocast::is_autocast_enabled(at::kCPU);
  state.autocast_cuda = at::autocast::is_autocast_enabled(at::kCUDA);
  state.autocast_dtype = at::autocast::get_autocast_dtype(at::kCPU);
  state.autocast_cuda_dtype = at::autocast::get_autocast_dtype(at::kCUDA);
  auto& context = at::globalContext();
  state.deterministic = context.deterministicAlgorithms();
  state.default_dtype = c10::get_default_dtype_as_scalartype();
  state.flush_denormal = flushes_denormal();
  state.precision = precision;
  if (watches_device.load(std::memory_order_relaxed)) state.device = gpus().getDevice().index();
  state.function_modes = at::impl::torch_function_mode_enabled() || at::impl::torch_function_all_disabled();
  state.dispatch_modes = c10::impl::TorchDispatchModeTLS::any_modes_set();
  std::uint32_t bit = 1;
  for (bool on : {context.userEnabledCuDNN(), context.userEnabledMkldnn(), context.benchmarkCuDNN(), context.deterministicCuDNN(),
                  context.userEnabledFlashSDP(), context.userEnabledMemEfficientSDP(), context.userEnabledMathSDP(), context.userEnabledCuDNNSDP(),
                  context.userEnabledOverrideableSDP(), context.deterministicFillUninitializedMemory()}) {
    if (on) state.backends |= bit;
    bit <<= 1;
  }
  auto keys = c10::impl::tls_local_dispatch_key_set();
  state.included = keys.included_.remove(c10::DispatchKey::TESTING_ONLY_GenericMode).raw_repr();
  state.excluded = keys.excluded_.raw_repr();
  state.tracing = torch::jit::tracer::isTracing();
  state.saved_hooks = !at::SavedTensorDefaultHooks::get_tls_state().stack.empty();
  state.profiled = at::hasCallbacks();
  state.autocast_cache = at::autocast::is_autocast_cache_enabled();
  state.autocast_nesting = at::autocast::increment_nesting() - 1;
  at::autocast::decrement_nesting();
  state.anomaly = torch::autograd::AnomalyMode::is_enabled();
  state.forward_mode = torch::autograd::ForwardADLevel::try_get_by_idx(0) != nullptr;
  return state;
}

bool Code::looks_only() const {
  auto looks = [](const MadeCode& made) { return made.executable && made.executable->looks_only(); };
  return looks(*this) && (!plain || looks(*plain)) && std::all_of(others.begin(), others.end(), looks);
}

guards::Miss TorchState::difference(const TorchState& other) const {
  auto text = [](bool on) { return std::string(on ? "on" : "off"); };
  if (grad != other.grad) return {"grad mode", text(grad), text(other.grad), -1};
  if (inference != other.inference) return {"inference mode", text(inference), text(other.inference), -1};
  if (autocast != other.autocast || autocast_dtype != other.autocast_dtype) return {"autocast", text(autocast), text(other.autocast), -1};
  if (autocast_cuda != other.autocast_cuda || autocast_cuda_dtype != other.autocast_cuda_dtype) return {"autocast on CUDA", text(autocast_cuda), text(other.autocast_cuda), -1};
  if (default_dtype != other.default_dtype) return {"default dtype", c10::toString(default_dtype), c10::toString(other.default_dtype), -1};
  if (flush_denormal != other.flush_denormal) return {"denormal numbers flushed to zero", text(flush_denormal), text(other.flush_denormal), -1};
  if (device != other.device) return {"the current GPU", fmt::format("cuda:{}", device), fmt::format("cuda:{}", other.device), -1};
  if (deterministic != other.deterministic) return {"deterministic algorithms", text(deterministic), text(other.deterministic), -1};
  if (profiled != other.profiled) return {"a profiler", text(profiled), text(other.profiled), -1};
  if (calls_back() != other.calls_back()) return {"Python code around operators (modes, hooks of what autograd saves)", text(calls_back()), text(other.calls_back()), -1};
  if (included != other.included || excluded != other.excluded) return {"transforms of torch.func, and other dispatch keys", fmt::format("{:#x}", included), fmt::format("{:#x}", other.included), -1};
  if (backends != other.backends) return {"switches of cuDNN, oneDNN and attention", fmt::format("{:#x}", backends), fmt::format("{:#x}", other.backends), -1};
  return {"torch state", "another one", "this one", -1};
}

EntryPoint entry_point(vm::Activation* base, vm::Activation* top) {
  EntryPoint point;
  for (vm::Activation* activation = top; activation; activation = activation->caller) {
    point.frames.insert(point.frames.begin(), {activation->code, activation->pc});
    if (activation == base) break;
  }
  return point;
}

graph::SourceLine line_at(const bytecode::Code& code, std::int32_t pc) {
  const auto at = static_cast<std::size_t>(pc);
  const int offset = at < code.instructions.size() ? code.instructions[at].offset : 0;
  return {python::file_of(code.object->co_filename), python::text_of(code.object->co_qualname),
          python::shown_line(code.object, offset)};
}

bool stands_at(const EntryPoint& point, vm::Activation* base, vm::Activation* top) {
  std::size_t left = point.frames.size();
  for (vm::Activation* activation = top; activation; activation = activation->caller) {
    if (left-- == 0) return false;
    if (point.frames[left].first != activation->code || point.frames[left].second != activation->pc) return false;
    if (activation == base) break;
  }
  return left == 0;
}

std::vector<guards::EntryFrame> entry_frames(vm::Activation* base, vm::Activation* top) {
  std::vector<guards::EntryFrame> frames;
  for (vm::Activation* activation = top; activation; activation = activation->caller) {
    frames.insert(frames.begin(), {activation->frame, activation->stack_base()});
    if (activation == base) break;
  }
  return frames;
}

Segment::Segment() = default;
Segment::~Segment() = default;

bool guards_hold(const Segment& segment, const std::vector<guards::EntryFrame>& frames, std::vector<PyObject*>& registers) {
  return segment.guards.run(frames, registers);
}

bool return_from_top(vm::Machine& machine, PyObject* value) {
  vm::Activation* top = machine.top;
  vm::Continuation continuation = top->continuation;
  if (continuation == vm::Continuation::kReturnBase) {
    machine.result = value;
    return true;
  }
  PyObject* held = top->held;
  top->held = nullptr;
  machine.drop_top();
  vm::Activation* caller = machine.top;
  switch (continuation) {
    case vm::Continuation::kPushResult: caller->push(value); break;
    case vm::Continuation::kDropPushHeld: Py_DECREF(value), caller->push(held); break;
    case vm::Continuation::kDrop: Py_DECREF(value); break;
    case vm::Continuation::kPushTruth:
    case vm::Continuation::kPushNotTruth: {
      int truth = PyObject_IsTrue(value);
      Py_DECREF(value);
      PyErr_Clear();
      caller->push(PyBool_FromLong(continuation == vm::Continuation::kPushTruth ? truth : !truth));
      break;
    }
    case vm::Continuation::kReturnBase: break;
  }
  return false;
}

namespace {

bool apply(const Effect& effect, Kitchen& kitchen, const HostContext& context) {
  if (effect.kind == EffectKind::kHostCall) return run_host_call(context.segment.host_calls[static_cast<std::size_t>(effect.host)], kitchen, context);

  PyObject* target = effect.target >= 0 ? kitchen.make(effect.target) : nullptr;
  PyObject* key = effect.key >= 0 ? kitchen.make(effect.key) : nullptr;
  PyObject* value = effect.value >= 0 ? kitchen.make(effect.value) : nullptr;
  if (PyErr_Occurred()) return false;
  switch (effect.kind) {
    case EffectKind::kSetAttribute: return PyObject_GenericSetAttr(target, key, value) == 0;
    case EffectKind::kSetItem: return PyObject_SetItem(target, key, value) == 0;
    case EffectKind::kDeleteItem: return PyDict_DelItem(target, key) == 0;
    case EffectKind::kDeleteAttribute: return PyObject_GenericSetAttr(target, key, nullptr) == 0;
    case EffectKind::kAddToSet: return PySet_Add(target, key) == 0;
    case EffectKind::kDiscard: return PySet_Discard(target, key) >= 0;
    case EffectKind::kAppend: return PyList_Append(target, value) == 0;
    case EffectKind::kSetCell: return PyCell_Set(target, value) == 0;
    case EffectKind::kTouchCache: return Ref::steal(PyObject_Call(target, key, value)).get() != nullptr;
    case EffectKind::kResetContext: return PyContextVar_Reset(target, value) == 0;
    case EffectKind::kContext:
    case EffectKind::kHostCall: return true;
    case EffectKind::kGradMode: c10::GradMode::set_enabled(value == Py_True); return true;
  }
  return false;
}

/// Fills a frame's slots; the values that it held go after everything is in place.
bool fill_frame(vm::Activation& activation, const FrameRecipe& recipe, Kitchen& kitchen, std::vector<Ref>& dropped) {
  for (std::size_t i = 0; i < recipe.locals.size(); i++) {
    RecipeId id = recipe.locals[i];
    if (id == kKeepRecipe) continue;
    PyObject* value = id == kNullRecipe ? nullptr : kitchen.make(id);
    dropped.push_back(Ref::steal(std::exchange(activation.locals()[i], Py_XNewRef(value))));
  }
  while (activation.stack_depth() > 0) dropped.push_back(Ref::steal(activation.pop()));
  for (RecipeId id : recipe.stack) activation.push(id == kNullRecipe ? nullptr : Py_NewRef(kitchen.make(id)));
  activation.pc = recipe.pc;
  return true;
}

void set_autocast(const TorchState& exit) {
  at::autocast::set_autocast_enabled(at::kCPU, exit.autocast);
  at::autocast::set_autocast_enabled(at::kCUDA, exit.autocast_cuda);
  at::autocast::set_autocast_dtype(at::kCPU, exit.autocast_dtype);
  at::autocast::set_autocast_dtype(at::kCUDA, exit.autocast_cuda_dtype);
  at::autocast::set_autocast_cache_enabled(exit.autocast_cache);
  int nesting = at::autocast::increment_nesting();
  while (nesting < exit.autocast_nesting) nesting = at::autocast::increment_nesting();
  while (nesting > exit.autocast_nesting) nesting = at::autocast::decrement_nesting();
}

/// Makes every value that the exit needs, so that nothing can fail half-way.
bool prepare(const Segment& segment, Kitchen& kitchen) {
  auto make = [&](RecipeId id) { return id < 0 || kitchen.make(id) != nullptr; };
  if (segment.returns && !make(segment.result)) return false;
  for (const Effect& effect : segment.effects) {
    if (!make(effect.target) || !make(effect.key) || !make(effect.value)) return false;
  }
  for (const HostCall& call : segment.host_calls) {
    if (!make(call.callee) || !make(call.arguments) || !make(call.keywords)) return false;
  }
  if (!make(segment.exit_handling.exception)) return false;
  for (const FrameRecipe& frame : segment.exit_frames) {
    if (!make(frame.function) || !make(frame.held) || !make(frame.generator)) return false;
    for (RecipeId id : frame.locals) {
      if (!make(id)) return false;
    }
    for (RecipeId id : frame.stack) {
      if (!make(id)) return false;
    }
  }
  return true;
}

}  // namespace

namespace {

/// Gives an exception the traceback that it had, of frames that stand there again.
bool set_traceback(const Handling::Traceback& raised, const std::vector<vm::Activation*>& chain, Kitchen& kitchen) {
  Ref next;
  for (auto place = raised.places.rbegin(); place != raised.places.rend(); ++place) {
    vm::Activation& activation = *chain[static_cast<std::size_t>(place->depth)];
    auto* units = reinterpret_cast<std::uint16_t*>(activation.frame->code->co_code_adaptive);
    // A frame that has not begun has no frame object; the others know where they stand.
    if (&activation == chain.back()) activation.frame->previous_instruction = units + activation.code->instructions[static_cast<std::size_t>(activation.pc)].offset;
    Ref frame = Ref::steal(dynrun_frame_object(PyThreadState_Get(), activation.frame));
    if (!frame) return false;
    next = Ref::steal(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyTraceBack_Type), "OOii", next ? next.get() : Py_None, frame.get(),
                                            place->last, place->line));
    if (!next) return false;
  }
  return PyException_SetTraceback(kitchen.make(raised.exception), next.get()) == 0;
}

}  // namespace

bool enter_frames(const std::vector<FrameRecipe>& frames, int kept, const Handling& handling, vm::Machine& machine, vm::Activation* base,
                  Kitchen& kitchen) {
  std::vector<vm::Activation*> chain;
  for (vm::Activation* activation = machine.top; activation; activation = activation->caller) {
    chain.insert(chain.begin(), activation);
    if (activation == base) break;
  }
  for (; chain.size() > static_cast<std::size_t>(kept); chain.pop_back()) machine.drop_top();
  std::vector<Ref> dropped;
  for (std::size_t i = 0; i < frames.size(); i++) {
    const FrameRecipe& recipe = frames[i];
    vm::Activation* activation = nullptr;
    if (i < static_cast<std::size_t>(kept)) {
      activation = chain[i];
    } else {
      PyObject* held = recipe.held == kNullRecipe ? nullptr : Py_NewRef(kitchen.make(recipe.held));
      activation = recipe.generator == kNullRecipe ? machine.push_frame(kitchen.make(recipe.function), recipe.continuation, held)
                                                   : machine.push_generator(kitchen.make(recipe.generator), recipe.resumption);
      if (activation == nullptr) return false;
    }
    fill_frame(*activation, recipe, kitchen, dropped);
    if (i == chain.size()) chain.push_back(activation);
  }
  if (handling.exception != kNullRecipe) PyErr_SetHandledException(kitchen.make(handling.exception));
  for (const Handling::Traceback& raised : handling.tracebacks) {
    if (!set_traceback(raised, chain, kitchen)) return false;
  }
  return true;
}

namespace {

/// The outputs of a segment without operators: tensors that it was given.
std::vector<at::Tensor> passed_on(const graph::Graph& graph, const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> outputs;
  for (graph::ValueId output : graph.outputs) {
    for (std::size_t i = 0; i < graph.inputs.size(); i++) {
      if (graph.inputs[i].value == output) outputs.push_back(inputs[i]);
    }
  }
  return outputs;
}

}  // namespace

ReplayResult replay(Segment& segment, vm::Machine& machine, vm::Activation* base, std::vector<PyObject*>& registers,
                    const std::vector<Ref>& hosts, Inputs inputs, Code& code, bool verify, bool* returned) {
  *returned = false;
  // Sources are read before the operators run and used after: other threads may run meanwhile.
  std::vector<Ref> held;
  held.reserve(segment.recipes.nodes.size());
  for (const RecipeNode& node : segment.recipes.nodes) {
    if (node.kind == RecipeKind::kSource) held.push_back(Ref::borrow(registers[static_cast<std::size_t>(node.index)]));
  }
  segment.host.swap_generators(registers, hosts);
  std::vector<at::Tensor> outputs;
  const runtime::RandomState random(segment.drawn_from);
  if (segment.graph->nodes.empty()) {
    outputs = passed_on(*segment.graph, inputs.tensors());
  } else if (ReplayResult ran = run_code(segment, inputs.tensors(), code, random, verify, outputs); ran != ReplayResult::kDone) {
    if (ran == ReplayResult::kFailed) segment.host.swap_generators(registers, hosts);
    return ran;
  }
  segment.casts_left.leave(inputs.tensors(), outputs);
  if (segment.host_calls.empty()) inputs.clear();
  Kitchen kitchen(segment.recipes, registers, hosts, outputs);
  if (!prepare(segment, kitchen)) {
    if (segment.writes_outside) return ReplayResult::kRaised;
    PyErr_Clear();
    segment.host.swap_generators(registers, hosts);
    return ReplayResult::kFailed;
  }
  for (const Effect& effect : segment.effects) {
    if (!apply(effect, kitchen, {segment, machine, base, registers, hosts, inputs.tensors(), random})) return ReplayResult::kRaised;
  }
  if (segment.sets_autocast) set_autocast(segment.exit_autocast);
  outputs.clear();
  inputs.clear();
  if (segment.returns) {
    PyObject* value = Py_NewRef(kitchen.make(segment.result));
    while (machine.top != base) machine.drop_top();
    *returned = true;
    return_from_top(machine, value);
    return ReplayResult::kDone;
  }
  return enter_frames(segment.exit_frames, segment.kept_frames, segment.exit_handling, machine, base, kitchen) ? ReplayResult::kDone : ReplayResult::kRaised;
}

}  // namespace dynrun::trace
