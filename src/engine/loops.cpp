#include "engine/loops.h"

#include "engine/engine.h"
#include "engine/session.h"
#include "python/compat.h"
#include "python/reference.h"
#include "python/text.h"
#include "trace/operator_recorder.h"
#include "vm/hook.h"

#include <algorithm>
#include <cstring>

namespace dynrun::engine {

using python::Ref;

namespace {

constexpr int kMeasuredTurn = 3;  // by then what the loop calls is hot: recorded in its second turn, replayed in its third
constexpr int kLongLoopTurn = 64;
constexpr int kMaxFruitless = 3;
constexpr std::size_t kTimedTurns = 16;
constexpr double kSettles = 3e5;  // microseconds

/// sys.monitoring's callback: (code, instruction offset, destination offset).
PyObject* on_jump(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Loops& loops = engine()->loops();
  if (!vm::sees_frames()) return Py_NewRef(loops.passed() ? loops.disable() : Py_None);
  auto* frame = reinterpret_cast<python::Frame*>(PyThreadState_Get()->cframe->current_frame);
  if (count != 3 || !frame || reinterpret_cast<PyObject*>(frame->code) != arguments[0]) Py_RETURN_NONE;
  bool done = false;
  const int unit = sizeof(std::uint16_t);
  if (!loops.jumped(frame, static_cast<int>(PyLong_AsLong(arguments[1])) / unit, static_cast<int>(PyLong_AsLong(arguments[2])) / unit, &done)) return nullptr;
  return Py_NewRef(done ? loops.disable() : Py_None);
}

PyMethodDef on_jump_method{"dynrun_loop", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&on_jump)), METH_FASTCALL, nullptr};

/// Whether the module that the globals are of has imported torch.
bool knows_torch(PyObject* globals) {
  static PyObject* const name = PyUnicode_InternFromString("torch");
  PyObject* found = PyDict_CheckExact(globals) ? PyDict_GetItemWithError(globals, name) : nullptr;
  return found && PyModule_Check(found);
}

/// Whether the code speaks of torch, as that which is about to import it does.
bool names_torch(PyCodeObject* code) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); i++) {
    if (!std::strncmp(python::text_of(PyTuple_GET_ITEM(code->co_names, i)), "torch", 5)) return true;
  }
  return false;
}

}  // namespace

bool Loops::is_ready() {
  if (tool_ != Tool::kUnasked) return tool_ == Tool::kOurs;
  tool_ = Tool::kTaken;
  PyObject* monitoring = PySys_GetObject("monitoring");
  Ref made = monitoring ? Ref::steal(PyObject_CallMethod(monitoring, "use_tool_id", "is", DYNRUN_MONITORING_TOOL, "dynrun")) : Ref();
  Ref function = made ? Ref::steal(PyCFunction_New(&on_jump_method, nullptr)) : Ref();
  Ref events = function ? Ref::steal(PyObject_GetAttrString(monitoring, "events")) : Ref();
  Ref jump = events ? Ref::steal(PyObject_GetAttrString(events.get(), "JUMP")) : Ref();
  Ref disable = jump ? Ref::steal(PyObject_GetAttrString(monitoring, "DISABLE")) : Ref();
  Ref before = disable ? Ref::steal(PyObject_CallMethod(monitoring, "register_callback", "iOO", DYNRUN_MONITORING_TOOL, jump.get(), function.get())) : Ref();
  if (!before) {
    PyErr_Clear();  // a tool of the program's own has the number: its loops stay with CPython
    return false;
  }
  monitoring_ = Py_NewRef(monitoring);
  jump_ = jump.release();
  disable_ = disable.release();
  tool_ = Tool::kOurs;
  return true;
}

bool Loops::is_new(PyCodeObject* code) {
  // Each frame that CPython runs asks. A version is a code object's own, wherever it lies.
  Seen& seen = seen_[(reinterpret_cast<std::uintptr_t>(code) >> 5) % seen_.size()];
  if (seen.code == code && seen.version == code->co_version) return false;
  seen = {code, code->co_version};
  Ref& known = considered_[code];
  if (known && PyWeakref_GET_OBJECT(known.get()) == reinterpret_cast<PyObject*>(code)) return false;
  PyObject* raised = PyErr_GetRaisedException();
  known = Ref::steal(PyWeakref_NewRef(reinterpret_cast<PyObject*>(code), nullptr));
  if (known) PyObject_GC_UnTrack(known.get());  // nothing hangs on it, and programs count what the collector looks at
  PyErr_SetRaisedException(raised);
  return true;
}

Loops::CodeLoops& Loops::loops_of(const bytecode::Code* code) {
  CodeLoops& loops = loops_[code];
  if (loops.serial != code->serial) {
    stop_measuring();
    loops = {code->serial, false, {}};
  }
  return loops;
}

void Loops::consider(PyCodeObject* code, PyObject* globals, bool recorded_soon) {
  if (engine_.options().vm == kDynrunVmOff) return;
  if (!is_new(code) || engine_.options().fullgraph || engine_.stress(kDynrunStressHandover) || !(knows_torch(globals) || names_torch(code))) return;
  const bytecode::Code* decoded = bytecode::decode(code);
  if (!decoded->supported || !decoded->has_backward_jump || !is_ready()) return;
  loops_of(decoded).recorded_soon = recorded_soon;
  PyObject* raised = PyErr_GetRaisedException();
  Ref set = Ref::steal(PyObject_CallMethod(monitoring_, "set_local_events", "iOO", DYNRUN_MONITORING_TOOL, code, jump_));
  PyErr_SetRaisedException(raised);
}

void Loops::consider_running() {
  auto* frame = reinterpret_cast<python::Frame*>(PyThreadState_Get()->cframe->current_frame);
  for (; frame; frame = frame->previous) {
    if (frame->owner == python::kOwnedByCStack || dynrun_is_incomplete(frame)) continue;
    consider(frame->code, frame->globals);
  }
}

std::uint64_t Loops::uncaptured() const { return trace::operator_count() - engine_.recorded_operators(); }

void Loops::measure(Loop& loop) {
  stop_measuring();
  measured_ = &loop;
  measuring_thread_ = PyThreadState_Get();
  loop.stage = Loop::Stage::kMeasured;
  trace::measure_on_this_thread(true);
  loop.uncaptured = uncaptured();
}

/// A loop that is not through with its measured turn when another one's begins is measured again later.
void Loops::stop_measuring() {
  if (!measured_) return;
  if (measured_->stage == Loop::Stage::kMeasured) measured_->stage = Loop::Stage::kCold;
  measured_ = nullptr;
  if (measuring_thread_ == PyThreadState_Get()) trace::measure_on_this_thread(false);
}

bool Loops::jumped(python::Frame* frame, int from, int to, bool* done) {
  PyThreadState* thread = PyThreadState_Get();
  const bytecode::Code* code = bytecode::decode(frame->code);
  *done = to >= from || frame->owner == python::kOwnedByGenerator;
  if (*done || !code->supported || !vm::sees_frames() || dynrun_is_monitored(thread, frame->code)) return true;
  if (trace::inside_operator() || Engine::disabled_depth() > 0 || Session::recording_here() || thread->tracing != 1) return true;
  CodeLoops& loops = loops_of(code);
  Loop& loop = loops.by_head[to];
  if (loop.turns++ == 0) loop.head = code->index_at[static_cast<std::size_t>(to)];
  loop.last = std::max(loop.last, code->index_at[static_cast<std::size_t>(from)]);
  switch (loop.stage) {
    case Loop::Stage::kCold:
      if (loop.turns >= (loops.recorded_soon ? kLongLoopTurn : kMeasuredTurn)) measure(loop);
      return true;
    case Loop::Stage::kMeasured: {
      if (measuring_thread_ != thread) return true;
      const bool worth = uncaptured() != loop.uncaptured;
      loop.stage = worth ? Loop::Stage::kHot : Loop::Stage::kLeft;
      stop_measuring();
      *done = !worth;
      return !worth || lend(loop, frame);
    }
    case Loop::Stage::kHot: {
      const bool lent = lend(loop, frame);
      *done = loop.stage == Loop::Stage::kLeft;
      return lent;
    }
    case Loop::Stage::kTried: {
      time_turn(loop);
      *done = loop.stage == Loop::Stage::kLeft;
      return loop.stage != Loop::Stage::kHot || lend(loop, frame);
    }
    case Loop::Stage::kLeft: *done = true; return true;
  }
  return true;
}

bool Loops::passed() {
  passed_++;
  return engine_.runs_plain();
}

/// Functions are tried as wholes.
bool Loops::turned(const bytecode::Code& code, std::int32_t head, bool suspect) {
  if (code.object->co_flags & CO_OPTIMIZED) return false;
  CodeLoops& loops = loops_of(&code);
  auto found = std::find_if(loops.by_head.begin(), loops.by_head.end(), [&](const auto& known) { return known.second.head == head; });
  if (found == loops.by_head.end() || found->second.tried || found->second.stage != Loop::Stage::kHot) return false;
  Loop& loop = found->second;
  const std::uint64_t now = report::ticks(), recordings = engine_.recordings();
  const bool counts = loop.turned_at != 0 && loop.recordings == recordings;
  if (counts) {
    loop.here.push_back(now - loop.turned_at);
    loop.spent += loop.here.back();
    loop.suspected += suspect;
  }
  loop.turned_at = now;
  loop.recordings = recordings;
  if (loop.here.size() < kTimedTurns) return false;
  const double tick = engine_.microseconds_a_tick(), spent = static_cast<double>(loop.spent) * tick;
  const bool tries = loop.suspected * 2 > static_cast<int>(kTimedTurns) && typical(loop.here, 0) * tick < kLongest;
  if (!tries) loop.tried = true;
  if (tries && spent > kWorthATrial) {
    loop.stage = Loop::Stage::kTried;
    loop.tried_at = loop.turned_at = 0;
    return true;
  }
  loop.here.clear();
  loop.suspected = 0;
  return false;
}

/// A turn in CPython is over. What it calls is recorded as ever, and may be tried itself: that takes a while.
void Loops::time_turn(Loop& loop) {
  const std::uint64_t now = report::ticks();
  if (loop.tried_at == 0) loop.tried_at = now;
  const double passed = static_cast<double>(now - loop.tried_at) * engine_.microseconds_a_tick();
  if (loop.turned_at != 0 && passed > kSettles) loop.there.push_back(now - loop.turned_at);
  loop.turned_at = now;
  if (loop.there.size() < kTimedTurns) return;
  loop.tried = true;
  loop.stage = typical(loop.there, 0) < kFaster * typical(loop.here, 0) ? Loop::Stage::kLeft : Loop::Stage::kHot;
  loop.here.clear();
  loop.there.clear();
}

bool Loops::lend(Loop& loop, python::Frame* frame) {
  const std::uint64_t captured = engine_.captured_operators();
  if (frame->code->co_flags & CO_OPTIMIZED) engine_.suspect(Engine::trial_key(frame));
  vm::Lent lent = vm::run_loop(PyThreadState_Get(), frame, loop.head, loop.last);
  loop.fruitless = engine_.captured_operators() == captured ? loop.fruitless + 1 : 0;
  if (loop.fruitless >= kMaxFruitless) loop.stage = Loop::Stage::kLeft;
  return lent != vm::Lent::kRaised;
}

}  // namespace dynrun::engine
