#pragma once
// Host values: Python numbers and texts that a replay computes anew (a counter, a loop's index, a scalar argument).
//
// A host program is a list of steps, each of which reads a source of the guards, computes a value from earlier ones with
// CPython's own functions of exact built-in types, or requires something of one. It runs behind the guards and before the
// graph: a requirement that does not hold is a guard miss, an error (a division by zero) a miss too, so that the code itself
// raises it. Only exact int, float and str occur: no Python code runs. Needs the GIL.

#include "guards/program.h"
#include "python/reference.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace dynrun::trace {

using HostId = std::int32_t;
constexpr HostId kNoHost = -1;

enum class HostKind : std::uint8_t {
  kSource,    // index: a source of the guards
  kConstant,  // object
  kBinary,    // index: NB_ADD and the like of CPython's opcode.h
  kNegative,
  kInvert,
  kCall,      // object: a pure built-in function or class
  kFormat,    // index: 0 none, 1 str, 2 repr, 3 ascii; operands: value, specification (or none)
  kJoin,      // the texts, one after the other
  kSize,      // index: the source of a tensor; its size in `dimension`
  kValueSize, // index: a value of the graph; its size in `dimension`, which `ValueSizes` tells
  kGenerator, // index: the source of a random.Random; the value is a copy of its state that the calls after it draw from
  // Requirements. They give no value.
  kEquals,    // operand 0 is `object`
  kCompares,  // index: Py_LT and the like; operands 0 and 1 compare as `truth` says
  kIsTrue,    // operand 0 is true as `truth` says
};

struct HostStep {
  HostKind kind;
  std::int32_t index = 0;
  std::vector<HostId> operands;
  python::Ref object;
  PyTypeObject* type = nullptr;  // of the value; another one is a miss
  bool truth = false;
  std::int32_t line = -1;
  std::int32_t dimension = 0;
};

constexpr std::int32_t kContent = -1;

/// Sizes of what the graph computes, before it has run.
class ValueSizes {
 public:
  virtual ~ValueSizes() = default;
  /// `dimension`: kContent for the number in a value of one element, which follows from sizes. `hosts`: the values of the steps
  /// before. Empty where it cannot be told: the operators would raise.
  virtual std::optional<std::int64_t> size(std::int32_t value, std::int32_t dimension, const std::vector<python::Ref>& hosts) = 0;
};

/// The guard of a `Miss` where nothing misses.
constexpr const char* kNoMiss = "none";

class HostProgram {
 public:
  /// Each gives the id of its value; `now` is the value in this run, of exact type int, float or str.
  HostId read(guards::SourceId source, PyObject* now);
  HostId constant(PyObject* object);
  /// A size of a tensor read from outside, or of a value of the graph. The same one for the same place.
  HostId size(HostKind kind, std::int32_t of, std::int32_t dimension);
  /// A copy of the generator that lies there. The same one for the same source.
  HostId generator(guards::SourceId source);
  HostId compute(HostKind kind, std::int32_t index, std::vector<HostId> operands, PyObject* callee, PyObject* now);

  void require_equal(HostId id, PyObject* value);
  void require_comparison(int op, HostId a, HostId b, bool truth);
  void require_truth(HostId id, bool truth);

  /// The sizes of values are from now on those that `size(value, dimension)` gives.
  void fix_value_sizes(const std::function<std::int64_t(std::int32_t, std::int32_t)>& size);

  void set_line(std::int32_t line) { line_ = line; }
  bool empty() const { return steps_.empty(); }

  /// Computes everything; `values` by id. False, without a Python error, when a requirement does not hold or a step raises.
  bool run(const std::vector<PyObject*>& registers, std::vector<python::Ref>& values, ValueSizes* sizes = nullptr) const;
  const std::vector<HostStep>& steps() const { return steps_; }
  /// Gives the generators the states that the run left in their copies, and the copies theirs: done again it is undone.
  void swap_generators(const std::vector<PyObject*>& registers, const std::vector<python::Ref>& values) const;
  /// After a failed run: what failed, in words.
  guards::Miss explain_miss(const std::vector<PyObject*>& registers, const guards::Program& guards, ValueSizes* sizes = nullptr) const;
  /// "self.step + 1"; of what is made of very many parts, the first ones.
  std::string describe(HostId id, const guards::Program& guards) const;

  /// The steps that `ids` are made of, themselves included, each once and behind all that are made of it: a number may be made of
  /// one other many times over (`n + n` of `n + n`). `visit` says whether a step's operands are visited.
  void visit_parts(const std::vector<HostId>& ids, const std::function<bool(HostId, const HostStep&)>& visit) const;

  /// What is required, one line each.
  std::string print(const guards::Program& guards) const;

  /// The value of one step from those before it; null with an error set.
  static python::Ref evaluate(const HostStep& step, const std::vector<PyObject*>& operands);

 private:
  std::string describe(HostId id, const guards::Program& guards, int& parts_left) const;
  bool step_holds(std::size_t at, const std::vector<PyObject*>& registers, std::vector<python::Ref>& values, ValueSizes* sizes) const;
  HostId add(HostStep step);

  std::vector<HostStep> steps_;
  std::int32_t line_ = -1;
};

}  // namespace dynrun::trace
