#pragma once
// Decides what is hot, keeps the segments, and counts what happened. One engine a process; needs the GIL.

#include "engine/exports.h"
#include "engine/loops.h"
#include "engine/outside.h"
#include "engine/scope.h"
#include "engine/trials.h"
#include "report/clock.h"
#include "report/report.h"
#include "trace/segment.h"
#include "vm/machine.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace dynrun::trace {
struct Break;
}
namespace dynrun::lowering {
class Shared;
struct Options;
}

namespace dynrun::engine {

constexpr std::int32_t kNoBreak = -1;  // as a segment's `break_row`
constexpr std::int32_t kTurnOfLoop = -2;  // it is a turn of a loop whose iterator CPython's evaluator, or the VM, moves on: no break
constexpr int kMaxRecordings = 24;  // of an entry: then it changes too much to be worth more
constexpr int kMaxRefolds = 3;  // of weights that are written: then code is made of none

class Session;

/// All segments that start at one point, newest first.
struct Entry {
  trace::EntryPoint point;
  int scope = 0;  // Scope::key of its recordings
  std::vector<std::shared_ptr<trace::Segment>> segments;  // shared: a replay that lets go of the GIL keeps its own
  int recordings = 0;
  int failures = 0;
  int fills = 0;  // recordings cut off, and dropped, at a cache that the program was about to fill
  /// Nothing but loads and the like lies between here and the next break: so many instructions just run, the one that breaks
  /// included, while the top frame holds objects of these classes (addresses, compared only). 0: not known.
  int plain_steps = 0;
  std::vector<const PyTypeObject*> plain_classes;
  std::int32_t plain_break = -1;  // the row of that break
  std::uint64_t used = 0;  // when it was reached last: Engine::probes_ then
  int missed = 0;         // times in a row that no segment fitted, when nothing more was to be recorded
  int asleep = 0;         // so many times more the segments are not even tried
  bool given_up = false;  // recorded too often: the code changes too much to be worth it
  std::unordered_set<std::string> varying_sizes;  // of tensors, likewise (guards::size_path)
  std::unordered_set<std::string> varying;  // numbers and texts read from outside that were another one before, by their path
};

/// How often a function was reached, by its code and, for a method of a module, the module.
struct Heat {
  int count = 0;
  bool rejected = false;  // recorded, and not worth it
  bool empty = false;     // rejected, and seen from end to end without an operator
  bool unsure = false;    // rejected before its end without an operator so far: its next call is watched
  int fruitless = 0;      // calls in a row in which operators ran and segments, but none of these held an operator
  int replays = 0;        // calls that were replays
  std::uint64_t operators = 0;  // in the last of them
};

/// For reports.
inline report::Place place_of(const graph::SourceLine& line) { return {line.file, line.line, line.function}; }

class Engine final : public vm::Engine {
 public:
  explicit Engine(const DynrunOptions& options);

  vm::Observer* starting(vm::Machine& machine, vm::Activation& activation) override;
  vm::Observer* resuming(vm::Machine& machine, vm::Activation& activation) override;
  vm::Observer* looping(vm::Machine& machine, vm::Activation& activation) override;
  bool resumes_apart(python::Frame* frame) override;
  bool times(python::Frame* frame) override;
  bool tries(python::Frame* frame) override { return trials_.tries(trial_key(frame)); }
  PyObject* timed(python::Frame* frame, const std::function<PyObject*()>& as_ever, const std::function<PyObject*()>& in_cpython) override;
  void unrecorded(const std::function<void()>& work) override;
  void finished(vm::Machine& machine) override;
  /// Whether the VM shall run this frame.
  bool wants(python::Frame* frame);

  Entry& entry_at(const trace::EntryPoint& point);
  Entry& entry_at(vm::Activation* base, vm::Activation* top);
  static std::size_t heat_key(python::Frame* frame);
  /// The same, and what the function closes over: one decorator's code wraps many functions.
  static std::size_t trial_key(python::Frame* frame);
  Heat& heat_of(python::Frame* frame) { return heat_[heat_key(frame)]; }
  /// The code that starts there is not worth recording: it is left to CPython from now on.
  void reject(const trace::EntryPoint& point, std::size_t key, bool empty, bool unsure);
  /// A call has replayed segments and run operators. Where the segments held none of them in call after call, the code is left to CPython.
  /// `captured`: how many operators of segments.
  void note_replayed(const trace::EntryPoint& point, std::size_t key, std::uint64_t captured);
  /// Whether calls and turns may be run in ways that the program has not asked for, and be timed.
  bool may_try() const;
  std::uint64_t recordings() const { return recordings_; }
  bool runs_plain() const { return runs_plain_; }
  /// Whether the function that the frame calls has been found to be faster in CPython, with all that it calls.
  bool is_plain(python::Frame* frame) const { return trials_.any() && may_try() && trials_.is_plain(trial_key(frame)); }
  double microseconds_a_tick() const { return clock_.microseconds(1u << 20) / (1u << 20); }
  /// A call of the function has recorded nothing, and broke, or held few operators: whether it pays is found out by `timed`.
  void suspect(std::size_t key);
  void suspect_callers();
  void forget_loops();
  void count_left(PyObject* code, Way way, double microseconds_a_tick);
  /// Whether the function that the frame calls has segments of its own that hold so much that nothing is won by recording it once more with
  /// what is around its call.
  bool stands_alone(python::Frame* frame) const;
  /// What watching a call of a rejected frame has shown.
  void judge(std::size_t key, bool empty);
  /// Compiles a finished segment and keeps it. Lowers it at once when `now`, else when it is first replayed.
  void keep(std::unique_ptr<trace::Segment> segment, const std::vector<at::Tensor>& inputs, bool now);
  /// `shared`: what lowerings of this graph at other sizes have in common with this one, or null. `guess`: in haste.
  void lower(trace::Code& code, const graph::Graph& recorded, const std::vector<at::Tensor>& inputs, lowering::Shared* shared = nullptr, bool guess = false);
  /// The number of another compiler, a Python function as `lower_with` takes it; 0 for None. It is kept until `forget_segments`.
  int backend_number(PyObject* lower);
  /// Forgets what was recorded for it, and lets go of it.
  void forget_backend(PyObject* lower);
  /// Borrowed; None for 0, and for one that was forgotten.
  PyObject* backend_of(int number) const {
    auto found = backends_.find(number);
    return found == backends_.end() ? Py_None : found->second.get();
  }
  /// The exception with which another compiler failed since the last call, or null.
  python::Ref take_error() { return std::exchange(error_, python::Ref()); }
  /// The code for one choice of sizes: the operators one by one at first, compiled when it comes back, or at once where that takes little of
  /// a run's time.
  void prepare_plan(trace::Segment& segment, trace::ShapePlan& plan, const std::vector<at::Tensor>& inputs);
  /// Compiles it.
  void lower_plan(trace::Segment& segment, trace::ShapePlan& plan, const std::vector<at::Tensor>& inputs, bool guess);
  /// Lets lowering tell what it makes, where a report or `--dump` asks for it.
  void show_lowering(lowering::Options& options);
  /// Makes sure that what was folded into the code holds for these inputs: takes what was made of these weights, or lowers again.
  void refresh_folded(trace::Code& code, const graph::Graph& recorded, const std::vector<at::Tensor>& inputs, lowering::Shared* shared = nullptr);
  void lower_for_others(trace::Code& code, const graph::Graph& recorded, const std::vector<at::Tensor>& inputs);

  /// Code of frames without tensors in which recordings break: CPython runs it, and recorded code breaks at its call.
  void run_apart(PyCodeObject* code);
  void run_backward_apart();
  /// Of the functions around a backward pass: whether it is Python code that prepares one, or calls libtorch, which may call the program's own.
  std::optional<bool> prepares_backward(PyCodeObject* code) const;
  bool runs_apart(PyCodeObject* code) const { return !apart_.empty() && apart_.count(code) != 0; }
  const std::unordered_set<const PyCodeObject*>& apart() const { return apart_; }
  /// Code that was once seen to give a recording operators, itself or in what it called.
  void note_operators(PyCodeObject* code) { gave_operators_.insert(code); }
  bool gave_operators(PyCodeObject* code) const { return gave_operators_.count(code) != 0; }
  static bool handles_tensors(python::Frame* frame);

  /// Notes a break that a recording met. The number of its place, for `count_gap`; -1 where it is not the program's.
  std::int32_t count_break(const trace::Break& why);
  /// The break as the program has it: one in dynrun's own Python code is moved to the caller of what a decorator made, or is nobody's.
  static std::optional<trace::Break> of_program(const trace::Break& why);
  /// What lay between a replay that ended in the break and the next segment.
  void count_gap(std::int32_t break_row, std::uint64_t ticks);
  /// What begins at this line has been recorded for the last time.
  void count_given_up(const graph::SourceLine& line);
  /// Whether times are wanted.
  bool measures() const { return measures_; }
  /// From now on times are taken, or not, of the segments that are there and of those to come.
  void measure(bool on);
  void count_miss(const guards::Miss& miss, const trace::Segment& segment);
  /// `ticks`: of the whole replay, where the engine measures.
  void count_replay(trace::Segment& segment, std::uint64_t ticks);
  void count_segment(trace::Segment& segment);
  void count_dropped() { report_.segments_dropped++; }
  /// A branch on a tensor behind a replay: the operator that torch would have run for it.
  void count_branch() { report_.operators_captured++, replayed_operators_++; }
  void count_recorded(std::uint64_t operators) {
    report_.operators_captured += operators;
    recorded_operators_ += operators;
  }
  /// Operators that recordings ran, since the start.
  std::uint64_t recorded_operators() const { return recorded_operators_; }
  std::uint64_t captured_operators() const { return recorded_operators_ + replayed_operators_; }
  Loops& loops() { return loops_; }
  OutsideOperators& outside() { return outside_; }

  /// Functions and modules that `dynrun.compile` was given: recorded at first sight.
  void mark(PyObject* function_or_module) { mark(function_or_module, options_.dynamic); }
  void mark(PyObject* function_or_module, DynrunDynamic dynamic, int fullgraph = Scope::kMayBreak);
  /// Which breaks are errors where the machine stands (Scope::Fullgraph): by the scope, and by the marks of the functions that run.
  int fullgraph_at(const vm::Machine& machine) const;
  bool asks_for_one_graph(python::Frame* frame) const;
  /// Whether a compiled function runs where the machine stands: others that it calls are parts of it.
  bool is_in_compiled_function(const vm::Machine& machine) const;
  /// Which sizes the recordings that this frame began leave open.
  DynrunDynamic dynamic_of(python::Frame* base) const;
  void forget_segments();
  void forget_unused();
  void make_room();
  report::Report report() const;
  /// With all that the HTML report shows.
  report::Report report_in_full() const;
  /// From now on what runs after each segment is noted, and the code that is made for it.
  void follow() { follows_ = true; }
  bool follows() const { return follows_; }
  /// A replay of one segment followed a replay of another, through a break or not (-1). By their rows.
  void count_edge(std::int32_t from, std::int32_t to, std::int32_t graph_break);
  /// Code that is made from now on is of this segment.
  void make_code_of(const trace::Segment& segment) { code_row_ = segment.row; }
  void reset_report();

  const DynrunOptions& options() const { return options_; }
  /// One time in `n`, by a generator of the engine's own.
  bool chance(std::uint32_t n) { return (random_ = random_ * 1664525u + 1013904223u) / (1u << 24) % n == 0; }
  bool stress(DynrunStress mode) const { return options_.stress & mode; }
  static int& disabled_depth();  // of this thread

 private:
  /// A machine inside the one that is being recorded.
  vm::Observer* watching(vm::Machine& machine, Session& recording);
  Session* begin_session(vm::Machine& machine, vm::Activation& activation, bool compile_now);
  /// Counts the visit.
  bool is_hot(python::Frame* frame);

  DynrunOptions options_;
  static constexpr std::size_t kMostCodes = 2048, kMostCodesEver = 32768;
  std::unordered_map<const bytecode::Code*, std::vector<std::unique_ptr<Entry>>> entries_;
  std::size_t most_codes_ = kMostCodes;                       // that have segments or were tried
  std::unordered_map<PyCodeObject*, python::Ref> forgotten_;  // weak references
  std::unordered_map<std::size_t, Heat> heat_;
  void lower_elsewhere(trace::Segment& segment, const std::vector<at::Tensor>& inputs);
  std::map<int, python::Ref> backends_;  // by number; a number never comes back
  int backends_made_ = 0;
  python::Ref error_;
  struct Mark {
    python::Ref weak;
    DynrunDynamic dynamic;
    int fullgraph;
  };
  const Mark* mark_of(python::Frame* frame) const;
  std::unordered_map<PyObject*, Mark> marked_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::uint64_t probes_ = 0;
  report::Report report_;
  std::unordered_map<std::string, std::size_t> miss_rows_;  // of its guard misses, by their text
  // What the report's lists are made of. Segments know their rows, so none ever goes.
  std::vector<report::SegmentPlace> segment_rows_;
  std::vector<report::GraphBreak> break_rows_;
  struct Ticks {
    std::uint64_t all = 0;
    std::uint64_t code = 0, of_timed_code = 0;  // of the replays whose code was timed: their code, and all of them
    std::uint64_t met = 0;  // when it was first met since the last reset, in order
  };
  std::vector<Ticks> segment_ticks_, break_ticks_;
  std::uint64_t met_ = 0;
  /// A row of a list with its times.
  report::SegmentPlace segment_row(std::size_t at) const;
  report::GraphBreak break_row(std::size_t at) const;
  OutsideOperators outside_;
  bool measures_ = false, follows_ = false;
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, std::uint64_t> next_;  // from, to, break between: how often
  std::unordered_map<std::int32_t, report::SegmentDetail> code_details_;  // by segment's row: of the code that was made last
  std::int32_t code_row_ = -1;
  report::Clock clock_;
  std::unordered_set<const PyCodeObject*> apart_;
  std::vector<python::Ref> apart_codes_;  // keeps their addresses
  std::unordered_set<const PyCodeObject*> gave_operators_;  // other code may come to lie at the address of a dead one: it is looked at longer
  bool backward_apart_ = false;           // those of torch's are in
  std::unordered_map<PyCodeObject*, bool> backward_codes_;
  std::uint32_t random_ = 1;
  std::uint64_t operators_before_ = 0, assumed_before_ = 0;
  std::uint64_t recorded_operators_ = 0, replayed_operators_ = 0;  // since the start
  std::uint64_t replayed_before_ = 0;                              // of these, before the report was reset
  Trials trials_;
  bool runs_plain_ = false;  // a function that is to run so from now on
  std::uint32_t frames_ = 0;      // that CPython has asked for
  std::uint64_t recordings_ = 0;  // that were kept
  Loops loops_{*this};
};

Engine* engine();
void start_engine(const DynrunOptions& options);
/// Null, or what is wrong.
const char* start_hook();

/// While it lives nothing on this thread is recorded: operators may be implemented in Python, and those are not the program's.
struct Quiet {
  Quiet() { ++Engine::disabled_depth(); }
  ~Quiet() { --Engine::disabled_depth(); }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
};

}  // namespace dynrun::engine
