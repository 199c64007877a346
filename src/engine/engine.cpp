#include "engine/engine.h"

#include "engine/backend.h"
#include "engine/session.h"
#include "engine/status.h"
#include "engine/steady_frames.h"
#include "guards/storage_watch.h"
#include "guards/torch_python.h"
#include "lowering/lower.h"
#include "lowering/shared.h"
#include "python/compat.h"
#include "python/frame.h"
#include "runtime/disk_cache.h"
#include "runtime/executable.h"
#include "runtime/undo_log.h"
#include "trace/callables.h"
#include "trace/operator_keys.h"
#include "trace/operator_recorder.h"
#include "trace/shape_plans.h"
#include "trace/verify.h"
#include "vm/hook.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <utility>

namespace dynrun::engine {

using python::Ref;

namespace {

Engine* the_engine = nullptr;
constexpr int kHot = 2;
constexpr int kHotInsideCold = 3;           // a module called again and again by code that is not hot itself
constexpr int kHotFunctionInsideCold = 16;  // a plain function
constexpr int kMostFruitless = 16;
constexpr std::size_t kMostMissRows = 1000;  // of the report

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

PyTypeObject* module_class() {
  static PyTypeObject* type = nullptr;
  if (type == nullptr) {
    PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "torch.nn.modules.module");
    PyObject* found = module ? PyDict_GetItemString(PyModule_GetDict(module), "Module") : nullptr;
    if (found && PyType_Check(found)) type = reinterpret_cast<PyTypeObject*>(Py_NewRef(found));
  }
  return type;
}

bool is_module(PyObject* object) { return object && module_class() && PyObject_TypeCheck(object, module_class()); }

/// A tensor that is data: parameters alone are what initialisation and bookkeeping handle, and those run once.
bool is_data(PyObject* object) {
  return guards::is_tensor(object) && !(guards::tensor_of(object).is_leaf() && guards::tensor_of(object).requires_grad());
}

bool holds_tensor(PyObject* object) {
  if (object == nullptr) return false;
  if (is_data(object)) return true;
  if (PyTuple_CheckExact(object) || PyList_CheckExact(object)) {
    Py_ssize_t count = std::min<Py_ssize_t>(Py_SIZE(object), 8);
    for (Py_ssize_t i = 0; i < count; i++) {
      PyObject* item = PyTuple_Check(object) ? PyTuple_GET_ITEM(object, i) : PyList_GET_ITEM(object, i);
      if (is_data(item)) return true;
    }
  }
  if (PyDict_CheckExact(object) && PyDict_GET_SIZE(object) <= 16) {
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (PyDict_Next(object, &at, &key, &value)) {
      if (is_data(value)) return true;
    }
  }
  return false;
}

int argument_count(PyCodeObject* code) {
  return code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0) + ((code->co_flags & CO_VARKEYWORDS) != 0);
}

bool takes_tensors(python::Frame* frame) {
  int count = argument_count(frame->code);
  for (int i = 0; i < count; i++) {
    if (holds_tensor(frame->localsplus[i])) return true;
  }
  return false;
}

/// What runs while it lives is neither recorded nor counted, and in no scope.
struct NotOfProgram {
  NotOfProgram() = default;
  ~NotOfProgram() {
    OutsideOperators::ignored() = ignored;
    Scope::here() = outside;
    vm::counters().frames_cpython = frames;
    trace::count_operators(static_cast<std::int64_t>(operators - trace::operators_here()));
  }
  NotOfProgram(const NotOfProgram&) = delete;
  NotOfProgram& operator=(const NotOfProgram&) = delete;

  const Quiet quiet;
  const bool ignored = std::exchange(OutsideOperators::ignored(), true);
  const Scope outside = std::exchange(Scope::here(), Scope());
  const std::uint64_t frames = vm::counters().frames_cpython, operators = trace::operators_here();
};

/// What measuring might have chosen gives what the operators give, or the program ends.
void check_variant(const std::shared_ptr<const graph::Graph>& graph, const std::vector<at::Tensor>& inputs, runtime::Executable& executable, const std::string& variant) {
  try {
    const std::vector<at::Tensor> copies = trace::snapshot(inputs);
    trace::verify_outputs(graph, copies, executable.run(inputs));
  } catch (const trace::VerifyError& error) {
    trace::end_program(fmt::format("compiled with {}: {}", variant, error.what()));
  }
}

bool filter(python::Frame* frame) { return the_engine->wants(frame); }

}  // namespace

Engine* engine() { return the_engine; }

int& Engine::disabled_depth() {
  thread_local int depth = 0;
  return depth;
}

/// A number for code that no other code has which comes to lie at its address.
static std::size_t code_key(PyCodeObject* code) { return std::hash<const void*>()(code) ^ code->co_version * std::size_t(0xff51afd7ed558ccd); }

std::size_t Engine::heat_key(python::Frame* frame) {
  PyObject* self = frame->code->co_argcount > 0 ? frame->localsplus[0] : nullptr;
  std::size_t key = code_key(frame->code);
  if (is_module(self)) key = key * 1000003 + std::hash<const void*>()(self);
  // Under the transforms of torch.func nothing is captured of what may be elsewhere.
  const c10::DispatchKeySet transforms({c10::DispatchKey::FuncTorchDynamicLayerFrontMode, c10::DispatchKey::FuncTorchDynamicLayerBackMode});
  if (c10::impl::tls_local_dispatch_key_set().included_.has_any(transforms)) key ^= 0x5bd1e995u;
  return key + static_cast<std::size_t>(Scope::here().key()) * 0x9e3779b97f4a7c15u;
}

Engine::Engine(const DynrunOptions& options) : options_(options) {}

const Engine::Mark* Engine::mark_of(python::Frame* frame) const {
  if (marked_.empty()) return nullptr;
  auto find = [&](PyObject* object) -> const Mark* {
    auto found = marked_.find(object);
    return found != marked_.end() && PyWeakref_GET_OBJECT(found->second.weak.get()) == object ? &found->second : nullptr;
  };
  if (const Mark* mark = find(frame->function)) return mark;
  PyObject* self = frame->code->co_argcount > 0 ? frame->localsplus[0] : nullptr;
  return is_module(self) ? find(self) : nullptr;
}

DynrunDynamic Engine::dynamic_of(python::Frame* base) const {
  if (Scope::here().dynamic) return *Scope::here().dynamic;
  const Mark* mark = mark_of(base);
  return mark ? mark->dynamic : options_.dynamic;
}

void Engine::judge(std::size_t key, bool empty) {
  heat_[key].unsure = false;
  heat_[key].empty = empty;
}

void Engine::reject(const trace::EntryPoint& point, std::size_t key, bool empty, bool unsure) {
  heat_[key].rejected = true;
  heat_[key].empty = empty;
  heat_[key].unsure = unsure && !empty;
  Entry& entry = entry_at(point);
  entry.given_up = true;
  std::exchange(entry.segments, {}).clear();  // objects that die may run Python code
}

void Engine::note_replayed(const trace::EntryPoint& point, std::size_t key, std::uint64_t captured) {
  Heat& heat = heat_[key];
  heat.replays++;
  heat.operators = captured;
  if (captured != 0) heat.fruitless = 0;
  else if (++heat.fruitless >= kMostFruitless && options_.stress == 0) reject(point, key, false, false);
}

bool Engine::stands_alone(python::Frame* frame) const {
  constexpr int kReplays = 2;
  constexpr std::uint64_t kMuch = 64;  // the few microseconds of one more segment are little beside these
  const auto found = heat_.find(heat_key(frame));
  return found != heat_.end() && !found->second.rejected && found->second.replays >= kReplays && found->second.operators >= kMuch;
}

bool Engine::is_hot(python::Frame* frame) {
  Heat& heat = heat_of(frame);
  if (heat.rejected) return false;
  heat.count++;
  if (stress(kDynrunStressFirst)) return true;
  if (heat.count < kHot) return false;
  if (heat.count >= kHotFunctionInsideCold) return true;
  // Code that is called many times by code that runs for the first time may soon be part of something larger.
  bool inside_cold = false;
  int depth = 0;
  // The new frame itself may not be linked yet.
  auto* innermost = reinterpret_cast<python::Frame*>(PyThreadState_Get()->cframe->current_frame);
  for (python::Frame* outer = innermost; outer && depth < 200; outer = outer->previous, depth++) {
    if (outer == frame || outer->owner == python::kOwnedByCStack || !(outer->code->co_flags & CO_OPTIMIZED)) continue;
    auto found = heat_.find(heat_key(outer));
    if (found != heat_.end() && found->second.count == 1 && !found->second.rejected) inside_cold = true;
  }
  if (!inside_cold) return true;
  PyObject* self = frame->code->co_argcount > 0 ? frame->localsplus[0] : nullptr;
  return heat.count >= (is_module(self) ? kHotInsideCold : kHotFunctionInsideCold);
}

bool Engine::wants(python::Frame* frame) {
  // Inside an operator, or an audit or trace hook: not the program's own code.
  if (trace::inside_operator() || PyThreadState_Get()->tracing) return false;
  if (Session::recording_here()) return true;
  trace::count_on_a_new_thread();
  if (disabled_depth() > 0) return false;
  constexpr int kFunction = CO_OPTIMIZED | CO_NEWLOCALS;
  if ((frame->code->co_flags & kFunction) != kFunction) {
    loops_.consider(frame->code, frame->globals);
    return false;
  }
  bool generator = frame->owner == python::kOwnedByGenerator;
  const bool at_once = (Scope::here().at_once && !runs_apart(frame->code) && !Scope::runs_aside()) || mark_of(frame);
  if (!generator && at_once && !heat_of(frame).rejected) return true;
  if (!takes_tensors(frame)) {
    loops_.consider(frame->code, frame->globals);
    return false;
  }
  if (heat_of(frame).unsure || is_hot(frame)) return true;
  if (!heat_of(frame).rejected) loops_.consider(frame->code, frame->globals, true);
  if (!heat_of(frame).empty) report_.frames_skipped++;
  return false;
}

/// A backward pass is one call of C++ code below a little Python: taken to pieces it would only be slower.
void Engine::run_backward_apart() {
  for (const char* path : {"torch:Tensor.backward", "torch.autograd:backward", "torch.autograd:grad", "torch.autograd:_make_grads",
                           "torch.autograd.graph:_engine_run_backward", "torch._ops:HigherOrderOperator.__call__"}) {
    Ref function = trace::import_path(path);
    PyErr_Clear();
    if (!function || !PyFunction_Check(function.get())) return;  // torch is being imported
    auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function.get()));
    run_apart(code);
    const std::string_view name = path;
    if (name.find("HigherOrder") == name.npos) backward_codes_.emplace(code, name.find("_engine_run_backward") == name.npos);
    Heat& heat = heat_[code_key(code)];
    heat.rejected = heat.empty = runs_apart(code);
  }
  backward_apart_ = true;
}

std::optional<bool> Engine::prepares_backward(PyCodeObject* code) const {
  const auto known = backward_codes_.find(code);
  return known == backward_codes_.end() ? std::nullopt : std::optional(known->second);
}

Session* Engine::begin_session(vm::Machine& machine, vm::Activation& activation, bool compile_now) {
  if (!backward_apart_) run_backward_apart();
  std::erase_if(sessions_, [](const auto& session) { return session->idle(); });
  sessions_.push_back(std::make_unique<Session>(*this, machine, activation, compile_now));
  if (heat_of(activation.frame).unsure) sessions_.back()->watch();
  return sessions_.back().get();
}

/// Whether CPython calls the handler of a signal, which it does wherever C code looks for signals: it passes the frame that was
/// interrupted.
static bool is_signal_handler(const python::Frame* frame) {
  const PyCodeObject* code = frame->code;
  PyObject* const* arguments = frame->localsplus;
  auto is_frame = [](PyObject* object) { return object && PyFrame_Check(object); };
  if (std::any_of(arguments, arguments + code->co_argcount, is_frame)) return true;
  if (!(code->co_flags & CO_VARARGS)) return false;
  PyObject* rest = arguments[code->co_argcount + code->co_kwonlyargcount];
  return rest && PyTuple_CheckExact(rest) && std::any_of(&PyTuple_GET_ITEM(rest, 0), &PyTuple_GET_ITEM(rest, 0) + PyTuple_GET_SIZE(rest), is_frame);
}

vm::Observer* Engine::watching(vm::Machine& machine, Session& recording) {
  if (&machine == &recording.machine() || recording.at_work()) return nullptr;
  // A collection: of another thread perhaps, which waits in a finaliser (see vm/hook.cpp).
  if (is_signal_handler(machine.top->frame) || dynrun_is_collecting(PyThreadState_Get())) {
    recording.interrupted(machine);
    return nullptr;
  }
  recording.enter(machine);
  return &recording;
}

vm::Observer* Engine::starting(vm::Machine& machine, vm::Activation& activation) {
  if (trace::inside_operator() || PyThreadState_Get()->tracing) return nullptr;
  if (Session* recording = Session::recording_here()) return watching(machine, *recording);
  if (stress(kDynrunStressHandover) || disabled_depth() > 0 || dynrun_is_collecting(PyThreadState_Get())) return nullptr;
  if (options_.vm == kDynrunVmAll && !wants(activation.frame)) return nullptr;
  if (Scope::here().at_once && Scope::runs_aside()) return nullptr;
  return begin_session(machine, activation, Scope::here().at_once || mark_of(activation.frame) != nullptr);
}

vm::Observer* Engine::resuming(vm::Machine& machine, vm::Activation& activation) {
  if (trace::inside_operator()) return nullptr;
  if (Session* recording = Session::recording_here()) return watching(machine, *recording);
  return starting(machine, activation);
}

vm::Observer* Engine::looping(vm::Machine& machine, vm::Activation& activation) { return begin_session(machine, activation, false); }

bool Engine::resumes_apart(python::Frame* frame) {
  if (Session::recording_here()) return false;
  return options_.vm != kDynrunVmAll || wants(frame);
}

void Engine::unrecorded(const std::function<void()>& work) {
  trace::UnrecordedScope quiet;
  work();
}

void Engine::finished(vm::Machine& machine) {
  for (const auto& session : sessions_) session->leave(machine);
  std::erase_if(sessions_, [&](const auto& session) { return &session->machine() == &machine; });
}

Entry& Engine::entry_at(const trace::EntryPoint& point) {
  auto& entries = entries_[point.frames.back().first];
  for (auto& entry : entries) {
    if (entry->point == point && entry->scope == Scope::here().key()) return *entry;
  }
  entries.push_back(std::make_unique<Entry>());
  entries.back()->point = point;
  entries.back()->scope = Scope::here().key();
  return *entries.back();
}

Entry& Engine::entry_at(vm::Activation* base, vm::Activation* top) {
  auto known = entries_.find(top->code);
  if (known != entries_.end()) {
    for (auto& entry : known->second) {
      if (entry->scope != Scope::here().key() || !trace::stands_at(entry->point, base, top)) continue;
      entry->used = ++probes_;
      return *entry;
    }
  }
  Entry& entry = entry_at(trace::entry_point(base, top));
  entry.used = ++probes_;
  return entry;
}

/// More codes than are kept may be in use in turns: many of those that were forgotten are here again.
void Engine::make_room() {
  std::erase_if(forgotten_, [](const auto& entry) { return PyWeakref_GET_OBJECT(entry.second.get()) != reinterpret_cast<PyObject*>(entry.first); });
  std::size_t again = 0;
  for (const auto& [code, entries] : entries_) again += forgotten_.erase(code->object);
  if (again > most_codes_ / 8) most_codes_ = std::min(2 * most_codes_, kMostCodesEver);
  if (forgotten_.size() > kMostCodesEver) forgotten_.clear();
}

/// Functions that a program makes without end (by exec, say) are kept alive by their segments: those that were not reached for the
/// longest time are forgotten.
void Engine::forget_unused() {
  if (entries_.size() <= most_codes_) return;
  make_room();
  if (entries_.size() <= most_codes_) return;
  using Entries = decltype(entries_)::mapped_type;
  auto last_use = [](const Entries& entries) {
    std::uint64_t last = 0;
    for (const auto& entry : entries) last = std::max(last, entry->used);
    return last;
  };
  std::vector<std::uint64_t> uses;
  for (const auto& [code, entries] : entries_) uses.push_back(last_use(entries));
  const auto middle = uses.begin() + static_cast<std::ptrdiff_t>(most_codes_ / 2);
  std::nth_element(uses.begin(), middle, uses.end());
  const std::uint64_t limit = *middle;
  std::vector<Entries> dying;  // last: objects that die may run Python code
  for (auto at = entries_.begin(); at != entries_.end();) {
    if (last_use(at->second) >= limit) {
      ++at;
      continue;
    }
    Ref weak = Ref::steal(PyWeakref_NewRef(reinterpret_cast<PyObject*>(at->first->object), nullptr));
    if (weak) forgotten_.emplace(at->first->object, std::move(weak));
    PyErr_Clear();
    dying.push_back(std::move(at->second));
    at = entries_.erase(at);
  }
}

/// Notes that a row is about to be counted.
template <typename Row, typename Ticks>
static void note_met(const Row& row, Ticks& ticks, std::uint64_t& met) {
  if (row.count == 0 && row.replays == 0) ticks.met = ++met;
}

/// The rows that were counted since the last reset, in the order in which they were first met.
template <typename Row, typename Ticks>
static std::vector<std::size_t> met_in_order(const std::vector<Row>& rows, const std::vector<Ticks>& ticks) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < rows.size(); i++) {
    if (rows[i].count > 0 || rows[i].replays > 0) found.push_back(i);
  }
  std::sort(found.begin(), found.end(), [&](std::size_t a, std::size_t b) { return ticks[a].met < ticks[b].met; });
  return found;
}

void Engine::count_segment(trace::Segment& segment) {
  report_.segments_compiled++;
  report::SegmentPlace row;
  for (const auto& [code, pc] : segment.entry.frames) {
    graph::SourceLine line = trace::line_at(*code, pc);
    row.functions.push_back(line.function);
    row.place = {line.file, line.line, line.function};
  }
  row.operators = segment.operators;
  auto same = [&](const report::SegmentPlace& known) {
    return known.operators == row.operators && known.place.is_line_of(row.place) && known.functions == row.functions;
  };
  auto known = std::find_if(segment_rows_.begin(), segment_rows_.end(), same);
  if (known == segment_rows_.end()) {
    known = segment_rows_.insert(known, std::move(row));
    segment_ticks_.emplace_back();
  }
  segment.row = static_cast<std::int32_t>(known - segment_rows_.begin());
  note_met(*known, segment_ticks_[static_cast<std::size_t>(segment.row)], met_);
  known->count++;
  segment.timed = measures_;
}

void Engine::keep(std::unique_ptr<trace::Segment> segment, const std::vector<at::Tensor>& inputs, bool now) {
  recordings_++;
  count_segment(*segment);
  make_code_of(*segment);
  segment->backend = Scope::here().backend;
  if (segment->backend != 0) lower_elsewhere(*segment, inputs);
  else if (now && !segment->shapes) lower(segment->code, *segment->graph, inputs);
  forget_unused();
  Entry& entry = entry_at(segment->entry);  // a back end may have made the engine forget all it had
  // A first one for a size that did not come again, once there is one for many sizes, is of no more use.
  auto is_useful = [&](const auto& old) { return old->guards.alive() && (old->replayed || old->shapes || !segment->shapes || !(old->state == segment->state)); };
  auto dead = std::stable_partition(entry.segments.begin(), entry.segments.end(), is_useful);
  report_.segments_dropped += static_cast<std::uint64_t>(entry.segments.end() - dead);
  std::vector<std::shared_ptr<trace::Segment>> dying(std::make_move_iterator(dead), std::make_move_iterator(entry.segments.end()));
  entry.segments.erase(dead, entry.segments.end());
  if (!options_.dump_count) {
    entry.segments.insert(entry.segments.begin(), std::move(segment));
    return;
  }
  for (std::size_t i = 0; i < options_.dump_count; i++) {
    if (!std::strcmp(options_.dumps[i].stage, "guards")) std::fprintf(stderr, "%s%s\n", segment->guards.print().c_str(), segment->host.print(segment->guards).c_str());
    if (!std::strcmp(options_.dumps[i].stage, "graph")) std::fprintf(stderr, "%s\n", graph::print(*segment->graph).c_str());
  }
  entry.segments.insert(entry.segments.begin(), std::move(segment));
}

/// A number that is another one when what lies in the tensor may be.
static std::uint64_t content_of(const at::Tensor& tensor) {
  std::size_t content = std::hash<const void*>()(tensor.storage().unsafeGetStorageImpl());
  auto mix = [&](std::uint64_t part) { content = content * 0x9e3779b97f4a7c15u + part; };
  mix(reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()));
  mix(static_cast<std::uint64_t>(tensor._version()));
  mix(guards::alias_epoch(tensor));
  return std::max<std::uint64_t>(content, 1);  // 0: not read
}

/// For people: "forward (model.py:12), 69 operators".
static std::string name_of(const graph::Graph& graph) {
  const std::int32_t first = graph.nodes.empty() ? -1 : graph.nodes.front().source;
  const graph::SourceLine line = first < 0 ? graph::Source{} : graph.sources[static_cast<std::size_t>(first)];
  return fmt::format("{} ({}:{}), {} operator{}", line.function, line.file.substr(line.file.rfind('/') + 1), line.line, graph.nodes.size(), graph.nodes.size() == 1 ? "" : "s");
}

int Engine::backend_number(PyObject* lower) {
  if (lower == Py_None) return 0;
  auto found = std::find_if(backends_.begin(), backends_.end(), [&](const auto& known) { return known.second.get() == lower; });
  if (found != backends_.end()) return found->first;
  backends_.emplace(++backends_made_, Ref::borrow(lower));
  return backends_made_;
}

void Engine::forget_backend(PyObject* lower) {
  const int number = backend_number(lower);
  std::vector<std::unique_ptr<Entry>> dying;  // dies last: objects that die may run Python code
  for (auto& [code, entries] : entries_) {
    auto gone = std::stable_partition(entries.begin(), entries.end(), [&](const auto& entry) { return Scope::backend_of_key(entry->scope) != number; });
    std::move(gone, entries.end(), std::back_inserter(dying));
    entries.erase(gone, entries.end());
  }
  const auto held = backends_.extract(number);
}

/// One graph for all sizes: it is shown to a back end once.
void Engine::lower_elsewhere(trace::Segment& segment, const std::vector<at::Tensor>& inputs) {
  segment.code.lowered = true;
  if (segment.graph->nodes.empty()) return;
  auto start = std::chrono::steady_clock::now();
  const CompileStatus status(name_of(*segment.graph));
  const NotOfProgram quiet;
  c10::impl::ExcludeDispatchKeyGuard uncounted(trace::kRecordedKeys);
  const Ref lower = Ref::borrow(backend_of(segment.backend));  // it may make the engine forget it
  segment.code.executable = lower.get() == Py_None ? runtime::make_replayer(segment.graph) : lower_with(lower.get(), segment, inputs);
  if (!segment.code.executable) error_ = Ref::steal(PyErr_GetRaisedException());
  report_.compile_seconds += seconds_since(start);
}

void Engine::lower(trace::Code& code, const graph::Graph& recorded, const std::vector<at::Tensor>& inputs, lowering::Shared* shared, bool guess) {
  auto start = std::chrono::steady_clock::now();
  const CompileStatus status(name_of(recorded));
  Quiet quiet;
  code.lowered = true;
  code.guessed = false;
  code.folded.clear();
  code.folded_at = guards::kNoAliasCount;
  if (!recorded.nodes.empty()) {
    auto graph = std::make_shared<graph::Graph>(recorded);
    const bool fold = !code.is_plain && code.refolds < kMaxRefolds;
    for (std::size_t i = 0; i < inputs.size(); i++) {
      if (!fold || !guards::is_foldable(inputs[i])) graph->inputs[i].kind = graph::InputKind::kActivation;
    }
    try {
      if (stress(kDynrunStressExtern)) {
        code.executable = runtime::make_replayer(graph);
      } else {
        lowering::Options options;
        options.fold_parameters = fold;
        options.shared = shared;
        options.guess = guess;
        for (std::size_t i = 0; shared && i < inputs.size(); i++) {
          options.contents.push_back(graph->inputs[i].kind == graph::InputKind::kParameter ? content_of(inputs[i]) : 0);
        }
        if (shared) options.contents = shared->steady(std::move(options.contents));
        for (std::size_t i = 0; i < options.contents.size(); i++) {
          if (options.contents[i] == 0) graph->inputs[i].kind = graph::InputKind::kActivation;
        }
        show_lowering(options);
        if (options_.verify != 0) options.check = [&](runtime::Executable& executable, const std::string& variant) { check_variant(graph, inputs, executable, variant); };
        c10::impl::ExcludeDispatchKeyGuard uncounted(trace::kRecordedKeys);
        lowering::Lowered lowered = lowering::lower(graph, inputs, options);
        code.executable = std::move(lowered.executable);
        code.guessed = lowered.guessed;
        for (int input : lowered.folded_inputs) {
          const at::Tensor& tensor = inputs[static_cast<std::size_t>(input)];
          guards::watch_storage(tensor);
          code.folded.push_back({input, c10::weak_intrusive_ptr<c10::StorageImpl>(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(tensor.storage().unsafeGetStorageImpl())), tensor.const_data_ptr(),
                                    static_cast<std::uint32_t>(tensor._version()), guards::alias_epoch(tensor)});
        }
      }
    } catch (const std::exception& error) {
      std::fprintf(stderr, "dynrun: lowering failed, the segment runs libtorch's operators: %s\n", error.what());
      code.executable = runtime::make_replayer(graph);
    }
  }
  report_.compile_seconds += seconds_since(start);
}

std::optional<trace::Break> Engine::of_program(const trace::Break& why) {
  auto own = [](const graph::SourceLine& line) { return line.file.rfind("<dynrun>", 0) == 0; };
  if (!own(why.line)) {
    trace::Break told = why;
    std::erase_if(told.callers, [](const graph::SourceLine& line) { return line.file == python::kStandInFile; });
    return told;
  }
  auto caller = std::find_if_not(why.callers.begin(), why.callers.end(), own);
  const std::string& function = why.line.function;
  const bool of_decorator = function != "stats" && function != "explain" && function != "export";
  const bool told = why.line.file == python::kStandInFile || (of_decorator && (why.id == report::BreakId::k_scope || why.id == report::BreakId::k_disabled));
  if (!told || caller == why.callers.end()) return std::nullopt;
  trace::Break moved = why;
  moved.line = *caller;
  moved.column = moved.end_column = -1;
  moved.callers.assign(std::next(caller), why.callers.end());
  return moved;
}

std::int32_t Engine::count_break(const trace::Break& met) {
  const std::optional<trace::Break> told = of_program(met);
  if (!told) return -1;
  const trace::Break& why = *told;
  const report::BreakInfo info = report::break_info(why.id, why.detail);
  auto same = [&](const report::GraphBreak& known) {
    return known.id == info.id && known.column == why.column && known.place.is_line_of(place_of(why.line));
  };
  auto known = std::find_if(break_rows_.begin(), break_rows_.end(), same);
  if (known == break_rows_.end()) {
    report::GraphBreak row{info.id, info.what, place_of(why.line), 0, info.cure, why.column, why.end_column, {}, 0, 0};
    if (!why.detail.empty()) row.reason += ": " + why.detail;
    std::transform(why.callers.begin(), why.callers.end(), std::back_inserter(row.callers), place_of);
    const auto own = std::find_if(row.callers.begin(), row.callers.end(), [](const report::Place& caller) { return !report::is_library(caller.file); });
    if (report::is_library(row.place.file) && own != row.callers.end()) row.cure += fmt::format("; your call is at {}:{} in {}", own->file, own->line, own->function);
    known = break_rows_.insert(known, std::move(row));
    break_ticks_.emplace_back();
  }
  const auto row = static_cast<std::int32_t>(known - break_rows_.begin());
  note_met(*known, break_ticks_[static_cast<std::size_t>(row)], met_);
  known->count++;
  return row;
}

void Engine::count_gap(std::int32_t break_row, std::uint64_t ticks) {
  const auto at = static_cast<std::size_t>(break_row);
  note_met(break_rows_[at], break_ticks_[at], met_);
  break_rows_[at].replays++;
  break_ticks_[at].all += ticks;
}

void Engine::count_miss(const guards::Miss& miss, const trace::Segment& segment) {
  std::string was = miss.was, now = miss.now;
  auto row_of = [&] { return miss.guard + '\n' + was + '\n' + now; };
  auto known = miss_rows_.find(row_of());
  if (known == miss_rows_.end() && miss_rows_.size() >= kMostMissRows) {  // of numbers and texts without end not each has a row
    was = "one of many";
    now = "another";
    known = miss_rows_.find(row_of());
  }
  if (known != miss_rows_.end()) {
    report_.guard_misses[known->second].count++;
    return;
  }
  const report::Place place = place_of(segment.lines.at(miss.line));
  miss_rows_.emplace(row_of(), report_.guard_misses.size());
  report_.guard_misses.push_back({miss.guard, was, now, place, 1});
}

void Engine::count_given_up(const graph::SourceLine& line) {
  auto same = [&](const report::GivenUp& known) { return known.place.is_line_of(place_of(line)); };
  if (std::none_of(report_.given_up.begin(), report_.given_up.end(), same)) report_.given_up.push_back({place_of(line), kMaxRecordings});
}

void Engine::count_replay(trace::Segment& segment, std::uint64_t ticks) {
  report_.segment_replays++;
  report_.operators_captured += segment.operators;
  report_.frames_replayed += segment.frames;
  replayed_operators_ += segment.operators;
  if (segment.row < 0) return;
  const auto at = static_cast<std::size_t>(segment.row);
  note_met(segment_rows_[at], segment_ticks_[at], met_);
  segment_rows_[at].replays++;
  if (!segment.timed) return;
  Ticks& spent = segment_ticks_[at];
  spent.all += ticks;
  if (const std::uint64_t code = std::exchange(segment.code_ticks, 0); code > 0) {
    spent.code += code;
    spent.of_timed_code += ticks;
    if (segment.code.executable) {
      segment_rows_[at].kernels = segment.code.executable->kernel_count();
      segment_rows_[at].library_calls = segment.code.executable->extern_count();
    }
  }
}

int Engine::fullgraph_at(const vm::Machine& machine) const {
  int found = Scope::here().fullgraph;
  for (vm::Activation* activation = machine.top; activation && found != Scope::kMustNotBreak; activation = activation->caller) {
    const Mark* mark = mark_of(activation->frame);
    if (mark && mark->fullgraph != Scope::kMayBreak) found = mark->fullgraph;
  }
  return found;
}

bool Engine::is_in_compiled_function(const vm::Machine& machine) const {
  bool found = Scope::here().of_function;
  for (vm::Activation* activation = machine.top; activation && !found; activation = activation->caller) found = mark_of(activation->frame) != nullptr;
  return found;
}

bool Engine::asks_for_one_graph(python::Frame* frame) const {
  const Mark* mark = mark_of(frame);
  return mark && mark->fullgraph != Scope::kMayBreak;
}

void Engine::mark(PyObject* object, DynrunDynamic dynamic, int fullgraph) {
  if (PyMethod_Check(object)) object = PyMethod_GET_FUNCTION(object);
  vm::see_frames_again();
  marked_[object] = {Ref::steal(PyWeakref_NewRef(object, nullptr)), dynamic, fullgraph};
  if (PyErr_Occurred()) {
    PyErr_Clear();
    marked_.erase(object);
  }
}

void Engine::run_apart(PyCodeObject* code) {
  // Test modes make breaks of their own, and under --vm=all the VM runs every frame.
  if (options_.stress != 0 || options_.vm == kDynrunVmAll || !apart_.insert(code).second) return;
  apart_codes_.push_back(Ref::borrow(reinterpret_cast<PyObject*>(code)));
}

bool Engine::handles_tensors(python::Frame* frame) { return takes_tensors(frame); }

void Engine::forget_segments() {
  auto entries = std::exchange(entries_, {});  // dies last: objects that die may run Python code
  auto codes = std::exchange(apart_codes_, {});
  auto backends = std::exchange(backends_, {});
  heat_.clear();
  trials_.forget();
  backward_apart_ = false;
  apart_.clear();
  gave_operators_.clear();
}

void Engine::measure(bool on) {
  measures_ = on;
  trace::outside_hook = on ? +[](std::uint32_t operators) { return the_engine->outside_.count(operators); } : nullptr;
  for (auto& [code, entries] : entries_) {
    for (auto& entry : entries) {
      for (auto& segment : entry->segments) segment->timed = on;
    }
  }
}

report::SegmentPlace Engine::segment_row(std::size_t at) const {
  report::SegmentPlace row = segment_rows_[at];
  row.microseconds = clock_.microseconds(segment_ticks_[at].all);
  const Ticks& spent = segment_ticks_[at];
  if (spent.of_timed_code > 0) row.code_microseconds = row.microseconds * static_cast<double>(spent.code) / static_cast<double>(spent.of_timed_code);
  return row;
}

report::GraphBreak Engine::break_row(std::size_t at) const {
  report::GraphBreak row = break_rows_[at];
  row.microseconds = clock_.microseconds(break_ticks_[at].all);
  return row;
}

report::Report Engine::report() const {
  report::Report report = report_;
  report.operators_total = trace::operator_count() - operators_before_ + replayed_operators_ - replayed_before_;
  report.operators_assumed = assumed_operators() - assumed_before_;
  report.frames_vm = vm::counters().frames_vm;
  report.frames_cpython = vm::counters().frames_cpython;
  report.frames_handed_over = vm::counters().handed_over;
  report.frames_traced = vm::counters().frames_traced;
  if (measures_) report.seconds = clock_.seconds();
  report.outside_operators = outside_.lines();
  for (std::size_t i : met_in_order(segment_rows_, segment_ticks_)) {
    report.segments.push_back(segment_row(i));
    report.replay_microseconds += report.segments.back().microseconds;
  }
  for (std::size_t i : met_in_order(break_rows_, break_ticks_)) report.graph_breaks.push_back(break_row(i));
  return report;
}

void Engine::reset_report() {
  report_ = {};
  miss_rows_.clear();
  for (report::SegmentPlace& row : segment_rows_) row.count = row.replays = 0;
  for (report::GraphBreak& row : break_rows_) row.count = row.replays = 0;
  segment_ticks_.assign(segment_rows_.size(), {});
  break_ticks_.assign(break_rows_.size(), {});
  clock_ = report::Clock();
  outside_.reset();
  replayed_before_ = replayed_operators_;
  operators_before_ = trace::operator_count();
  assumed_before_ = assumed_operators();
  vm::counters() = {};
}

namespace {

void place_cache(const DynrunOptions& options) {
  std::function<void(const std::string&)> notice;
  if (!options.quiet) notice = [](const std::string& line) { std::fprintf(stderr, "dynrun: %s\n", line.c_str()); };
  runtime::DiskCache::place(options.cache != nullptr ? options.cache : "", std::move(notice));
}

}  // namespace

void start_engine(const DynrunOptions& options) {
  if (the_engine == nullptr) the_engine = new Engine(options);
  if (options.explain != kDynrunExplainNone || options.stats_file || options.explain_file || options.html_file) the_engine->measure(true);
  if (options.html_file) the_engine->follow();
  CompileStatus::allow(!options.quiet);
  place_cache(options);
  vm::set_engine(the_engine);
  guards::set_verify_guards(options.verify != 0);
  if (options.stack_low) dynrun_set_stack_low(options.stack_low);
  vm::set_frame_filter(&filter);
  vm::set_hand_over_stress(the_engine->stress(kDynrunStressHandover));
  vm::set_frame_policy(options.vm == kDynrunVmAll   ? vm::FramePolicy::kAll
                       : options.vm == kDynrunVmOff ? vm::FramePolicy::kOff
                                                    : vm::FramePolicy::kAuto);
}

const char* start_hook() { return vm::install_frame_hook(); }

}  // namespace dynrun::engine
