#pragma once
// Loops of code that CPython runs: a script's own level, functions that are given no tensors, and the first calls of those that
// are, where a loop has many turns. Their backward jumps are
// instrumented (sys.monitoring, for these code objects alone); where a turn of such a loop runs operators that no segment
// holds, the loop is lent to a machine from its head on, to be recorded and replayed like any other code.

#include "python/reference.h"
#include "vm/machine.h"

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace dynrun::engine {

class Engine;

class Loops {
 public:
  explicit Loops(Engine& engine) : engine_(engine) {}

  /// `code` is about to run in CPython: its loops are watched from now on, if it speaks of torch or its module does. `recorded_soon`:
  /// as a whole, when it has been called a few times; only a long loop is worth taking by itself.
  void consider(PyCodeObject* code, PyObject* globals, bool recorded_soon = false);
  /// The same for the frames of this thread, which CPython runs already.
  void consider_running();
  /// A watched backward jump of `frame`, in code units. False with an error set. `*done`: need not be told of this jump again.
  bool jumped(python::Frame* frame, int from, int to, bool* done);
  /// A lent loop is at its head again. `suspect`: it broke, or held few operators. True: it is to be given back, to be timed in CPython.
  bool turned(const bytecode::Code& code, std::int32_t head, bool suspect);
  /// A watched jump in code that nobody watches now. Whether it need not be told of again: a function runs so for good.
  bool passed();
  /// How many there were.
  std::uint64_t passed_jumps() const { return passed_; }
  /// sys.monitoring.DISABLE (borrowed)
  PyObject* disable() const { return disable_; }

 private:
  struct Loop {
    std::int32_t head = 0, last = 0;  // instruction indices
    int turns = 0;
    int fruitless = 0;                // times it was lent for nothing
    std::uint64_t uncaptured = 0;     // operators outside of segments when the measured turn began
    enum class Stage : std::uint8_t { kCold, kMeasured, kHot, kTried, kLeft } stage = Stage::kCold;
    // Whether it is worth lending, by the time that its turns take (kTried: in CPython).
    bool tried = false;
    int suspected = 0;                // turns with breaks or few operators
    std::uint64_t spent = 0;          // in turns, ticks
    std::uint64_t recordings = 0, turned_at = 0, tried_at = 0;
    std::vector<std::uint64_t> here, there;
  };
  /// The loops of one code object, whose address may be that of one that has died.
  struct CodeLoops {
    std::uint64_t serial = 0;
    bool recorded_soon = false;
    std::unordered_map<int, Loop> by_head;  // by the head's code unit
  };
  bool is_ready();
  bool is_new(PyCodeObject* code);
  CodeLoops& loops_of(const bytecode::Code* code);
  void measure(Loop& loop);
  void stop_measuring();
  bool lend(Loop& loop, python::Frame* frame);
  void time_turn(Loop& loop);
  std::uint64_t uncaptured() const;

  Engine& engine_;
  std::unordered_map<const PyCodeObject*, python::Ref> considered_;  // a weak reference each
  struct Seen {
    const PyCodeObject* code;
    std::uint32_t version;
  };
  std::array<Seen, 1024> seen_{};  // some of these
  std::unordered_map<const bytecode::Code*, CodeLoops> loops_;
  enum class Tool : std::uint8_t { kUnasked, kOurs, kTaken } tool_ = Tool::kUnasked;
  PyObject *monitoring_ = nullptr, *jump_ = nullptr, *disable_ = nullptr;  // sys.monitoring, and of it events.JUMP and DISABLE
  Loop* measured_ = nullptr;
  std::uint64_t passed_ = 0;
  PyThreadState* measuring_thread_ = nullptr;
};

}  // namespace dynrun::engine
