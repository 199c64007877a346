#include "trace/host.h"

#include "guards/torch_python.h"
#include "python/signals.h"
#include "python/text.h"
#include "trace/callables.h"

#include <fmt/format.h>
#include <opcode.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

namespace dynrun::trace {

using python::Ref;

namespace {

PyObject* power(PyObject* base, PyObject* exponent) { return PyNumber_Power(base, exponent, Py_None); }

using BinaryFunction = PyObject* (*)(PyObject*, PyObject*);
// By NB_ADD ... NB_XOR.
constexpr std::array<BinaryFunction, 13> kBinary = {PyNumber_Add,      PyNumber_And, PyNumber_FloorDivide, PyNumber_Lshift,  PyNumber_MatrixMultiply,
                                                    PyNumber_Multiply, PyNumber_Remainder, PyNumber_Or,    power,            PyNumber_Rshift,
                                                    PyNumber_Subtract, PyNumber_TrueDivide, PyNumber_Xor};
constexpr std::array<const char*, 13> kBinarySigns = {"+", "&", "//", "<<", "@", "*", "%", "|", "**", ">>", "-", "/", "^"};
static_assert(NB_ADD == 0 && NB_XOR == 12 && NB_INPLACE_ADD == 13);

bool same_value(PyObject* a, PyObject* b) {
  if (Py_TYPE(a) != Py_TYPE(b)) return false;
  if (PyFloat_CheckExact(a)) {
    double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
    return std::memcmp(&x, &y, sizeof x) == 0;  // 0.0 is not -0.0, and a NaN is itself
  }
  return PyObject_RichCompareBool(a, b, Py_EQ) == 1;
}

/// What the operator says: RichCompareBool takes an object for equal to itself, which a NaN is not.
int compared(PyObject* a, PyObject* b, int op) {
  Ref result = Ref::steal(PyObject_RichCompare(a, b, op));
  return result ? PyObject_IsTrue(result.get()) : -1;
}

/// _random.Random, whose objects hold nothing but their state.
PyTypeObject* generator_type() {
  static const python::Kept type = import_path("_random:Random");
  return reinterpret_cast<PyTypeObject*>(type.get());
}

char* generator_state(PyObject* generator) { return reinterpret_cast<char*>(generator) + sizeof(PyObject); }
std::size_t generator_size() { return static_cast<std::size_t>(generator_type()->tp_basicsize) - sizeof(PyObject); }

Ref copy_generator(PyObject* generator) {
  Ref copy = Ref::steal(PyType_GenericAlloc(generator_type(), 0));
  if (copy) std::memcpy(generator_state(copy.get()), generator_state(generator), generator_size());
  return copy;
}

std::string shown(PyObject* object) {
  python::HeldSignals held;
  Ref text = object ? Ref::steal(PyObject_Repr(object)) : Ref();
  const char* utf8 = text ? python::text_of(text.get()) : nullptr;
  PyErr_Clear();
  return utf8 ? utf8 : "?";
}

constexpr int kMostDescribed = 100;  // parts of one value

}  // namespace

HostId HostProgram::add(HostStep step) {
  step.line = line_;
  steps_.push_back(std::move(step));
  return static_cast<HostId>(steps_.size() - 1);
}

HostId HostProgram::read(guards::SourceId source, PyObject* now) {
  for (std::size_t i = 0; i < steps_.size(); i++) {
    if (steps_[i].kind == HostKind::kSource && steps_[i].index == source) return static_cast<HostId>(i);
  }
  return add({HostKind::kSource, source, {}, Ref(), Py_TYPE(now)});
}

HostId HostProgram::constant(PyObject* object) { return add({HostKind::kConstant, 0, {}, Ref::borrow(object), Py_TYPE(object)}); }

HostId HostProgram::size(HostKind kind, std::int32_t of, std::int32_t dimension) {
  for (std::size_t i = 0; i < steps_.size(); i++) {
    if (steps_[i].kind == kind && steps_[i].index == of && steps_[i].dimension == dimension) return static_cast<HostId>(i);
  }
  HostStep step{kind, of, {}, Ref(), &PyLong_Type};
  step.dimension = dimension;
  return add(std::move(step));
}

void HostProgram::fix_value_sizes(const std::function<std::int64_t(std::int32_t, std::int32_t)>& size) {
  for (HostStep& step : steps_) {
    if (step.kind != HostKind::kValueSize) continue;
    step.object = Ref::steal(PyLong_FromLongLong(size(step.index, step.dimension)));
    step.kind = HostKind::kConstant;
  }
}

HostId HostProgram::generator(guards::SourceId source) {
  for (std::size_t i = 0; i < steps_.size(); i++) {
    if (steps_[i].kind == HostKind::kGenerator && steps_[i].index == source) return static_cast<HostId>(i);
  }
  return add({HostKind::kGenerator, source, {}, Ref(), generator_type()});
}

void HostProgram::swap_generators(const std::vector<PyObject*>& registers, const std::vector<Ref>& values) const {
  for (std::size_t i = 0; i < steps_.size(); i++) {
    if (steps_[i].kind != HostKind::kGenerator) continue;
    char *live = generator_state(registers[static_cast<std::size_t>(steps_[i].index)]), *copy = generator_state(values[i].get());
    std::swap_ranges(live, live + generator_size(), copy);
  }
}

HostId HostProgram::compute(HostKind kind, std::int32_t index, std::vector<HostId> operands, PyObject* callee, PyObject* now) {
  return add({kind, index, std::move(operands), Ref::borrow(callee), Py_TYPE(now)});
}

void HostProgram::require_equal(HostId id, PyObject* value) { add({HostKind::kEquals, 0, {id}, Ref::borrow(value)}); }

void HostProgram::require_comparison(int op, HostId a, HostId b, bool truth) {
  add({HostKind::kCompares, op, {a, b}, Ref(), nullptr, truth});
}

void HostProgram::require_truth(HostId id, bool truth) { add({HostKind::kIsTrue, 0, {id}, Ref(), nullptr, truth}); }

Ref HostProgram::evaluate(const HostStep& step, const std::vector<PyObject*>& operands) {
  python::HeldSignals held;
  switch (step.kind) {
    case HostKind::kBinary: return Ref::steal(kBinary[static_cast<std::size_t>(step.index)](operands[0], operands[1]));
    case HostKind::kNegative: return Ref::steal(PyNumber_Negative(operands[0]));
    case HostKind::kInvert: return Ref::steal(PyNumber_Invert(operands[0]));
    case HostKind::kCall: return Ref::steal(PyObject_Vectorcall(step.object.get(), operands.data(), operands.size(), nullptr));
    case HostKind::kFormat: {
      using Convert = PyObject* (*)(PyObject*);
      constexpr std::array<Convert, 4> convert = {nullptr, PyObject_Str, PyObject_Repr, PyObject_ASCII};
      Convert function = convert[static_cast<std::size_t>(step.index)];
      Ref value = function ? Ref::steal(function(operands[0])) : Ref::borrow(operands[0]);
      return value ? Ref::steal(PyObject_Format(value.get(), operands.size() > 1 ? operands[1] : nullptr)) : Ref();
    }
    case HostKind::kJoin: {
      Ref empty = Ref::steal(PyUnicode_New(0, 0));
      Ref list = Ref::steal(PyList_New(0));
      for (PyObject* text : operands) {
        if (PyList_Append(list.get(), text) < 0) return Ref();
      }
      return Ref::steal(PyUnicode_Join(empty.get(), list.get()));
    }
    default: return Ref();
  }
}

bool HostProgram::step_holds(std::size_t at, const std::vector<PyObject*>& registers, std::vector<Ref>& values, ValueSizes* sizes) const {
  const HostStep& step = steps_[at];
  auto operand = [&](std::size_t i) { return values[static_cast<std::size_t>(step.operands[i])].get(); };
  switch (step.kind) {
    case HostKind::kSource: values[at] = Ref::borrow(registers[static_cast<std::size_t>(step.index)]); break;
    case HostKind::kConstant: values[at] = step.object; return true;
    case HostKind::kSize:
      values[at] = Ref::steal(PyLong_FromLongLong(guards::tensor_of(registers[static_cast<std::size_t>(step.index)]).size(step.dimension)));
      break;
    case HostKind::kValueSize: {
      const std::optional<std::int64_t> size = sizes ? sizes->size(step.index, step.dimension, values) : std::nullopt;
      if (!size) return false;
      values[at] = Ref::steal(PyLong_FromLongLong(*size));
      break;
    }
    case HostKind::kGenerator: values[at] = copy_generator(registers[static_cast<std::size_t>(step.index)]); break;
    case HostKind::kEquals: return same_value(operand(0), step.object.get());
    case HostKind::kCompares: return compared(operand(0), operand(1), step.index) == static_cast<int>(step.truth);
    case HostKind::kIsTrue: return PyObject_IsTrue(operand(0)) == static_cast<int>(step.truth);
    default: {
      std::vector<PyObject*> operands;
      for (std::size_t i = 0; i < step.operands.size(); i++) operands.push_back(operand(i));
      values[at] = evaluate(step, operands);
    }
  }
  return values[at] && Py_TYPE(values[at].get()) == step.type;
}

bool HostProgram::run(const std::vector<PyObject*>& registers, std::vector<Ref>& values, ValueSizes* sizes) const {
  values.clear();
  values.resize(steps_.size());
  for (std::size_t i = 0; i < steps_.size(); i++) {
    if (step_holds(i, registers, values, sizes)) continue;
    PyErr_Clear();
    return false;
  }
  return true;
}

guards::Miss HostProgram::explain_miss(const std::vector<PyObject*>& registers, const guards::Program& guards, ValueSizes* sizes) const {
  std::vector<Ref> values(steps_.size());
  for (std::size_t i = 0; i < steps_.size(); i++) {
    const HostStep& step = steps_[i];
    if (step_holds(i, registers, values, sizes)) continue;
    PyErr_Clear();
    HostId first = step.operands.empty() ? static_cast<HostId>(i) : step.operands[0];
    std::string now = shown(values[static_cast<std::size_t>(first)].get());
    if (step.kind == HostKind::kEquals) return {describe(first, guards), shown(step.object.get()), now, step.line};
    if (step.kind == HostKind::kCompares || step.kind == HostKind::kIsTrue)
      return {describe(static_cast<HostId>(i), guards), step.truth ? "true" : "false", step.truth ? "false" : "true", step.line};
    return {describe(static_cast<HostId>(i), guards), step.type ? step.type->tp_name : "?", now, step.line};
  }
  return {kNoMiss, "", "", -1};
}

std::string HostProgram::describe(HostId id, const guards::Program& guards) const {
  int parts_left = kMostDescribed;
  return describe(id, guards, parts_left);
}

std::string HostProgram::describe(HostId id, const guards::Program& guards, int& parts_left) const {
  if (parts_left-- <= 0) return "...";
  static const char* const kComparisons[] = {"<", "<=", "==", "!=", ">", ">="};
  const HostStep& step = steps_[static_cast<std::size_t>(id)];
  auto operand = [&](std::size_t i) { return describe(step.operands[i], guards, parts_left); };
  switch (step.kind) {
    case HostKind::kSource:
    case HostKind::kGenerator: return guards.describe(step.index);
    case HostKind::kConstant: return shown(step.object.get());
    case HostKind::kSize: return guards::size_path(guards.describe(step.index), static_cast<std::size_t>(step.dimension));
    case HostKind::kValueSize: return step.dimension == kContent ? fmt::format("%{}.item()", step.index) : fmt::format("%{}.size({})", step.index, step.dimension);
    case HostKind::kBinary: {
      const std::string left = operand(0);
      return fmt::format("({} {} {})", left, kBinarySigns[static_cast<std::size_t>(step.index)], operand(1));
    }
    case HostKind::kNegative: return fmt::format("-{}", operand(0));
    case HostKind::kInvert: return fmt::format("~{}", operand(0));
    case HostKind::kCompares: {
      const std::string left = operand(0);
      return fmt::format("{} {} {}", left, kComparisons[step.index], operand(1));
    }
    case HostKind::kIsTrue: return fmt::format("bool({})", operand(0));
    case HostKind::kEquals: return operand(0);
    default: break;
  }
  std::string text = step.kind == HostKind::kFormat ? "format(" : step.kind == HostKind::kJoin ? "join(" : shown(step.object.get()) + "(";
  for (std::size_t i = 0; i < step.operands.size(); i++) text += (i ? ", " : "") + operand(i);
  return text + ")";
}

void HostProgram::visit_parts(const std::vector<HostId>& ids, const std::function<bool(HostId, const HostStep&)>& visit) const {
  std::set<HostId> open(ids.begin(), ids.end());  // a step's operands come before it
  while (!open.empty()) {
    const HostId id = *open.rbegin();
    open.erase(id);
    const HostStep& step = steps_[static_cast<std::size_t>(id)];
    if (visit(id, step)) open.insert(step.operands.begin(), step.operands.end());
  }
}

std::string HostProgram::print(const guards::Program& guards) const {
  std::string text;
  for (std::size_t i = 0; i < steps_.size(); i++) {
    const HostStep& step = steps_[i];
    const std::string what = describe(static_cast<HostId>(i), guards);
    if (step.kind == HostKind::kEquals) text += fmt::format("{} is {}\n", what, shown(step.object.get()));
    if (step.kind == HostKind::kCompares || step.kind == HostKind::kIsTrue) text += fmt::format("{}: {}\n", what, step.truth);
  }
  return text;
}

}  // namespace dynrun::trace
