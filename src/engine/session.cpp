#include "engine/session.h"

#include "engine/fullgraph.h"
#include "guards/torch_python.h"
#include "python/signals.h"
#include "runtime/require_truth.h"
#include "trace/callables.h"
#include "trace/shape_plans.h"
#include "trace/truth.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace dynrun::engine {

using bytecode::Instruction;
using trace::Flow;
using vm::Decision;

namespace {

constexpr std::size_t kMaxSegments = 12;
constexpr int kMaxFailures = 3;
constexpr int kMaxFills = 32;
constexpr int kMissedBefore = 32;       // times in a row, with nothing more to be recorded: then the segments are tried at longer and longer intervals
constexpr int kLongestSleep = 1024;     // calls
constexpr int kMaxFruitless = 16;
constexpr std::size_t kMaxPlain = 16;   // instructions that run faster one by one than as a segment
constexpr int kTorchStateUses = 16;     // another thread may change the matmul precision

/// The thread's memory for the objects of guards, which are many; a probe within a probe gets memory of its own.
class Registers {
 public:
  Registers() : registers_(std::move(spare())) {}
  ~Registers() { spare() = std::move(registers_); }
  Registers(const Registers&) = delete;
  Registers& operator=(const Registers&) = delete;
  std::vector<PyObject*>& operator*() { return registers_; }

 private:
  static std::vector<PyObject*>& spare() {
    thread_local std::vector<PyObject*> spare;
    return spare;
  }
  std::vector<PyObject*> registers_;
};

/// The classes of the locals and of the stack, null where a slot is empty.
void classes_of(vm::Activation& activation, std::vector<const PyTypeObject*>& classes) {
  classes.clear();
  for (PyObject** slot = activation.locals(); slot < activation.stack_pointer; slot++) classes.push_back(*slot ? Py_TYPE(*slot) : nullptr);
}

/// Loads between two breaks: no operator, no effect, no call.
bool is_plain(const trace::Segment& segment, const trace::Recorder& recorder) {
  // What an operator refused for its data may be recorded for others of the same classes.
  using report::BreakId;
  const std::optional<BreakId> why = recorder.why() ? std::optional(recorder.why()->id) : std::nullopt;
  const bool by_class = why == BreakId::k_opaque_call || why == BreakId::k_opaque_operation || why == BreakId::k_loop || why == BreakId::k_data_dependent_bool ||
                        why == BreakId::k_generator;
  bool same_frames = segment.kept_frames == static_cast<int>(segment.entry.frames.size()) && segment.exit_frames.size() == segment.entry.frames.size();
  return by_class && !segment.returns && !segment.continues && same_frames && segment.frames == 1 && segment.operators == 0 && segment.graph->nodes.empty() &&
         segment.effects.empty() && segment.host_calls.empty() && !segment.sets_autocast && recorder.instructions() <= kMaxPlain;
}

/// An instruction that runs neither Python code nor C code that could change the matmul precision.
bool leaves_torch_state(vm::Activation& activation, const Instruction& in) {
  using bytecode::Opcode;
  switch (in.opcode) {
    case Opcode::kNop:
    case Opcode::kLoadConst:
    case Opcode::kLoadFast:
    case Opcode::kPushNull:
    case Opcode::kCopy:
    case Opcode::kSwap: return true;
    case Opcode::kPopJumpIfTrue:
    case Opcode::kPopJumpIfFalse: return guards::is_plain_tensor(activation.peek(1));
    case Opcode::kCall: {
      // A method of tensors without arguments: item, tolist, numpy.
      PyObject *method = activation.peek(in.argument + 2), *self = activation.peek(in.argument + 1);
      return in.argument == 0 && method && self && Py_TYPE(method) == &PyMethodDescr_Type && guards::is_plain_tensor(self);
    }
    default: return false;
  }
}

bool returns(const Instruction& instruction) { return instruction.opcode == bytecode::Opcode::kReturnValue || instruction.opcode == bytecode::Opcode::kReturnConst; }

/// `in_full`: sizes of what is computed are worked out for it, which takes long.
guards::Miss explain_miss(const trace::Segment& segment, const trace::TorchState& now, const std::vector<guards::EntryFrame>& frames, bool in_full) {
  if (!(segment.state == now)) return segment.state.difference(now);
  std::vector<PyObject*> registers;
  if (!trace::guards_hold(segment, frames, registers)) return segment.guards.explain_miss(frames);
  return segment.shapes && in_full ? segment.shapes->explain_miss(segment, registers) : segment.host.explain_miss(registers, segment.guards);
}

}  // namespace

Session::Session(Engine& engine, vm::Machine& machine, vm::Activation& base, bool compile_now)
    : engine_(engine), machine_(machine), base_(&base), compile_now_(compile_now), origin_(trace::entry_point(&base, &base)),
      heat_key_(engine.heat_key(base.frame)), trial_key_(engine.trial_key(base.frame)),
      in_constructor_(engine.options().fullgraph && constructs(base.frame)) {
  generator_ = base.frame->owner == python::kOwnedByGenerator;
  operators_before_ = trace::operators_here();
  if (machine.borrowed) turn_of_ = {&base, base.pc};
}

Session::~Session() = default;

bool Session::ran_no_operator() const { return origin_.frames.back().second == 0 && operators_before_ == trace::operators_here(); }

/// An error that is on its way, put aside.
class KeptError {
 public:
  KeptError() : error_(python::Ref::steal(PyErr_GetRaisedException())) {}
  ~KeptError() {
    if (error_) PyErr_SetRaisedException(error_.release());
  }
  KeptError(const KeptError&) = delete;
  KeptError& operator=(const KeptError&) = delete;

 private:
  python::Ref error_;
};

/// While this is there the session is not taken for one that has nothing left to do.
class Session::Busy {
 public:
  explicit Busy(Session& session) : count_(session.busy_) {
    ++count_;
    if (session.state_ == State::kRecord) held_.emplace();
  }
  ~Busy() { --count_; }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  int& count_;
  KeptError error_;
  std::optional<python::HeldSignals> held_;  // while the recorder works; a replay may block in what it calls
};

void Session::close_gap() {
  if (gap_break_ >= 0) close_gap(report::ticks());
}

void Session::close_gap(std::uint64_t now) {
  if (gap_break_ >= 0) engine_.count_gap(std::exchange(gap_break_, -1), now - gap_start_);
}

void Session::open_gap(std::int32_t break_row, std::uint64_t now) {
  if (break_row < 0) return;
  gap_start_ = now;
  gap_break_ = break_row;
}

void Session::detach() {
  close_gap();
  // Recorded from end to end without one operator: CPython runs such code as well as anybody. (Not so when another state of the
  // world gave a segment, and this one only raised.)
  const bool counts = state_ != State::kIdle && state_ != State::kRefused;
  if (counts && recorded_ && captured_ == 0 && !generator_) {
    Entry& entry = engine_.entry_at(origin_);
    bool fruitless = entry.recordings >= 1 && entry.failures == 0 && entry.segments.empty() && entry.plain_steps == 0;
    if (fruitless && machine_.borrowed) entry.given_up = true;
    else if (fruitless) engine_.reject(origin_, heat_key_, whole_, ran_no_operator());
  }
  const bool whole_calls = !generator_ && !machine_.borrowed && origin_.frames.back().second == 0;
  if (counts && !recorded_ && whole_calls && (steps_ > 0 || captured_ < kFewOperators)) engine_.suspect(trial_key_);
  if (counts && !recorded_ && replayed_ && whole_calls && (captured_ != 0 || !ran_no_operator())) engine_.note_replayed(origin_, heat_key_, captured_);
  state_ = State::kIdle;
  if (recording_here() == this) recording_here() = nullptr;
  if (machine_.observer == this) machine_.observer = nullptr;
  scope_.reset();
  // What these held may die, with Python code of its own.
  std::unique_ptr<trace::Recorder> finished = std::move(recorder_);
  python::Ref refused = std::move(refused_);
}

Decision Session::before(vm::Machine& machine, vm::Activation& activation, const Instruction& instruction) {
  Busy busy(*this);
  try {
    return decide(machine, activation, instruction);
  } catch (const std::exception&) {
    // A tensor that could not be asked what it is: not ours to judge, the code runs without being recorded.
    detach();
    if (&machine != &machine_) machine.observer = nullptr;
    return Decision::kExecute;
  }
}

Decision Session::decide(vm::Machine& machine, vm::Activation& activation, const Instruction& instruction) {
  if (refusal_ && &machine == &machine_) {
    // What has no line of its own (the first instruction of an exception's handler) runs: tracebacks show lines.
    if (!python::has_line(activation.code->object, instruction.offset)) {
      step(1);
      return Decision::kExecute;
    }
    return raise_refusal();
  }
  if (&machine == &machine_ && ends_for_trial()) {
    detach();
    return Decision::kResume;
  }
  switch (state_) {
    case State::kRecord: return record(machine, activation, instruction);
    case State::kProbe:
      if (&machine != &machine_) return Decision::kExecute;
      return probe();
    case State::kStep:
      if (torch_state_uses_ > 0 && !leaves_torch_state(activation, instruction)) torch_state_uses_ = 0;
      break;
    case State::kRefused:
      if (&activation != refused_in_ || !returns(instruction)) break;
      return raise_again();
    case State::kWatch:
    case State::kIdle: break;
  }
  if (&machine != &machine_) machine.observer = nullptr;
  return Decision::kExecute;
}

Decision Session::raise_refusal() {
  python::Ref refusal = std::move(refusal_);
  detach();
  refused_in_ = asked_in(engine_, machine_);
  if (refused_in_ && !(machine_.borrowed && refused_in_ == base_)) {
    state_ = State::kRefused;
    machine_.observer = this;
    refused_ = refusal;
  }
  PyErr_SetRaisedException(refusal.release());
  return Decision::kRaise;
}

/// What was asked for did not happen: no handler of the function's own makes it whole.
Decision Session::raise_again() {
  python::Ref refused = std::move(refused_);
  const bool left = engine_.fullgraph_at(machine_) == Scope::kMayBreak && !engine_.options().fullgraph;  // a block `with optimize(...)`
  detach();
  if (left) return Decision::kExecute;
  const Quiet quiet;
  python::Ref noted = python::Ref::steal(PyObject_CallMethod(refused.get(), "add_note", "s", "It was caught inside of the function, and is raised again at its end."));
  if (noted) PyErr_SetRaisedException(refused.release());
  return Decision::kRaise;
}

/// At the head of a loop that CPython has lent: whether its turns are to be timed there.
bool Session::ends_for_trial() {
  if (!machine_.borrowed || machine_.top != base_ || base_->pc != origin_.frames.back().second || state_ == State::kRecord) return false;
  const bool suspect = steps_ > 0 || captured_ - captured_at_head_ < kFewOperators;
  captured_at_head_ = captured_;
  steps_ = 0;
  return engine_.may_try() && engine_.loops().turned(*base_->code, base_->pc, suspect);
}

Decision Session::probe() {
  bool raised = handed_by_ != nullptr && (machine_.top != handed_by_ || machine_.top->pc != handed_pc_);
  handed_by_ = nullptr;
  if (raised) {
    detach();
    return Decision::kResume;
  }
  const bool disabled = Engine::disabled_depth() > 0;
  // A segment of before that was known may end in the midst of what runs apart.
  const bool may_hand_over = machine_.top != base_ && (machine_.top->pc == 0 || (!disabled && machine_.top->resumption == vm::Resumption::kNone));
  if (may_hand_over && (disabled || engine_.runs_apart(machine_.top->code->object))) {
    handed_by_ = machine_.top->caller;
    handed_pc_ = handed_by_->pc;
    return Decision::kHandOver;
  }
  if (!disabled && calls_alone(*machine_.top)) {
    // Its operators count for what called it; its own visit ends here.
    for (const Visit& visit : visits_) engine_.note_operators(visit.code);
    std::erase_if(visits_, [&](const Visit& visit) { return visit.activation == machine_.top; });
    handed_by_ = machine_.top->caller;
    handed_pc_ = handed_by_->pc;
    return Decision::kRunAnew;
  }
  if (disabled) {  // until the block ends
    step(1);
    return Decision::kResume;
  }
  Entry& entry = engine_.entry_at(base_, machine_.top);
  if (runs_plain(entry)) {
    if (gap_break_ >= 0 || engine_.measures()) {
      const std::uint64_t now = report::ticks();
      close_gap(now);
      if (engine_.measures()) open_gap(entry.plain_break, now);
    }
    step(entry.plain_steps);
    return Decision::kResume;
  }
  if (entry.asleep > 0) {
    entry.asleep--;
    run_top_apart();
    detach();
    return Decision::kResume;
  }
  const trace::TorchState& now = torch_state();
  auto frames = trace::entry_frames(base_, machine_.top);
  Registers lent;
  std::vector<PyObject*>& registers = *lent;
  bool function_entry = machine_.top == base_ && base_->pc == 0;
  bool stressed = engine_.stress(kDynrunStressDrop) || engine_.stress(kDynrunStressGuards);
  if (engine_.stress(kDynrunStressDrop) && engine_.chance(3)) std::exchange(entry.segments, {}).clear();  // objects that die may run Python code
  std::vector<std::shared_ptr<trace::Segment>> refuted;  // die last
  for (std::size_t i = 0; i < entry.segments.size(); i++) {
    std::shared_ptr<trace::Segment> fits = entry.segments[i];
    if (fits->refuted) {
      refuted.push_back(std::move(fits));
      entry.segments.erase(entry.segments.begin() + static_cast<std::ptrdiff_t>(i--));
      continue;
    }
    trace::Segment& segment = *fits;
    if (segment.returns && machine_.borrowed && base_->caller == nullptr) continue;  // CPython's frame cannot return from here
    if (!(segment.state == now) || !trace::guards_hold(segment, frames, registers)) continue;
    std::shared_ptr<trace::ShapePlan> plan;
    if (segment.shapes ? !(plan = segment.shapes->find(segment, registers, hosts_)) : !segment.host.run(registers, hosts_)) continue;
    const trace::Code& code = plan ? plan->code : segment.code;
    // Another thread could give a tensor's object another tensor (swap_tensors) while a replay looks at it.
    auto inputs = trace::gather_inputs(segment, registers, hosts_, code.looks_only() && dynrun_is_only_thread());
    if (!inputs) continue;
    if (engine_.stress(kDynrunStressGuards) && !std::exchange(segment.failed_once, true)) continue;
    if (i > 0) std::swap(entry.segments[0], entry.segments[i]);  // the one that fits is likely to fit again
    entry.missed = 0;
    return run_segment(segment, registers, std::move(*inputs), plan.get());
  }
  const bool never = entry.given_up || now.calls_back();
  const bool closed = never || (entry.recordings >= kMaxRecordings && !stressed) || entry.failures >= kMaxFailures;
  note_misses(entry, now, frames, closed, !never);
  if (closed) {
    if (function_entry && entry.segments.empty() && entry.plain_steps == 0) engine_.reject(origin_, heat_key_, false, ran_no_operator());
    // What misses again and again is tried more and more seldom.
    if (!now.calls_back() && ++entry.missed >= kMissedBefore && engine_.options().stress == 0) entry.asleep = std::min(1 << std::min(entry.missed - kMissedBefore, 16), kLongestSleep);
    if (!never || entry.given_up) run_top_apart();
    detach();
    return Decision::kResume;
  }
  if (++entry.recordings == kMaxRecordings) engine_.count_given_up(trace::line_at(*machine_.top->code, machine_.top->pc));
  recorded_at_ = entry.point;
  std::shared_ptr<trace::Segment> least;  // dies last
  if (entry.segments.size() >= kMaxSegments) {
    least = std::move(entry.segments.back());
    entry.segments.pop_back();
    engine_.count_dropped();
  }
  start_recording();
  return Decision::kResume;
}

/// Shapes may change in turn with a number: every segment tells which numbers vary, as long as something may be recorded. The newest one's
/// miss is counted.
void Session::note_misses(Entry& entry, const trace::TorchState& now, const std::vector<guards::EntryFrame>& frames, bool closed, bool in_full) {
  const bool leaves_sizes_open = engine_.dynamic_of(base_->frame) != kDynrunDynamicOff;
  for (const auto& segment : entry.segments) {
    guards::Miss miss = explain_miss(*segment, now, frames, in_full && segment == entry.segments.front());
    if (segment == entry.segments.front()) engine_.count_miss(miss, *segment);
    if (closed) return;
    if (miss.other_value) entry.varying.insert(miss.guard);
    entry.varying.merge(segment->guards.changed_values(frames));
    if (leaves_sizes_open) entry.varying_sizes.merge(segment->guards.changed_sizes(frames));
  }
}

Session*& Session::recording_here() {
  thread_local Session* session = nullptr;
  return session;
}

void Session::step(int count) {
  steps_++;
  state_ = State::kStep;
  steps_left_ = count;
}

/// Whether all that lies ahead is a few instructions and a break, as it was when that was recorded.
bool Session::runs_plain(const Entry& entry) const {
  if (entry.plain_steps == 0 || engine_.options().stress != 0) return false;
  vm::Activation& top = *machine_.top;
  if (static_cast<std::ptrdiff_t>(entry.plain_classes.size()) != top.stack_pointer - top.locals()) return false;
  for (std::size_t i = 0; i < entry.plain_classes.size(); i++) {
    PyObject* object = top.locals()[i];
    if (entry.plain_classes[i] != (object ? Py_TYPE(object) : nullptr)) return false;
  }
  return true;
}

const trace::TorchState& Session::torch_state() {
  if (torch_state_uses_ > 0) {
    torch_state_uses_--;
    torch_state_ = trace::TorchState::now(torch_state_.precision);
  } else {
    torch_state_ = trace::TorchState::now();
    torch_state_uses_ = kTorchStateUses;
  }
  return torch_state_;
}

void Session::start_recording() {
  close_gap();
  last_row_ = -1;
  recorded_ = true;
  torch_state_uses_ = 0;
  classes_of(*machine_.top, start_classes_);
  state_ = State::kRecord;
  recording_here() = this;
  trace::Recorder::Limits limits;
  limits.break_after_operator = engine_.stress(kDynrunStressBreak);
  limits.keeps_lines = engine_.follows();
  limits.keeps_callers = Scope::here().backend != 0;
  limits.assumes = Scope::here().backend == 0;
  limits.apart = &engine_.apart();
  const DynrunDynamic dynamic = engine_.dynamic_of(base_->frame);
  limits.all_sizes_vary = dynamic == kDynrunDynamicOn;
  if (dynamic != kDynrunDynamicOff) limits.varying_sizes = &engine_.entry_at(base_, machine_.top).varying_sizes;
  limits.varying = &engine_.entry_at(base_, machine_.top).varying;
  if (engine_.is_in_compiled_function(machine_)) limits.function_within = Scope::function_within;
  recorder_ = std::make_unique<trace::Recorder>(machine_, base_, limits);
  scope_.emplace(&recorder_->operators());
}

/// Whether what ended `segment`, which may be null, is an error: it is raised at the next instruction then.
bool Session::refuses(const trace::Break& met, const trace::Segment* segment) {
  const Ruling ruling = rule_on(engine_, machine_, met, in_constructor_);
  if (ruling == Ruling::kBreaks) return false;
  if (!first_break_) first_break_ = met;
  const bool ran_operators = captured_ != 0 || (segment && segment->operators != 0) || operators_before_ != trace::operators_here();
  if (ruling == Ruling::kRefusedIfTensor && !ran_operators) return false;
  refuse(trace::Break(*first_break_));
  return true;
}

void Session::refuse(const trace::Break& met) {
  refusal_ = fullgraph_error(met, engine_.fullgraph_at(machine_) != Scope::kMayBreak);
  engine_.entry_at(recorded_at_).recordings--;  // it raises as often as it breaks
}

bool Session::is_turn(const trace::Break& met) const {
  if (met.id != report::BreakId::k_loop || turn_of_ != std::pair<const vm::Activation*, std::int32_t>(machine_.top, machine_.top->pc)) return false;
  return (Py_TYPE(machine_.top->peek(1))->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0;  // Python code may be what the turn waits for
}

/// Takes the segment from the recorder, if there is one worth keeping.
void Session::end_recording(bool finished) {
  scope_.reset();
  if (recording_here() == this) recording_here() = nullptr;
  auto recorder = std::move(recorder_);
  std::unique_ptr<trace::Segment> segment = recorder->take();
  // Cut into pieces, not broken.
  const bool goes_on = segment && segment->continues && recorder->why() && recorder->why()->id == report::BreakId::k_size_cap;
  Entry& begun_at = engine_.entry_at(recorded_at_);
  if (recorder->fills_cache() && begun_at.fills < kMaxFills) {
    begun_at.fills++;
    begun_at.recordings--;
    return;
  }
  if (recorder->why()) note_break();
  std::int32_t row = kNoBreak;
  if (recorder->why() && !goes_on) {
    row = is_turn(*recorder->why()) ? kTurnOfLoop : engine_.count_break(*recorder->why());
    if (segment && !segment->returns && !segment->continues) segment->break_row = row;
    turn_of_ = {};
    if (recorder->why()->id == report::BreakId::k_loop) turn_of_ = {machine_.top, machine_.top->pc};
    if (row >= 0 && refuses(*recorder->why(), segment.get())) return;
  } else if (goes_on) {
    turn_of_ = {machine_.top, machine_.top->pc};  // a long loop is left to a segment a turn
  }
  if (!(recorder->why() && !goes_on) && first_break_ && segment && segment->operators != 0) return refuse(*first_break_);
  if (!segment) {
    // A generator that breaks is recorded by itself, from yield to yield.
    PyCodeObject* generator = recorder->broken_generator();
    bool known = generator == nullptr || engine_.runs_apart(generator);
    if (!known) engine_.run_apart(generator);
    if (known || !engine_.runs_apart(generator)) engine_.entry_at(origin_).failures++;
    return;
  }
  Entry& entry = engine_.entry_at(segment->entry);
  fruitless_ = segment->operators == 0 ? fruitless_ + 1 : 0;
  bool whole_function = finished && captured_ == 0 && segment->entry.frames.size() == 1 && segment->entry.frames[0].second == 0;
  if (whole_function && segment->operators == 0) {
    whole_ = true;
    return;
  }
  if (!finished && is_plain(*segment, *recorder) && engine_.options().stress == 0) {
    entry.plain_steps = static_cast<int>(recorder->instructions());
    entry.plain_classes = start_classes_;
    entry.plain_break = row;
    return;
  }
  captured_ += segment->operators;
  engine_.count_recorded(segment->operators);
  const trace::EntryPoint begun = segment->entry;
  engine_.keep(std::move(segment), recorder->inputs(), compile_now_ || Scope::here().at_once);
  Entry& kept = engine_.entry_at(begun);
  if (kept.segments.empty()) return;  // objects that died have run Python code
  if ((refusal_ = engine_.take_error())) {
    kept.recordings--;
    std::shared_ptr<trace::Segment> useless = std::move(kept.segments.front());  // dies last
    kept.segments.erase(kept.segments.begin());
    return;
  }
  kept_.push_back(kept.segments.front());
}

/// In a loop of code that CPython runs: whether a call has just begun that has its segments. Recorded with the loop's whole turn it would
/// be recorded, and compiled, again for each of its sizes, for each number of turns of a loop inside.
bool Session::calls_alone(const vm::Activation& called) const {
  if (!machine_.borrowed || &called == base_ || called.pc != 0 || called.resumption != vm::Resumption::kNone) return false;
  return (engine_.stands_alone(called.frame) && Engine::handles_tensors(called.frame)) || engine_.is_plain(called.frame);
}

Decision Session::record(vm::Machine& machine, vm::Activation& activation, const Instruction& instruction) {
  const bool ends = &machine == &machine_ && &activation == machine_.top && calls_alone(activation);
  Flow flow = ends ? recorder_->end_before("a call that has segments of its own") : Flow::kRun;
  if (flow == Flow::kRun) flow = recorder_->before(machine, activation, instruction);
  switch (flow) {
    case Flow::kRun: return Decision::kExecute;
    case Flow::kResume: return Decision::kResume;
    case Flow::kRaise: {
      KeptError error;
      end_recording(false);
      detach();
      return Decision::kRaise;
    }
    case Flow::kCut:
      end_recording(false);
      if (refusal_) return Decision::kResume;
      step(1);
      if (fruitless_ > kMaxFruitless) {
        engine_.entry_at(trace::entry_point(base_, machine_.top)).given_up = true;
        run_top_apart();
        detach();
      }
      return Decision::kExecute;
    case Flow::kCutHere:
      end_recording(false);
      state_ = State::kProbe;
      return Decision::kResume;
    case Flow::kFinished:
      end_recording(true);
      if (refusal_) return Decision::kResume;
      detach();
      return Decision::kExecute;
    case Flow::kDropped: {
      end_recording(false);
      if (refusal_) return Decision::kResume;
      run_top_apart();
      detach();
      return Decision::kExecute;
    }
  }
  return Decision::kExecute;
}

void Session::after(vm::Machine& machine, const Instruction& instruction, bool raised) {
  Busy busy(*this);
  if (state_ == State::kStep && &machine == &machine_) {
    if (raised) detach();
    else if (--steps_left_ <= 0) state_ = State::kProbe;
    return;
  }
  if (state_ != State::kRecord) return;
  Flow flow = Flow::kDropped;
  try {
    flow = recorder_->after(machine, instruction, raised);
  } catch (const std::exception&) {
  }
  switch (flow) {
    case Flow::kCut:
      end_recording(false);
      if (fruitless_ > kMaxFruitless) detach();
      else state_ = State::kProbe;
      break;
    case Flow::kDropped:
      end_recording(false);
      if (!refusal_) run_top_apart(), detach();
      else state_ = State::kProbe;  // it is raised at the next instruction
      break;
    default: break;
  }
}

void Session::entered(vm::Machine& machine, vm::Activation& activation) {
  Busy busy(*this);
  if (state_ == State::kRecord) recorder_->entered(machine, activation);
  if (&machine == &machine_ && state_ != State::kIdle)
    visits_.push_back({&activation, activation.code->object, Engine::handles_tensors(activation.frame), operators_so_far(), kept_.size()});
}

std::uint64_t Session::operators_so_far() const { return captured_ + (recorder_ ? recorder_->operators().graph()->nodes.size() : 0); }

void Session::note_break() {
  for (Visit& visit : visits_) visit.breaks++;
}

/// A frame without tensors that broke a recording and gave it no operator costs more in segments than it does in CPython. So it
/// does wherever it is called, unless the same code (a module's call) is on the way to operators elsewhere.
void Session::close_visit(vm::Activation& activation) {
  auto visit = std::find_if(visits_.rbegin(), visits_.rend(), [&](const Visit& open) { return open.activation == &activation; });
  if (visit == visits_.rend()) return;
  const bool gave = visit->operators != operators_so_far();
  if (gave) engine_.note_operators(visit->code);
  bool apart = visit->code == activation.code->object && visit->breaks > 0 && !visit->tensors && !gave && !engine_.gave_operators(visit->code) &&
               std::none_of(std::next(visit), visits_.rend(), [&](const Visit& outer) { return outer.code == visit->code; });
  // What was recorded up to here is of no use once its recordings end before the call; if they go on ending here, it is what there is.
  if (apart && !engine_.runs_apart(visit->code)) {
    engine_.run_apart(visit->code);
    if (engine_.runs_apart(visit->code)) {
      for (std::size_t i = visit->kept; i < kept_.size(); i++) {
        if (std::shared_ptr<trace::Segment> segment = kept_[i].lock()) std::erase(engine_.entry_at(segment->entry).segments, segment);
      }
      kept_.resize(std::min(kept_.size(), visit->kept));
    }
  }
  visits_.erase(std::next(visit).base(), visits_.end());
}

/// What runs at the top is not worth recording: from now on its call alone is left out, not all that called it.
void Session::run_top_apart() {
  if (machine_.top == base_) return;
  PyCodeObject* code = machine_.top->code->object;
  // A frame that a replay rebuilt was never entered.
  auto visit = std::find_if(visits_.rbegin(), visits_.rend(), [&](const Visit& open) { return open.activation == machine_.top && open.code == code; });
  const bool known = visit != visits_.rend();
  const bool tensors = known ? visit->tensors : Engine::handles_tensors(machine_.top->frame);
  if (!tensors && !(known && visit->operators != operators_so_far()) && !engine_.gave_operators(code)) engine_.run_apart(code);
}

bool Session::follows(vm::Machine& machine, PyObject* generator) {
  if (&machine != &machine_ || !PyGen_CheckExact(generator)) return false;
  // Stepped into, it is probed from its first instruction on.
  return state_ == State::kRecord ? recorder_->follows(generator) : state_ == State::kStep;
}

void Session::leaving(vm::Machine& machine, vm::Activation& activation, PyObject*) {
  Busy busy(*this);
  if (state_ == State::kRecord) recorder_->leaving(machine, activation);
  if (&machine == &machine_) close_visit(activation);
  if (state_ == State::kRefused && &activation == refused_in_) detach();
  if (&activation == base_) {
    if (state_ == State::kWatch) engine_.judge(heat_key_, ran_no_operator());
    whole_ = whole_ || ran_no_operator();
    detach();
  }
}

void Session::giving_back(vm::Machine&) {
  Busy busy(*this);
  if (state_ == State::kRecord) {
    recorder_->end_here();
    end_recording(false);
  }
  detach();
}

void Session::interrupted(vm::Machine&) {
  Busy busy(*this);
  recorded_ = false;  // says nothing about the code
  detach();
}

trace::ReplayResult Session::replay_quietly(trace::Segment& segment, std::vector<PyObject*>& registers, trace::Inputs inputs, trace::Code& code, bool* returned) {
  const Quiet quiet;
  return trace::replay(segment, machine_, base_, registers, hosts_, std::move(inputs), code, engine_.options().verify != 0, returned);
}

Decision Session::run_segment(trace::Segment& segment, std::vector<PyObject*>& registers, trace::Inputs inputs, trace::ShapePlan* plan) {
  std::uint64_t start = segment.timed || gap_break_ >= 0 ? report::ticks() : 0;
  close_gap(start);
  trace::Code& code = plan ? plan->code : segment.code;
  if (plan) {
    engine_.prepare_plan(segment, *plan, inputs.tensors());
    if (segment.timed) start = report::ticks();
  } else {
    const bool fresh = !code.lowered;
    if (fresh) engine_.lower(code, *segment.graph, inputs.tensors());
    engine_.refresh_folded(code, *segment.graph, inputs.tensors());
    if (fresh && segment.timed) start = report::ticks();
  }
  const bool by_operators = plan != nullptr && !code.lowered;
  const auto began = by_operators ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
  bool returned = false;
  const std::uint64_t refuted = runtime::refuted_again();
  engine_.count_edge(last_row_, segment.row, last_break_);
  engine_.make_code_of(segment);
  switch (replay_quietly(segment, registers, std::move(inputs), code, &returned)) {
    case trace::ReplayResult::kDone: break;
    case trace::ReplayResult::kFailed:
      // An operator raises: the code itself shall, from where it stands.
      segment.refuted = segment.refuted || refuted != runtime::refuted_again();
      detach();
      return Decision::kResume;
    case trace::ReplayResult::kRaised: {
      KeptError error;
      detach();
      return Decision::kRaise;
    }
  }
  const std::uint64_t end = segment.timed ? report::ticks() : 0;
  segment.replayed = true;
  if (by_operators && code.as_expected && !code.failed) segment.shapes->pace.note_run(plan->small, std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  engine_.count_replay(segment, end - start);
  last_row_ = segment.row;
  last_break_ = segment.break_row;
  if (segment.timed) open_gap(segment.break_row, end);
  if (segment.break_row != kTurnOfLoop) turn_of_ = {};
  if (!segment.host_calls.empty() || !segment.effects.empty() || segment.sets_autocast) torch_state_uses_ = 0;
  captured_ += segment.operators;
  replayed_ = true;
  if (returned) {
    bool base_returned = machine_.result != nullptr;
    detach();
    return base_returned ? Decision::kReturn : Decision::kReplayed;
  }
  if (segment.continues) {
    state_ = State::kProbe;
    return Decision::kReplayed;
  }
  if (!segment.state.profiled && trace::settle_truth(*machine_.top)) engine_.count_branch();
  step(1);
  return Decision::kReplayed;
}

}  // namespace dynrun::engine
