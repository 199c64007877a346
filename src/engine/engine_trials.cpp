// Which functions run in CPython because their calls are faster there.

#include "engine/engine.h"
#include "engine/session.h"
#include "python/compat.h"
#include "python/text.h"
#include "trace/operator_recorder.h"
#include "vm/hook.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

namespace dynrun::engine {

using python::Ref;

namespace {

/// Whether the program has begun to use CUDA. The driver itself is not asked: from then on a forked process could not use it.
bool uses_gpu() {
  static PyObject* const key = PyUnicode_InternFromString("_initialized");
  static PyObject* names = nullptr;
  if (names == nullptr) {
    PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "torch.cuda");
    if (module == nullptr || !PyModule_Check(module)) return false;
    names = Py_NewRef(PyModule_GetDict(module));
  }
  return PyDict_GetItemWithError(names, key) == Py_True;
}

}  // namespace

std::size_t Engine::trial_key(python::Frame* frame) {
  PyObject* closure = frame->function && PyFunction_Check(frame->function) ? PyFunction_GET_CLOSURE(frame->function) : nullptr;
  return heat_key(frame) ^ (std::hash<const void*>()(closure) * 0x9e3779b97f4a7c15u);
}

void Engine::suspect(std::size_t key) {
  if (trials_.suspect(key)) suspect_callers();
}

/// With all that they call they may be better off.
void Engine::suspect_callers() {
  constexpr int kCallers = 6;
  int left = kCallers;
  auto* frame = reinterpret_cast<python::Frame*>(PyThreadState_Get()->cframe->current_frame);
  for (; frame && left > 0; frame = frame->previous) {
    if (frame->owner == python::kOwnedByCStack || dynrun_is_incomplete(frame)) continue;
    if (!(frame->code->co_flags & CO_OPTIMIZED)) return;
    if (frame->owner != python::kOwnedByGenerator) trials_.suspect(trial_key(frame));
    left--;
  }
}

/// On a GPU the time on the host is not what a call takes; with more threads it is not this one's. What the program has asked to be compiled
/// is not left out.
bool Engine::may_try() const {
  const bool plain = options_.stress == 0 && options_.verify == 0 && options_.vm == kDynrunVmAuto && !options_.fullgraph;
  return plain && marked_.empty() && !Scope::any() && PyThreadState_Get()->tracing == 0 && dynrun_is_only_thread() && !uses_gpu();
}

bool Engine::times(python::Frame* frame) {
  constexpr std::uint32_t kLookedEvery = 1024;  // frames: where they come by the thousand
  if (++frames_ % kLookedEvery == 0 && !Session::recording_here() && disabled_depth() == 0) suspect_callers();
  constexpr int kGenerators = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
  if (!trials_.any() || (frame->code->co_flags & kGenerators) || trace::inside_operator() || Session::recording_here() || disabled_depth() > 0) return false;
  return may_try();
}

PyObject* Engine::timed(python::Frame* frame, const std::function<PyObject*()>& as_ever, const std::function<PyObject*()>& in_cpython) {
  const std::optional<Trials::Call> call = trials_.next(trial_key(frame), recordings_);
  if (!call) return as_ever();
  const Ref code = call->settled ? Ref() : Ref::borrow(reinterpret_cast<PyObject*>(frame->code));  // the frame does not live as long
  const double tick = microseconds_a_tick();
  const std::size_t key = heat_key(frame);
  const std::uint64_t start = report::ticks(), jumps = loops_.passed_jumps();
  PyObject* result = nullptr;
  if (call->way == Way::kPlain) {
    const bool outside = std::exchange(runs_plain_, call->settled);
    const vm::PlainFrames plain;
    result = in_cpython();
    runs_plain_ = outside;
  } else {
    result = call->way == Way::kHere ? as_ever() : in_cpython();
  }
  constexpr double kJump = 0.15;  // microseconds: what being told of a jump costs, which is over when the function is settled
  const auto told = static_cast<std::uint64_t>(static_cast<double>(loops_.passed_jumps() - jumps) * kJump / tick);
  const std::uint64_t all = report::ticks() - start, ticks = all - std::min(all, told);
  const std::optional<Way> found = result ? trials_.note(*call, ticks, recordings_, tick) : std::nullopt;
  if (found) count_left(code.get(), *found, tick);
  if (found == Way::kLeft) {
    Heat& heat = heat_[key];
    heat.rejected = heat.empty = true;
  }
  if (found == Way::kPlain) forget_loops();
  return result;
}

void Engine::count_left(PyObject* object, Way way, double microseconds_a_tick) {
  auto* code = reinterpret_cast<PyCodeObject*>(object);
  if (code == nullptr || way == Way::kHere) return;
  const report::Place place{python::file_of(code->co_filename), code->co_firstlineno, python::text_of(code->co_qualname)};
  if (place.file.rfind("<frozen ", 0) == 0) return;  // imports: nobody's own
  auto is_it = [&](const report::LeftFunction& left) { return left.place.is_line_of(place) && left.place.function == place.function; };
  std::erase_if(report_.left_functions, is_it);
  report_.left_functions.push_back({place, way == Way::kPlain, trials_.took() * microseconds_a_tick, trials_.took_here() * microseconds_a_tick});
}

/// Segments of loops at a script's own level may hold calls of a function that is to run by itself from now on.
void Engine::forget_loops() {
  const python::Ref error = python::Ref::steal(PyErr_GetRaisedException());
  std::vector<std::shared_ptr<trace::Segment>> dying;  // objects that die may run Python code
  for (auto& [code, entries] : entries_) {
    for (auto& entry : entries) {
      if (entry->segments.empty() || entry->point.frames.front().first->object->co_flags & CO_OPTIMIZED) continue;
      std::move(entry->segments.begin(), entry->segments.end(), std::back_inserter(dying));
      entry->segments.clear();
      entry->recordings = entry->failures = entry->plain_steps = 0;
    }
  }
  dying.clear();
  if (error) PyErr_SetRaisedException(Py_NewRef(error.get()));
}

}  // namespace dynrun::engine
