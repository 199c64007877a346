// Functions that put numbers of each replay together which lie in a tuple or list: sum(shape), math.prod(shape), max(shape),
// torch.Size.numel(), functools.reduce(operator.mul, shape).

#include "guards/torch_python.h"
#include "trace/recorder.h"

#include <opcode.h>

#include <array>

namespace dynrun::trace {

using python::Ref;

namespace {

struct Fold {
  int op = -1;                          // of CPython's opcode.h
  PyObject* function = nullptr;         // or a function of two numbers
  PyObject* numbers = nullptr;          // borrowed
  PyObject* first = nullptr;            // what they are put to; none: they begin by themselves
};

int operator_of(PyObject* function) {
  static const std::array<std::pair<python::Kept, int>, 2> known = {{{import_path("operator:add"), NB_ADD}, {import_path("operator:mul"), NB_MULTIPLY}}};
  for (const auto& [known_function, op] : known) {
    if (known_function.get() == function) return op;
  }
  return -1;
}

/// What a call puts together, and how; `numbers` is null where it is another call.
Fold fold_of(PyObject* callee, const std::vector<PyObject*>& arguments, PyObject* self) {
  static PyObject* const sum = import_path("builtins:sum").release();
  static PyObject* const min = import_path("builtins:min").release();
  static PyObject* const max = import_path("builtins:max").release();
  static PyObject* const prod = import_path("math:prod").release();
  static PyObject* const reduce = import_path("_functools:reduce").release();
  static PyObject* const numel = import_path("torch:Size.numel").release();
  static PyObject* const zero = PyLong_FromLong(0);
  static PyObject* const one = PyLong_FromLong(1);
  if (callee == sum && (arguments.size() == 1 || arguments.size() == 2)) return {NB_ADD, nullptr, arguments[0], arguments.size() == 2 ? arguments[1] : zero};
  if (callee == prod && arguments.size() == 1) return {NB_MULTIPLY, nullptr, arguments[0], one};
  if ((callee == min || callee == max) && arguments.size() == 1) return {-1, callee, arguments[0], nullptr};
  if (callee == reduce && (arguments.size() == 2 || arguments.size() == 3) && operator_of(arguments[0]) >= 0)
    return {operator_of(arguments[0]), nullptr, arguments[1], arguments.size() == 3 ? arguments[2] : nullptr};
  PyObject* size = self ? self : arguments.size() == 1 ? arguments[0] : nullptr;
  const bool alone = arguments.empty() || (arguments.size() == 1 && arguments[0] == size);
  if (size && alone && PyTuple_Check(size) && guards::is_torch_constant(size) && is_method(callee, numel)) return {NB_MULTIPLY, nullptr, size, one};
  return {};
}

}  // namespace

std::optional<Flow> Recorder::call_fold(vm::Activation& activation, CallSite& site, PyObject* callable, PyObject* self) {
  if (hosts_.empty() || site.keyword_names) return std::nullopt;
  Fold fold = fold_of(callable, site.arguments, self);
  if (fold.numbers == nullptr || !holds_hosts(fold.numbers) || !(is_open_size(fold.numbers) || is_fresh(fold.numbers))) return std::nullopt;
  std::vector<PyObject*> numbers(PySequence_Fast_ITEMS(fold.numbers), PySequence_Fast_ITEMS(fold.numbers) + Py_SIZE(fold.numbers));
  if (fold.first) numbers.insert(numbers.begin(), fold.first);
  for (PyObject* number : numbers) {
    if (!PyLong_CheckExact(number) || is_unsettled(number) || (!is_host(number) && !is_constant(number))) return std::nullopt;
  }
  Ref total = Ref::borrow(numbers[0]);
  HostId id = host_of(numbers[0]);
  for (std::size_t i = 1; i < numbers.size(); i++) {
    const HostStep step{fold.function ? HostKind::kCall : HostKind::kBinary, fold.function ? 0 : fold.op, {}, Ref::borrow(fold.function)};
    total = HostProgram::evaluate(step, {total.get(), numbers[i]});
    if (!total) return PyErr_Clear(), std::nullopt;
    id = host_.compute(step.kind, step.index, {id, host_of(numbers[i])}, fold.function, total.get());
  }
  int overflow = 0;
  const std::int64_t value = PyLong_AsLongLongAndOverflow(total.get(), &overflow);
  if (overflow != 0) return std::nullopt;
  return give(activation, make_host(id, value), site.slots);
}

}  // namespace dynrun::trace
