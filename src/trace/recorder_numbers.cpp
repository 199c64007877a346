// Late numbers (recorder_late.cpp) given to torch. Where the graph can make such a number itself, in front of the operator that takes it
// as a size, an index or a scalar, the segment goes on; what it is computed from is the same as for the late value.

#include "guards/torch_python.h"
#include "python/numbers.h"
#include "python/text.h"
#include "trace/recorder.h"

#include <array>
#include <string_view>

namespace dynrun::trace {

using python::is_number;
using python::Ref;

namespace {

/// Of a number that fits.
std::optional<c10::Scalar> scalar_of(PyObject* object) {
  if (PyFloat_CheckExact(object)) return c10::Scalar(PyFloat_AS_DOUBLE(object));
  int overflow = 0;
  const long long value = PyLong_CheckExact(object) ? PyLong_AsLongLongAndOverflow(object, &overflow) : 0;
  return PyLong_CheckExact(object) && overflow == 0 ? std::optional(c10::Scalar(static_cast<std::int64_t>(value))) : std::nullopt;
}

/// The name of a function of the operator module which numbers can be put together by.
std::string_view arithmetic_of(PyObject* callee) {
  static const std::array<std::pair<python::Kept, std::string_view>, 6> known = {{{import_path("operator:add"), "add"}, {import_path("operator:sub"), "sub"},
      {import_path("operator:mul"), "mul"}, {import_path("operator:truediv"), "truediv"}, {import_path("operator:floordiv"), "floordiv"}, {import_path("operator:mod"), "mod"}}};
  for (const auto& [function, name] : known) {
    if (function.get() == callee) return name;
  }
  return {};
}

PyObject* item_method() {
  static PyObject* const method = import_path("torch._C:TensorBase.item").release();
  return method;
}

PyObject* size_method() {
  static PyObject* const method = import_path("torch._C:TensorBase.size").release();
  return method;
}

PyObject* list_method() {
  static PyObject* const method = import_path("torch._C:TensorBase.tolist").release();
  return method;
}

bool is_class(PyObject* callee, PyTypeObject& type) { return callee == reinterpret_cast<PyObject*>(&type); }

/// Functions whose sizes may be given as tensors of one integer.
bool takes_sizes(std::string_view name) {
  static const std::unordered_set<std::string_view> names = {"zeros", "ones", "empty", "full", "rand", "randn", "new_zeros", "new_ones", "new_empty", "new_full", "view", "reshape", "expand", "repeat", "arange"};
  return names.count(name) != 0;
}

}  // namespace

bool Recorder::is_item(PyObject* object) const {
  if (!is_late(object) || !is_number(object)) return false;
  const Late& late = late_.at(object);
  PyObject* callee = late.callee.get();
  const bool asks = callee == item_method() || is_class(callee, PyLong_Type) || is_class(callee, PyFloat_Type);
  return asks && late.arguments.size() == 1 && guards::is_tensor(late.arguments[0].get());
}

/// Whether the graph can make the number: an element of a tensor, or arithmetic on such.
bool Recorder::is_data_number(PyObject* object) const {
  if (!is_late(object) || !is_number(object) || !scalar_of(object)) return false;
  const Late& late = late_.at(object);
  auto known = [this](PyObject* argument) { return is_late(argument) ? is_data_number(argument) : is_number(argument) && !is_volatile(argument) && scalar_of(argument); };
  PyObject* callee = late.callee.get();
  if (late.arguments.empty()) return false;
  PyObject* first = late.arguments[0].get();
  if (callee == item_method()) return true;
  if (is_class(callee, PyLong_Type) || is_class(callee, PyFloat_Type)) return guards::is_tensor(first) || is_data_number(first);
  const std::string_view name = arithmetic_of(callee);
  if (late.arguments.size() != 2) return false;
  if (is_late_element(late) || is_late_size(late)) return true;
  PyObject* second = late.arguments[1].get();
  if (name.empty() || !known(first) || !known(second)) return false;
  const bool whole = PyLong_CheckExact(first) && PyLong_CheckExact(second);
  if (name == "floordiv" || name == "mod") return whole && !is_late(second) && !is_host(second) && PyLong_AsLong(second) > 0;
  return true;
}

/// One of a list that `.tolist()` gave.
bool Recorder::is_late_element(const Late& late) const {
  static const python::Kept getitem = import_path("operator:getitem");
  return late.callee.get() == getitem.get() && late.arguments.size() == 2 && is_data_list(late.arguments[0].get()) && PyLong_CheckExact(late.arguments[1].get());
}

/// A size that data decides.
bool Recorder::is_late_size(const Late& late) const {
  return late.callee.get() == size_method() && late.arguments.size() == 2 && is_unsized(late.arguments[0].get()) && PyLong_CheckExact(late.arguments[1].get());
}

/// What `.tolist()` gave of a tensor of one dimension.
bool Recorder::is_data_list(PyObject* object) const {
  if (!is_late(object) || !PyList_CheckExact(object)) return false;
  const Late& late = late_.at(object);
  if (late.callee.get() != list_method() || guards::tensor_of(late.arguments[0].get()).dim() != 1) return false;
  return std::all_of(PySequence_Fast_ITEMS(object), PySequence_Fast_ITEMS(object) + Py_SIZE(object), [](PyObject* item) { return is_number(item); });
}

/// The graph's own number for one that `is_data_number` knows, or a constant.
OperatorRecorder::Number Recorder::data_number(PyObject* object) {
  const c10::Scalar now = *scalar_of(object);
  if (is_host(object)) return operators_.add_host(host_of(object), now);
  if (!is_late(object)) return {graph::kNoValue, now};
  const Late& late = late_.at(object);
  PyObject *callee = late.callee.get(), *first = late.arguments[0].get();
  if (is_late_element(late)) return operators_.add_element(guards::tensor_of(late_.at(first).arguments[0].get()), PyLong_AsLong(late.arguments[1].get()), now);
  if (is_late_size(late)) return operators_.add_size(guards::tensor_of(first), PyLong_AsLong(late.arguments[1].get()));
  if (const std::string_view name = arithmetic_of(callee); !name.empty())
    return operators_.add_arithmetic(std::string(name), data_number(first), data_number(late.arguments[1].get()), now);
  if (is_late(first)) return is_class(callee, PyFloat_Type) ? operators_.add_arithmetic("float", data_number(first), {}, now) : data_number(first);
  const at::Tensor& of = guards::tensor_of(first);
  const bool becomes_real = is_class(callee, PyFloat_Type) && !of.is_floating_point();
  if (!becomes_real) return operators_.add_element(of, 0, now);
  return operators_.add_arithmetic("float", operators_.add_element(of, 0, static_cast<std::int64_t>(now.toDouble())), {graph::kNoValue, c10::Scalar(0)}, now);
}

/// A size of such a tensor: the same on every replay where data does not decide it and no size varies.
Ref Recorder::unsized_size(PyObject* tensor, std::int64_t dimension) {
  const at::Tensor& value = guards::tensor_of(tensor);
  Ref number = Ref::steal(PyLong_FromLongLong(dimension));
  if (!sizes_vary() && !operators_.decides_size(operators_.find(value), static_cast<std::size_t>(dimension))) return Ref::steal(PyLong_FromLongLong(value.size(dimension)));
  return make_late(size_method(), {tensor, number.get()}, 0);
}

Ref Recorder::unsized_shape(PyObject* tensor) {
  Ref size = Ref::steal(PyObject_GetAttrString(tensor, "shape"));
  if (!size || !PyTuple_Check(size.get())) return Ref();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(size.get()); i++) {
    Ref one = unsized_size(tensor, i);
    if (!one) return Ref();
    Ref old = Ref::steal(std::exchange(PyTuple_GET_ITEM(size.get(), i), one.release()));
  }
  open_sizes_.insert_or_assign(size.get(), Ref::borrow(size.get()));
  return size;
}

/// tensor.shape
std::optional<Flow> Recorder::unsized_shape_attribute(vm::Activation& activation, PyObject* owner, PyObject* name, bool method) {
  if (method || !is_unsized(owner) || !guards::is_plain_tensor(owner) || PyUnicode_CompareWithASCIIString(name, "shape") != 0 || vm::current_machine() != &machine_) return std::nullopt;
  if (operators_.reshaped().count(guards::tensor_of(owner).unsafeGetTensorImpl()) != 0) return std::nullopt;
  static PyObject* const shape = import_path("torch._C:TensorBase.shape").release();
  PyObject* found = _PyType_Lookup(Py_TYPE(owner), name);
  guards_.note_type_lookup(Py_TYPE(owner), name, found);
  Ref size = found == shape ? unsized_shape(owner) : Ref();
  PyErr_Clear();
  return size ? std::optional(give(activation, std::move(size), 1)) : std::nullopt;
}

/// `tensor.size()`, `tensor.size(1)`, `len(tensor)`
std::optional<Flow> Recorder::call_unsized_size(vm::Activation& activation, CallSite& site, PyObject* self) {
  static const python::Kept len = import_path("builtins:len");
  const bool length = site.callee == len.get() && site.arguments.size() == 1;
  PyObject* tensor = length ? site.arguments[0] : self;
  if (!is_unsized(tensor) || !guards::is_plain_tensor(tensor) || site.keyword_names || vm::current_machine() != &machine_) return std::nullopt;
  if (operators_.reshaped().count(guards::tensor_of(tensor).unsafeGetTensorImpl()) != 0 || !(length || is_method(site.callee, size_method()))) return std::nullopt;
  const std::size_t first = !site.arguments.empty() && site.arguments[0] == tensor ? 1 : 0;
  const std::int64_t rank = guards::tensor_of(tensor).dim();
  Ref result;
  if (length) {
    result = rank > 0 ? unsized_size(tensor, 0) : Ref();
  } else if (site.arguments.size() == first) {
    result = unsized_shape(tensor);
  } else if (site.arguments.size() == first + 1 && PyLong_CheckExact(site.arguments[first]) && !is_unsettled(site.arguments[first]) && is_constant(site.arguments[first])) {
    const std::int64_t given = PyLong_AsLongLong(site.arguments[first]), dimension = given < 0 ? given + rank : given;
    result = dimension >= 0 && dimension < rank ? unsized_size(tensor, dimension) : Ref();
  }
  PyErr_Clear();
  return result ? std::optional(give(activation, std::move(result), site.slots)) : std::nullopt;
}

/// What torch may be given though nobody knows it before a replay.
bool Recorder::may_give(PyObject* argument) const { return !is_unsettled(argument) || is_data_number(argument) || is_data_list(argument); }

/// `tensor + number`, `tensor < number`, `tensor[number]`, `tensor[number:number]`: the tensor takes it.
bool Recorder::gives_data(vm::Activation& activation, const bytecode::Instruction& in, int count) const {
  PyObject* container = activation.peek(count);
  auto plain = [this](PyObject* object) { return object == Py_None || is_number(object) ? !is_volatile(object) && (!is_late(object) || is_data_number(object)) : false; };
  switch (in.opcode) {
    case bytecode::Opcode::kBinaryOp:
    case bytecode::Opcode::kCompareOp: {
      PyObject *left = activation.peek(2), *right = activation.peek(1);
      return (guards::is_plain_tensor(left) && is_data_number(right)) || (guards::is_plain_tensor(right) && is_data_number(left));
    }
    case bytecode::Opcode::kBinarySubscr: return guards::is_plain_tensor(container) && PyLong_CheckExact(activation.peek(1)) && plain(activation.peek(1));
    case bytecode::Opcode::kBinarySlice: return guards::is_plain_tensor(container) && plain(activation.peek(1)) && plain(activation.peek(2));
    default: return false;
  }
}

/// An element of a list that `.tolist()` gave.
std::optional<Flow> Recorder::late_element(vm::Activation& activation) {
  static const python::Kept getitem = import_path("operator:getitem");
  PyObject *list = activation.peek(2), *index = activation.peek(1);
  if (!is_data_list(list) || is_unsettled(index) || is_host(index) || !PyLong_CheckExact(index)) return std::nullopt;
  const Py_ssize_t at = PyLong_AsSsize_t(index), length = PyList_GET_SIZE(list);
  if (at < 0 || at >= length) {
    PyErr_Clear();
    return std::nullopt;
  }
  return push_late(activation, getitem.get(), {list, index}, 2);
}

void Recorder::offer_data(PyObject* object, OperatorRecorder::HostArgument place) {
  if (is_data_list(object)) {
    const at::Tensor& of = guards::tensor_of(late_.at(object).arguments[0].get());
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); i++) {
      place.item = static_cast<std::int32_t>(i);
      place.value = *scalar_of(PyList_GET_ITEM(object, i));
      place.data = operators_.add_element(of, i, place.value).value;
      pending_.offered.emplace_back(Ref::borrow(object), kNoHost);
      operators_.host_arguments.push_back(place);
    }
    return;
  }
  const OperatorRecorder::Number number = data_number(object);
  place.value = number.now;
  place.data = number.value;
  pending_.offered.emplace_back(Ref::borrow(object), kNoHost);
  operators_.host_arguments.push_back(std::move(place));
}

/// A tensor of one integer where a size may stand: if torch asks for its number, the operator gets it.
void Recorder::offer_tensor(PyObject* object, std::string_view callee, OperatorRecorder::HostArgument place) {
  if (!guards::is_plain_tensor(object) || !takes_sizes(callee.substr(callee.rfind('.') + 1))) return;
  const at::Tensor& tensor = guards::tensor_of(object);
  if (tensor.dim() != 0 || !c10::isIntegralType(tensor.scalar_type(), false) || !resolve(object)) return;
  place.tensor = operators_.value_of(tensor);
  if (place.tensor == graph::kNoValue || operators_.is_constant(place.tensor)) return;
  if (operators_.follows_from_sizes(place.tensor)) return offer_content(object, std::move(place));
  place.value = std::int64_t{0};
  pending_.offered.emplace_back(Ref::borrow(object), kNoHost);
  operators_.host_arguments.push_back(std::move(place));
}

/// The one number in a tensor that follows from sizes is a host value.
void Recorder::offer_content(PyObject* tensor, OperatorRecorder::HostArgument place) {
  const graph::ValueId id = std::exchange(place.tensor, graph::kNoValue);
  {
    UnrecordedScope unrecorded;
    place.value = guards::tensor_of(tensor).item();
  }
  place.host = host_.size(HostKind::kValueSize, id, kContent);
  operators_.settle_content(id);  // torch asks for it
  pending_.offered.emplace_back(Ref::borrow(tensor), place.host);
  operators_.host_arguments.push_back(std::move(place));
}

}  // namespace dynrun::trace
