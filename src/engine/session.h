#pragma once
// One activation's life under the engine: probe for a segment, replay it or record a new one, step over what cannot be
// recorded, and probe again behind it. The states are those of `Session::State`; nothing else decides what runs.

#include "engine/engine.h"
#include "trace/recorder.h"

#include <memory>
#include <optional>

namespace dynrun::engine {

class Session final : public vm::Observer {
 public:
  Session(Engine& engine, vm::Machine& machine, vm::Activation& base, bool compile_now);
  ~Session() override;

  vm::Decision before(vm::Machine& machine, vm::Activation& activation, const bytecode::Instruction& instruction) override;
  void after(vm::Machine& machine, const bytecode::Instruction& instruction, bool raised) override;
  void entered(vm::Machine& machine, vm::Activation& activation) override;
  void leaving(vm::Machine& machine, vm::Activation& activation, PyObject* result) override;
  bool follows(vm::Machine& machine, PyObject* generator) override;
  void giving_back(vm::Machine& machine) override;
  void interrupted(vm::Machine& machine) override;

  /// Records nothing, and tells the engine at the base's return whether it ran an operator.
  void watch() { state_ = State::kWatch; }
  /// Whether one of its own functions runs: Python code that starts then is no part of the recorded program.
  bool at_work() const { return busy_ > 0; }
  bool idle() const { return state_ == State::kIdle && nested_.empty() && busy_ == 0; }
  /// Machines inside the recorded one, of Python code that C code calls: they let go of the session when they are done.
  void enter(vm::Machine& nested) { nested_.insert(&nested); }
  void leave(vm::Machine& nested) { nested_.erase(&nested); }
  vm::Machine& machine() { return machine_; }
  /// The session that records on this thread, or null.
  static Session*& recording_here();

 private:
  class Busy;
  enum class State : std::uint8_t {
    kProbe,   // at an entry point: is there a segment that fits?
    kRecord,  // recording
    kStep,    // the next instruction runs without being looked at, then kProbe
    kWatch,   // does the base run any operator?
    kRefused, // an error was raised at a break: the function that asked for one graph may only end with one
    kIdle,    // nothing more to do for this activation
  };
  vm::Decision decide(vm::Machine& machine, vm::Activation& activation, const bytecode::Instruction& instruction);
  vm::Decision probe();
  void note_misses(Entry& entry, const trace::TorchState& now, const std::vector<guards::EntryFrame>& frames, bool closed, bool in_full);
  vm::Decision record(vm::Machine& machine, vm::Activation& activation, const bytecode::Instruction& instruction);
  trace::ReplayResult replay_quietly(trace::Segment& segment, std::vector<PyObject*>& registers, trace::Inputs inputs, trace::Code& code, bool* returned);
  vm::Decision run_segment(trace::Segment& segment, std::vector<PyObject*>& registers, trace::Inputs inputs, trace::ShapePlan* plan);
  void start_recording();
  /// The next `count` instructions just run.
  void step(int count);
  /// Recorded code goes on, or this session ends: what lay behind the last replay's break is over.
  void close_gap();
  void close_gap(std::uint64_t now);
  /// The break of that row has been met, `now` (report/clock.h).
  void open_gap(std::int32_t break_row, std::uint64_t now);
  /// Whether a recording, which was a turn of a loop from its head on, ended at the same head.
  bool is_turn(const trace::Break& met) const;
  bool runs_plain(const Entry& entry) const;
  const trace::TorchState& torch_state();
  void end_recording(bool finished);
  void detach();

  /// The call of a frame that this session saw from its start.
  struct Visit {
    vm::Activation* activation;
    PyCodeObject* code;
    bool tensors;              // among its arguments
    std::uint64_t operators;   // captured before it
    std::size_t kept;          // segments kept before it
    int breaks = 0;            // inside
  };
  /// Whether the base has run none since its start.
  bool ran_no_operator() const;
  std::uint64_t operators_so_far() const;
  void note_break();
  bool ends_for_trial();
  void close_visit(vm::Activation& activation);
  void run_top_apart();
  bool calls_alone(const vm::Activation& called) const;

  Engine& engine_;
  vm::Machine& machine_;
  vm::Activation* base_;
  bool compile_now_;
  bool generator_;  // the base is a generator that was resumed
  State state_ = State::kProbe;
  std::unordered_set<vm::Machine*> nested_;
  int busy_ = 0;  // calls of the session that are under way: objects that die in them may run Python code
  std::unique_ptr<trace::Recorder> recorder_;
  std::optional<trace::RecordingScope> scope_;
  trace::EntryPoint origin_;
  std::size_t heat_key_, trial_key_;
  const bool in_constructor_;
  bool recorded_ = false;
  bool whole_ = false;  // the base was seen from its start to its return
  std::uint64_t operators_before_ = 0;  // run by the process until the base began
  std::uint64_t captured_ = 0;
  int fruitless_ = 0;
  bool replayed_ = false;
  std::vector<Visit> visits_;
  std::vector<std::weak_ptr<trace::Segment>> kept_;
  vm::Activation* handed_by_ = nullptr;  // the caller of a frame that was handed to CPython, and where it goes on
  std::int32_t handed_pc_ = 0;
  int steps_left_ = 1;
  int steps_ = 0;  // breaks that were met, in a loop's turn or since the base began
  std::uint64_t captured_at_head_ = 0;  // of a loop, when its turn began
  std::vector<const PyTypeObject*> start_classes_;  // of the top frame where the recording began
  trace::TorchState torch_state_;
  int torch_state_uses_ = 0;  // how often its matmul precision may still be taken for the present one
  std::vector<python::Ref> hosts_;  // the host values of the segment that is about to run
  std::uint64_t gap_start_ = 0;  // report/clock.h: when the last replay ended in the break `gap_break_`
  std::int32_t gap_break_ = -1;
  std::pair<const vm::Activation*, std::int32_t> turn_of_;  // the head of the loop that turns, without a break so far in this turn
  std::int32_t last_row_ = -1, last_break_ = -1;  // of the segment that was replayed last, and the break behind it
  trace::EntryPoint recorded_at_;                 // where the recording began
  bool refuses(const trace::Break& met, const trace::Segment* segment);
  void refuse(const trace::Break& met);
  std::optional<trace::Break> first_break_;  // of those that are errors once an operator runs
  vm::Decision raise_refusal();
  vm::Decision raise_again();
  python::Ref refusal_;  // an exception that is raised at the next instruction: --fullgraph's, or a back end's
  python::Ref refused_;  // after that: raised again where the function that asked would return, if it was caught inside of it
  vm::Activation* refused_in_ = nullptr;  // that function
};

}  // namespace dynrun::engine
