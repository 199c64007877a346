#include "trace/segment.h"

#include "report/clock.h"
#include "python/compat.h"
#include "python/gil.h"
#include "python/text.h"
#include "runtime/dispatch.h"
#include "runtime/random_state.h"
#include "trace/shape_plans.h"
#include "trace/verify.h"

#include <ATen/Context.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <ATen/record_function.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
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
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <stdexcept>

namespace dynrun::trace {

using python::Ref;

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
  if (state.autocast) state.autocast_dtype = at::autocast::get_autocast_dtype(at::kCPU);
  if (state.autocast_cuda) state.autocast_cuda_dtype = at::autocast::get_autocast_dtype(at::kCUDA);
  auto& context = at::globalContext();
  state.deterministic = context.deterministicAlgorithms();
  state.default_dtype = c10::get_default_dtype_as_scalartype();
  state.precision = precision;
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

guards::Miss TorchState::difference(const TorchState& other) const {
  auto text = [](bool on) { return std::string(on ? "on" : "off"); };
  if (grad != other.grad) return {"grad mode", text(grad), text(other.grad), -1};
  if (inference != other.inference) return {"inference mode", text(inference), text(other.inference), -1};
  if (autocast != other.autocast || autocast_dtype != other.autocast_dtype) return {"autocast", text(autocast), text(other.autocast), -1};
  if (default_dtype != other.default_dtype) return {"default dtype", c10::toString(default_dtype), c10::toString(other.default_dtype), -1};
  if (deterministic != other.deterministic) return {"deterministic algorithms", text(deterministic), text(other.deterministic), -1};
  return {"torch state", "", "", -1};
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

/// The operators themselves, after what was compiled for them failed and nothing that can be seen has changed: null when they
/// raise too. Else it is our bug, which only --verify may report.
std::shared_ptr<runtime::Executable> run_operators(const Segment& segment, const Code& code, const std::vector<at::Tensor>& inputs, bool verify, std::vector<at::Tensor>& outputs) {
  if (segment.writes_outside || code.executable->replays_operators()) return nullptr;
  std::shared_ptr<runtime::Executable> replayer = runtime::make_replayer(segment.graph);
  try {
    outputs = replayer->run(inputs);
  } catch (...) {
    return nullptr;
  }
  if (verify) end_program("a replay cannot run, though its operators can");
  return replayer;
}

/// Runs the operators on copies: at sizes that they never ran at one may raise after another has written an outside tensor. Throws
/// what it throws; random numbers are then those of before.
void rehearse(const Segment& segment, const std::vector<at::Tensor>& inputs) {
  const runtime::RandomState random(segment.drawn_from);
  runtime::make_replayer(segment.graph)->run(snapshot(inputs, segment.only_read));
  random.restore();
}

/// Notes that an operator of a replay warns, which Python code has to see in its place.
class WarningNote final : public c10::WarningHandler {
 public:
  explicit WarningNote(bool passes_on) : passes_on_(passes_on) {}
  void process(const c10::Warning& warning) override {
    warned = true;
    if (passes_on_) c10::WarningHandler::process(warning);
  }
  bool warned = false;

 private:
  bool passes_on_;
};

/// What was compiled for a segment that writes outside tensors runs on copies first: if it raises half-way, which is our bug, nothing
/// is written twice, and the operators themselves take its place. Operators of programs run only when the program runs them.
std::shared_ptr<runtime::Executable> tried_on_copies(const Segment& segment, std::shared_ptr<runtime::Executable> executable, const std::vector<at::Tensor>& inputs, const runtime::RandomState& random) {
  constexpr std::size_t kMuch = std::size_t{1} << 30;  // bytes
  std::size_t bytes = 0;
  for (const at::Tensor& input : inputs) bytes += input.has_storage() ? input.storage().nbytes() : 0;
  const auto& nodes = segment.graph->nodes;
  const bool ours = std::all_of(nodes.begin(), nodes.end(), [](const graph::Node& node) { return node.op.operator_name().name.rfind("aten::", 0) == 0; });
  if (!ours || bytes > kMuch) return executable;
  WarningNote note(false);
  const c10::WarningUtils::WarningHandlerGuard noted(&note);
  try {
    executable->run(snapshot(inputs, segment.only_read));
  } catch (...) {
    executable = runtime::make_replayer(segment.graph);
  }
  random.restore();
  return executable;
}

/// Keeps what autocast casts out of its cache while it lives, where a segment sets autocast itself.
class AutocastCache {
 public:
  explicit AutocastCache(bool off) : before_(at::autocast::is_autocast_cache_enabled()) {
    if (off) at::autocast::set_autocast_cache_enabled(false);
  }
  ~AutocastCache() { at::autocast::set_autocast_cache_enabled(before_); }
  AutocastCache(const AutocastCache&) = delete;
  AutocastCache& operator=(const AutocastCache&) = delete;

 private:
  bool before_;
};

bool have_types(const std::vector<at::Tensor>& tensors, const std::vector<graph::TensorType>& types) {
  for (std::size_t i = 0; i < tensors.size(); i++) {
    if (tensors[i].defined() && !types[i].unsized && (tensors[i].sizes() != c10::IntArrayRef(types[i].sizes) || tensors[i].strides() != c10::IntArrayRef(types[i].strides))) return false;
  }
  return true;
}

/// A view that was made before its memory was written knows that.
void match_view(const Segment::OutputTraits& traits, bool grad, const at::Tensor& tensor) {
  auto* view = grad || !traits.written_since ? nullptr : torch::autograd::impl::get_view_autograd_meta(tensor);
  if (view && view->has_bw_view()) view->set_attr_version(tensor._version() - *traits.written_since);
}

/// A view of a tensor that nobody sees, as operators give it that are made of others: autograd knows how it was made.
at::Tensor as_view(const at::Tensor& tensor, std::uint8_t creation) {
  const at::AutoGradMode with_grad(true);
  at::Tensor view = tensor.as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  if (auto* meta = torch::autograd::impl::get_view_autograd_meta(view); meta && meta->has_bw_view()) meta->set_creation_meta(static_cast<torch::autograd::CreationMeta>(creation));
  return view;
}

/// Version counters and view-ness as eager leaves them, where a compiled graph took another way.
void match_traits(const Segment& segment, const std::vector<at::Tensor>& inputs, std::vector<at::Tensor>& outputs) {
  const bool grad = segment.graph->any_grad_mode();
  for (std::size_t i = 0; i < outputs.size(); i++) {
    at::Tensor& tensor = outputs[i];
    if (!tensor.defined() || tensor.is_inference()) continue;
    const auto& traits = segment.output_traits[i];
    if (!traits.is_view && tensor.is_view() && !(grad && tensor.requires_grad())) tensor = tensor.detach();
    if (traits.creation && !tensor.is_view() && !tensor.requires_grad()) tensor = as_view(tensor, *traits.creation);
    if (!tensor.requires_grad()) {
      // A tensor from outside has a version of its own, which the writes themselves count up.
      auto is_outside = [&] { return std::any_of(inputs.begin(), inputs.end(), [&](const at::Tensor& input) { return input.is_alias_of(tensor); }); };
      c10::VariableVersion version(tensor.unsafeGetTensorImpl()->version_counter());
      if (version.current_version() != traits.version && !is_outside()) version.set_version(traits.version);
    }
    match_view(traits, grad, tensor);
  }
}

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

void set_autocast(const Segment::Autocast& state) {
  at::autocast::set_autocast_enabled(at::kCPU, state.enabled);
  at::autocast::set_autocast_dtype(at::kCPU, state.dtype);
  at::autocast::set_autocast_cache_enabled(state.cache);
  at::autocast::clear_cache();  // leaving the outermost region does; whatever lay between, a cast is only made again
  int nesting = at::autocast::increment_nesting();
  while (nesting < state.nesting) nesting = at::autocast::increment_nesting();
  while (nesting > state.nesting) nesting = at::autocast::decrement_nesting();
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

/// Runs a segment's code, or its operators where that cannot be, while other threads run.
ReplayResult run_code(Segment& segment, const std::vector<at::Tensor>& inputs, Code& code, const runtime::RandomState& random, bool verify, std::vector<at::Tensor>& outputs) {
  c10::impl::ExcludeDispatchKeyGuard uncounted(c10::DispatchKey::TESTING_ONLY_GenericMode);
  std::shared_ptr<runtime::Executable> executable = code.executable;  // another thread may lower the segment again meanwhile
  const python::NoGil released;
  bool failed = false;
  WarningNote note(segment.writes_outside);  // what is written cannot be run again: the warning is only printed
  std::vector<at::Tensor> copies;
  try {
    const c10::WarningUtils::WarningHandlerGuard noted(&note);
    if (verify) copies = snapshot(inputs);
    if ((code.untried || code.unproven) && !executable->undoes()) rehearse(segment, inputs);
    if (segment.writes_outside && segment.backend == 0 && !executable->replays_operators() && code.rehearsed.lock() != executable) {
      executable = tried_on_copies(segment, std::move(executable), inputs, random);
      const python::Gil held;
      code.executable = executable;
      code.rehearsed = executable;
    }
    const AutocastCache cache(segment.sets_autocast);
    const std::uint64_t start = segment.timed ? report::ticks() : 0;
    outputs = executable->run(inputs);
    code.untried = false;
    if (segment.timed) segment.code_ticks += report::ticks() - start;
    if (verify && segment.drawn_from.empty()) verify_outputs(segment.graph, copies, outputs);
  } catch (const VerifyError& error) {
    end_program(error.what());
  } catch (const c10::Error& error) {
    // No program makes libtorch's own assertions fail: a node that was built wrong would only be slow, and never be seen.
    const char* text = error.what_without_backtrace();
    if (verify && std::string_view(text).find("INTERNAL ASSERT") != std::string_view::npos) end_program(fmt::format("a replay cannot run: {}", text));
    failed = true;
  } catch (const runtime::ForeignError&) {
    return ReplayResult::kRaised;
  } catch (...) {
    failed = true;
  }
  code.failed = failed || note.warned;
  if (note.warned && !segment.writes_outside) {
    random.restore();
    return ReplayResult::kFailed;
  }
  if (failed) {
    if (verify && segment.writes_outside) verify_unwritten(inputs, copies);
    random.restore();
    executable = run_operators(segment, code, inputs, verify, outputs);
    if (!executable) {
      random.restore();
      return ReplayResult::kFailed;
    }
    const python::Gil held;
    code.executable = std::move(executable);
  }
  if (!code.expected.empty()) code.as_expected = code.as_expected && have_types(outputs, code.expected);
  match_traits(segment, inputs, outputs);
  return ReplayResult::kDone;
}

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
