// Arithmetic of NumPy on numbers that are the same on each replay: `x / np.sqrt(64)`, `x * np.float32(0.5)`.
//
// Such numbers are constants, and so is what NumPy computes of them. It tells of overflows and the like as warnings or exceptions,
// as the program has asked; what could be one of these is left to the code itself.

#include "guards/numpy_scalar.h"
#include "guards/torch_python.h"
#include "trace/callables.h"
#include "trace/recorder.h"

#include <opcode.h>

#include <cfloat>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace dynrun::trace {

using bytecode::Instruction;
using python::Ref;

namespace {

using Unary = double (*)(double);

/// NumPy's functions of one number that are known, and what each does.
const std::unordered_map<PyObject*, Unary>& functions() {
  static const auto* known = [] {
    const std::pair<const char*, Unary> names[] = {
        {"sqrt", std::sqrt}, {"exp", std::exp}, {"exp2", std::exp2}, {"expm1", std::expm1}, {"log", std::log}, {"log2", std::log2}, {"log10", std::log10},
        {"log1p", std::log1p}, {"sin", std::sin}, {"cos", std::cos}, {"tan", std::tan}, {"tanh", std::tanh}, {"arctan", std::atan}, {"floor", std::floor},
        {"ceil", std::ceil}, {"trunc", std::trunc}, {"rint", std::rint}, {"absolute", std::fabs}, {"fabs", std::fabs}, {"cbrt", std::cbrt},
        {"square", [](double x) { return x * x; }}, {"reciprocal", [](double x) { return 1 / x; }}, {"deg2rad", [](double x) { return x * M_PI / 180; }},
        {"rad2deg", [](double x) { return x * 180 / M_PI; }}};
    auto* table = new std::unordered_map<PyObject*, Unary>();
    for (const auto& [name, function] : names) {
      if (Ref object = import_path(std::string("numpy:") + name)) table->emplace(object.release(), function);
    }
    return table;
  }();
  return *known;
}

/// A number of Python's or NumPy's; nothing for any other object, and for integers that are no doubles.
std::optional<double> number_in(PyObject* object) {
  if (!PyLong_CheckExact(object) && !PyFloat_CheckExact(object) && !PyBool_Check(object) && !guards::is_numpy_scalar(object)) return std::nullopt;
  const double number = PyFloat_AsDouble(object);
  const bool failed = number == -1 && PyErr_Occurred();
  PyErr_Clear();
  return failed || !std::isfinite(number) || (PyLong_Check(object) && std::fabs(number) > guards::kMostExact) ? std::nullopt : std::optional(number);
}

/// Whether a number is one that a class holds without a word about it.
bool holds(PyTypeObject* type, double number) {
  const guards::NumpyScalar* scalar = guards::numpy_scalar(type);
  if (scalar == nullptr) return std::fabs(number) < DBL_MAX;
  if (scalar->boolean) return false;  // what they are added up in is another class
  const double size = std::fabs(number);
  // A rounding away from the ends of the range.
  return (number >= 0 || scalar->has_sign) && (size == 0 || (size >= 2 * scalar->least && size <= (scalar->floating ? scalar->most / 2 : scalar->most)));
}

bool holds(PyObject* object, double number) { return holds(Py_TYPE(object), number); }

std::optional<double> computed(int op, double left, double right) {
  switch (op) {
    case NB_ADD: return left + right;
    case NB_SUBTRACT: return left - right;
    case NB_MULTIPLY: return left * right;
    case NB_TRUE_DIVIDE: return right == 0 ? std::nullopt : std::optional(left / right);
    case NB_FLOOR_DIVIDE: return right == 0 ? std::nullopt : std::optional(std::floor(left / right));
    case NB_POWER: return left <= 0 || right < 0 ? std::nullopt : std::optional(std::pow(left, right));
    default: return std::nullopt;
  }
}

/// What NumPy's function gives for the argument, unrecorded; null where that is no number of NumPy's.
Ref number_from(PyObject* callee, PyObject* argument) {
  UnrecordedScope unrecorded;
  Ref result = Ref::steal(PyObject_CallOneArg(callee, argument));
  if (result && guards::is_numpy_scalar(result.get())) return result;
  PyErr_Clear();
  return {};
}

bool vanishes(double result, double left, double right) { return result == 0 && left != 0 && right != 0 && left != right; }

}  // namespace

/// NumPy's functions of several numbers that may be given as a tuple of integers, none of which has a word to say about them.
static bool folds_sequence(PyObject* callee) {
  if (std::string_view(Py_TYPE(callee)->tp_name) != "numpy._ArrayFunctionDispatcher") return false;
  static const auto* known = [] {
    auto* table = new std::unordered_set<PyObject*>();
    for (const char* name : {"prod", "sum", "max", "min"}) {
      if (Ref object = import_path(std::string("numpy:") + name)) table->insert(object.release());
    }
    return table;
  }();
  return known->count(callee) != 0;
}

bool is_numpy_function(PyObject* object) { return std::string_view(Py_TYPE(object)->tp_name) == "numpy.ufunc" ? functions().count(object) != 0 : folds_sequence(object); }

/// `np.prod(x.shape[1:])`
std::optional<Flow> Recorder::fold_numpy_sequence(vm::Activation& activation, CallSite& site) {
  PyObject* numbers = site.arguments.size() == 1 && !site.keyword_names ? site.arguments[0] : nullptr;
  const bool is_size = numbers && PyTuple_Check(numbers) && guards::is_torch_constant(numbers);
  if (!numbers || !(PyTuple_CheckExact(numbers) || PyList_CheckExact(numbers) || is_size)) return std::nullopt;
  PyObject** items = PySequence_Fast_ITEMS(numbers);
  if (std::any_of(items, items + Py_SIZE(numbers), [this](PyObject* item) { return !PyLong_CheckExact(item) || is_unsettled(item); }) || !resolve_deep(numbers)) return std::nullopt;
  double total = 0, product = 1;
  for (Py_ssize_t i = 0; i < Py_SIZE(numbers); i++) {
    const std::optional<double> number = is_constant(items[i]) ? number_in(items[i]) : std::nullopt;
    if (!number) return std::nullopt;
    total += std::fabs(*number), product *= std::max(1.0, std::fabs(*number));
  }
  if (total > guards::kMostExact || product > guards::kMostExact) return std::nullopt;
  Ref result = number_from(site.callee, numbers);
  return result ? std::optional(give(activation, std::move(result), site.slots)) : std::nullopt;
}

/// `np.sqrt(64)`, `np.float32(0.5)`.
std::optional<Flow> Recorder::call_numpy(vm::Activation& activation, CallSite& site) {
  if (folds_sequence(site.callee)) return fold_numpy_sequence(activation, site);
  auto* type = reinterpret_cast<PyTypeObject*>(site.callee);
  const guards::NumpyScalar* made = PyType_Check(site.callee) ? guards::numpy_scalar(type) : nullptr;
  if ((made == nullptr && functions().count(site.callee) == 0) || site.keyword_names || site.arguments.size() != 1) return std::nullopt;
  PyObject* argument = site.arguments[0];
  if (is_unsettled(argument) || !is_constant(argument)) return std::nullopt;
  const std::optional<double> given = number_in(argument);
  if (!given) return std::nullopt;
  const double expected = made ? *given : functions().at(site.callee)(*given);
  if (!std::isfinite(expected) || !holds(argument, expected) || !holds(argument, *given)) return std::nullopt;
  if (made ? !(made->boolean ? expected >= 0 : holds(type, expected)) : expected == 0 && *given != 0 && std::fabs(*given) < 1e-3) return std::nullopt;
  Ref result = number_from(site.callee, argument);
  return result ? std::optional(give(activation, std::move(result), site.slots)) : std::nullopt;
}

/// An operator on constants, one of NumPy's at least.
std::optional<Flow> Recorder::fold_numpy(vm::Activation& activation, const Instruction& in) {
  PyObject *left = activation.peek(2), *right = activation.peek(1);
  if (!guards::is_numpy_scalar(left) && !guards::is_numpy_scalar(right)) return std::nullopt;
  if (is_unsettled(left) || is_unsettled(right) || !is_constant(left) || !is_constant(right)) return std::nullopt;
  const int op = in.argument >= NB_INPLACE_ADD ? in.argument - NB_INPLACE_ADD : in.argument;
  const std::optional<double> a = number_in(left), b = number_in(right);
  const std::optional<double> expected = a && b ? computed(op, *a, *b) : std::nullopt;
  const bool quiet = expected && std::isfinite(*expected) && !vanishes(*expected, *a, *b) && holds(left, *expected) && holds(right, *expected) &&
                     (guards::is_numpy_scalar(left) ? holds(left, *b) : holds(right, *a));
  if (!quiet) return cut(BreakId::k_opaque_operation, std::string("an operator on ") + Py_TYPE(left)->tp_name + " and " + Py_TYPE(right)->tp_name);
  return prepare(activation, in, 2, Then::kLearnTop);
}

std::optional<Flow> Recorder::fold_numpy_unary(vm::Activation& activation, const Instruction& in) {
  PyObject* operand = activation.peek(1);
  if (!guards::is_numpy_scalar(operand)) return std::nullopt;
  const std::optional<double> number = is_unsettled(operand) || !is_constant(operand) ? std::nullopt : number_in(operand);
  const bool quiet = number && in.opcode == bytecode::Opcode::kUnaryNegative && holds(operand, *number) && holds(operand, -*number);
  if (!quiet) return cut(BreakId::k_opaque_operation, std::string("an operator on a ") + Py_TYPE(operand)->tp_name);
  return prepare(activation, in, 1, Then::kLearnTop);
}

}  // namespace dynrun::trace
