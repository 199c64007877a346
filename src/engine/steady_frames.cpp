#include "engine/steady_frames.h"

#include "engine/outside.h"
#include "trace/operator_recorder.h"
#include "vm/machine.h"

#include <array>
#include <atomic>
#include <utility>

namespace dynrun::engine {

namespace {

constexpr std::uint64_t kExact = 32768;  // operators of a thread, each of which is counted
constexpr std::uint32_t kSure = 16;      // runs in a row with as many operators
constexpr std::uint32_t kAssumed = 63;   // runs from one that is counted to the next

constinit std::atomic<std::uint64_t> assumed{0};
thread_local constinit std::uint64_t counts_read = 0;  // times

/// Runs of one code object. Its version is its own, wherever it lies.
struct Runs {
  const PyCodeObject* code = nullptr;
  std::uint32_t version = 0;
  std::uint32_t alike = 0;    // the last ones, one behind the other
  std::uint32_t assumed = 0;  // since one was counted
  std::uint64_t operators = 0;

  bool are_of(const PyCodeObject* other, std::uint32_t its_version) const { return code == other && version == its_version; }
  bool are_steady() const { return alike >= kSure; }
  void counted(std::uint64_t now) {
    alike = now == operators ? alike + 1 : 0;
    operators = now;
    assumed = 0;
  }
};

Runs& runs_at(const PyCodeObject* code) {
  constexpr std::size_t kMost = 256;
  thread_local constinit std::array<Runs, kMost> all{};
  return all[(reinterpret_cast<std::uintptr_t>(code) >> 5) % kMost];
}

/// `runs`: of the frame's code, as the next ones are.
PyObject* run_assumed(PyThreadState* thread, python::Frame* frame, bool throwing, Runs& runs) {
  const std::uint64_t operators = runs.operators, read = counts_read;
  runs.assumed++;
  PyObject* result;
  {
    const trace::UncountedScope uncounted;
    result = vm::evaluate_left(thread, frame, throwing);
  }
  trace::count_operators(static_cast<std::int64_t>(operators));
  assumed.fetch_add(operators, std::memory_order_relaxed);
  if (read != counts_read) runs.alike = 0;
  return result;
}

/// What runs inside of a run that stands for others is counted, so that a change is seen wherever it is.
PyObject* run(PyThreadState* thread, python::Frame* frame, bool throwing) {
  std::uint32_t& stands_for = OutsideOperators::stands_for();
  const bool may_assume = stands_for == 1 && trace::operators_here() >= kExact;
  if (!trace::may_leave_uncounted() || !(may_assume || stands_for > 1)) return vm::evaluate_left(thread, frame, throwing);

  const PyCodeObject* const code = frame->code;  // may not live as long as the frame runs
  const std::uint32_t version = code->co_version;
  Runs& runs = runs_at(code);
  if (!runs.are_of(code, version)) runs = {code, version};
  if (may_assume && runs.are_steady()) {
    if (runs.assumed < kAssumed) return run_assumed(thread, frame, throwing, runs);
    stands_for = 1 + runs.assumed;
    trace::look_at_next();
  }
  const std::uint64_t before = trace::operators_here(), elsewhere = OutsideOperators::elsewhere(), read = counts_read;
  PyObject* result = vm::evaluate_left(thread, frame, throwing);
  trace::go_on_counting();
  if (may_assume) stands_for = 1;
  if (!runs.are_of(code, version)) return result;  // another one's by now
  runs.counted(trace::operators_here() - before);
  // A backward pass on a GPU: what runs there is counted there.
  if (elsewhere != OutsideOperators::elsewhere() || read != counts_read) runs.alike = 0;
  return result;
}

}  // namespace

void count_operators_of_all_threads(bool on) {
  trace::count_on_all_threads(on);
  vm::set_left_runner(on ? &run : nullptr);
}

void note_that_counts_are_read() { counts_read++; }

void count_exactly() { vm::set_left_runner(nullptr); }

std::uint64_t assumed_operators() { return assumed.load(std::memory_order_relaxed); }

}  // namespace dynrun::engine
