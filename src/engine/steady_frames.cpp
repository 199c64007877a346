#include "engine/steady_frames.h"

#include "engine/engine.h"
#include "trace/operator_keys.h"
#include "trace/operator_recorder.h"
#include "vm/machine.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <utility>

namespace dynrun::engine {

namespace {

constexpr std::uint64_t kExact = 32768;  // operators of a thread, each of which is counted
constexpr std::uint32_t kSure = 256;     // runs in a row that are alike; as many again and again where it turned out otherwise

constinit std::atomic<std::uint64_t> assumed{0};

/// What decides whether runs are alike, as a thread comes by it. What grows tells of the time between two looks.
struct Seen {
  std::uint64_t operators = trace::operators_here(), elsewhere = OutsideOperators::elsewhere(), reads = 0, inside = 0;
  c10::DispatchKeySet included, excluded;
};

/// Runs of one code object, of a library's those that one place of the program leads to. A code object's version is its own, wherever it lies.
struct Runs {
  const PyCodeObject* code = nullptr;
  const std::uint16_t* called_at = nullptr;
  std::uint32_t version = 0;
  std::uint32_t alike = 0, needed = kSure;  // runs in a row
  std::uint32_t left = 0;                   // that need not be counted, until one is
  std::uint64_t operators = 0;              // in each
  OutsideOperators::Shares shares{};        // of these
  bool has_shares = false;                  // somebody wanted to know them
  bool reads_counts = false;

  bool are_of(const PyCodeObject* other, std::uint32_t its_version, const std::uint16_t* place) const {
    return code == other && version == its_version && called_at == place;
  }
  bool may_assume() const { return left > 0 && (has_shares || trace::outside_hook.load(std::memory_order_relaxed) == nullptr); }
  bool are_settling() const { return alike + 1 >= needed; }

  void note(const Seen& before, const Seen& after, std::uint32_t turn) {
    const std::uint64_t now = after.operators - before.operators;
    // Python code inside of an operator is not the program's, which is known only where operators are counted. A mode that is entered or
    // left keeps dispatch keys for later. A backward pass on a GPU runs its operators on another thread, where they are counted.
    const bool plain = before.elsewhere == after.elsewhere && before.inside == after.inside && before.included == after.included && before.excluded == after.excluded;
    reads_counts |= before.reads != after.reads;
    left = 0;
    if (!plain || now != operators) {
      constexpr std::uint32_t kMost = 1 << 20;
      if (alike >= needed) needed = std::min(4 * needed, kMost);
      alike = 0;
    } else if (++alike >= needed) {
      left = 32 + (turn * 0x9E3779B9u >> 26);  // 32 to 95, in no order that a program's own could match
    }
    operators = now;
  }
};

/// A thread's own.
struct Here {
  static constexpr std::size_t kMost = 256;
  std::array<Runs, kMost> runs;
  OutsideOperators::Shares shares;  // of the run whose lines are written down
  std::uint64_t reads = 0, inside = 0;
  std::uint32_t turn = 0;

  Runs& runs_at(const PyCodeObject* code, const std::uint16_t* called_at) {
    return runs[(reinterpret_cast<std::uintptr_t>(code) >> 5 ^ reinterpret_cast<std::uintptr_t>(called_at) >> 1) % kMost];
  }
  Seen seen() const {
    const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
    Seen seen;
    seen.reads = reads;
    seen.inside = inside;
    seen.included = keys.included_.remove(trace::kRecorderKey);
    seen.excluded = keys.excluded_;
    return seen;
  }
  static Here& of_thread() {
    thread_local std::unique_ptr<Here> here;
    if (!here) here = std::make_unique<Here>();
    return *here;
  }
};

/// Where the program calls what has come to call a library's function; null for its own functions. Nothing: that is far away.
std::optional<const std::uint16_t*> place_of(const PyThreadState* thread, const python::Frame* frame) {
  OutsideOperators& outside = engine()->outside();
  if (!outside.is_library(frame->code)) return nullptr;
  constexpr int kFar = 8;
  int depth = 0;
  // The new frame is not linked yet.
  for (auto* caller = reinterpret_cast<const python::Frame*>(thread->cframe->current_frame); caller && depth < kFar; caller = caller->previous) {
    if (caller->owner == python::kOwnedByCStack) continue;
    if (!outside.is_library(caller->code)) return caller->previous_instruction;
    depth++;
  }
  return std::nullopt;
}

PyObject* run_assumed(PyThreadState* thread, python::Frame* frame, bool throwing, Here& here, Runs& runs) {
  const std::uint64_t reads = here.reads;
  runs.left--;
  PyObject* result;
  {
    const trace::UncountedScope uncounted;
    result = vm::evaluate_left(thread, frame, throwing);
  }
  trace::count_operators(static_cast<std::int64_t>(runs.operators));
  assumed.fetch_add(runs.operators, std::memory_order_relaxed);
  if (runs.has_shares) OutsideOperators::add(runs.shares);
  runs.reads_counts |= reads != here.reads;
  return result;
}

/// What runs inside of a run whose lines are written down is counted, so that a change is seen wherever it is.
PyObject* run_counted(PyThreadState* thread, python::Frame* frame, bool throwing, Here& here, Runs& runs) {
  const PyCodeObject* const code = runs.code;
  const std::uint16_t* const called_at = runs.called_at;
  const std::uint32_t version = runs.version;
  const bool settling = runs.are_settling();
  std::optional<trace::LooksApart> looks;
  if (settling) {
    looks.emplace();
    here.shares.clear();
    OutsideOperators::shares() = &here.shares;
  }
  const Seen before = here.seen();
  PyObject* result = vm::evaluate_left(thread, frame, throwing);
  trace::go_on_counting();
  looks.reset();
  if (settling) OutsideOperators::shares() = nullptr;
  if (!runs.are_of(code, version, called_at)) return result;  // of another one by now
  runs.note(before, here.seen(), here.turn++);
  if (settling) runs.shares = here.shares;
  runs.has_shares = settling && trace::outside_hook.load(std::memory_order_relaxed) != nullptr;
  return result;
}

PyObject* run(PyThreadState* thread, python::Frame* frame, bool throwing) {
  const trace::Counting counting = trace::counting_here(kExact);
  if (counting == trace::Counting::kNeeded) return vm::evaluate_left(thread, frame, throwing);
  Here& here = Here::of_thread();
  here.inside += counting == trace::Counting::kInside;
  if (counting == trace::Counting::kInside || OutsideOperators::shares() != nullptr) return vm::evaluate_left(thread, frame, throwing);
  trace::go_on_counting();
  const std::optional<const std::uint16_t*> place = place_of(thread, frame);
  if (!place) return vm::evaluate_left(thread, frame, throwing);
  Runs& runs = here.runs_at(frame->code, *place);
  if (!runs.are_of(frame->code, frame->code->co_version, *place)) runs = Runs{.code = frame->code, .called_at = *place, .version = frame->code->co_version};
  if (runs.reads_counts) return vm::evaluate_left(thread, frame, throwing);
  return runs.may_assume() ? run_assumed(thread, frame, throwing, here, runs) : run_counted(thread, frame, throwing, here, runs);
}

}  // namespace

void count_operators_of_all_threads(bool on) {
  trace::count_on_all_threads(on);
  vm::set_left_runner(on && engine() != nullptr ? &run : nullptr);
}

void note_that_counts_are_read() { Here::of_thread().reads++; }

void count_exactly() { vm::set_left_runner(nullptr); }

std::uint64_t assumed_operators() { return assumed.load(std::memory_order_relaxed); }

}  // namespace dynrun::engine
