// Sizes that may be others on each replay.
//
// A tensor from outside whose size was another one before is read with that dimension open. From then on the sizes of it and of
// everything computed are host values: Python gets real numbers, each an object of its own; a comparison becomes a requirement,
// a place that takes a size takes the number of the replay. Whatever looks at sizes in a way that is not known here fixes them
// all (`fix_sizes`): the segment is then for the sizes of this recording, which is right, only less general.

#include "graph/operators.h"
#include "guards/torch_python.h"
#include "python/compat.h"
#include "python/text.h"
#include "trace/host_difference.h"
#include "trace/recorder.h"
#include "trace/shape_plans.h"

#include <opcode.h>

#include <string_view>

namespace dynrun::trace {

using bytecode::Instruction;
using bytecode::Opcode;
using guards::SourceId;
using python::Ref;

namespace {

bool is_size(PyObject* object) { return PyTuple_Check(object) && !PyTuple_CheckExact(object) && guards::is_torch_constant(object); }

PyObject* tensor_method(const char* name) {
  return import_path(std::string("torch._C:TensorBase.") + name).release();
}

std::int64_t number_of(PyObject* object) { return PyLong_AsLongLong(object); }

bool fits_size(PyObject* number) {
  int overflow = 0;
  PyLong_AsLongLongAndOverflow(number, &overflow);
  return overflow == 0;
}

/// What torch._dynamo.mark_dynamic and its kin have said of a tensor's dimensions, a bit each.
struct SizeMarks {
  std::uint64_t varying = 0, fixed = 0;
};

std::uint64_t dimensions_in(PyObject* attributes, const char* name) {
  PyObject* set = PyDict_GetItemString(attributes, name);
  std::uint64_t bits = 0;
  for (long i = 0; set && PyAnySet_CheckExact(set) && i < 64; i++) {
    Ref dimension = Ref::steal(PyLong_FromLong(i));
    if (PySet_Contains(set, dimension.get()) == 1) bits |= std::uint64_t{1} << i;
  }
  return bits;
}

SizeMarks marks_of(PyObject* tensor) {
  PyObject* attributes = guards::instance_dict(tensor);
  if (attributes == nullptr || PyDict_GET_SIZE(attributes) == 0) return {};
  return {dimensions_in(attributes, "_dynamo_dynamic_indices") | dimensions_in(attributes, "_dynamo_weak_dynamic_indices"),
          dimensions_in(attributes, "_dynamo_static_indices")};
}

}  // namespace

bool holds_only_tensors(PyObject* object) {
  if (object == Py_None || guards::is_tensor(object)) return true;
  if (!PyTuple_Check(object) && !PyList_CheckExact(object)) return false;
  return std::all_of(PySequence_Fast_ITEMS(object), PySequence_Fast_ITEMS(object) + Py_SIZE(object), holds_only_tensors);
}

/// Leaves the sizes of an outside tensor open that have changed before.
void Recorder::learn_outside_tensor(PyObject* object, SourceId source) {
  const at::Tensor& tensor = guards::tensor_of(object);
  const std::string path = guards_.describe(source);
  std::uint64_t open = 0;
  const bool all = limits_.all_sizes_vary && !(tensor.is_leaf() && tensor.requires_grad()) && !guards_.is_of_instance(source);
  const SizeMarks marks = records_sizes() ? marks_of(object) : SizeMarks();
  for (std::int64_t i = 0; records_sizes() && i < tensor.dim() && i < 64; i++) {
    const std::uint64_t bit = std::uint64_t{1} << i;
    const bool varies = all || (marks.varying & bit) || limits_.varying_sizes->count(guards::size_path(path, static_cast<std::size_t>(i)));
    if (varies && !(marks.fixed & bit)) open |= bit;
  }
  open = guards_.check_tensor(source, tensor, open);
  outside_tensors_[tensor.unsafeGetTensorImpl()] = {source, path};
  if (open == 0) return;
  open_tensors_[tensor.unsafeGetTensorImpl()] = {open, tensor.sizes().vec()};
  open_sources_.push_back(source);
}

bool Recorder::has_open_sizes(PyObject* tensor) {
  if (!sizes_vary() || !guards::is_plain_tensor(tensor) || is_unsized(tensor)) return false;
  c10::TensorImpl* impl = guards::tensor_of(tensor).unsafeGetTensorImpl();
  return open_tensors_.count(impl) != 0 || outside_tensors_.count(impl) == 0;
}

bool Recorder::require_content(PyObject* object) {
  if (!sizes_vary() || !guards::is_plain_tensor(object) || is_unsized(object)) return false;
  const at::Tensor& tensor = guards::tensor_of(object);
  const graph::ValueId id = operators_.find(tensor);
  if (!operators_.follows_from_sizes(id) || tensor.numel() != 1 || !c10::isIntegralType(tensor.scalar_type(), true)) return false;
  UnrecordedScope unrecorded;
  contents_[id] = tensor.item().toLong();
  Ref now = Ref::steal(PyLong_FromLongLong(contents_[id]));
  host_.require_equal(host_.size(HostKind::kValueSize, id, kContent), now.get());
  operators_.settle_content(id);
  return true;
}

/// The sizes of this recording are those of every replay.
void Recorder::fix_sizes() {
  if (sizes_fixed_) return;
  sizes_fixed_ = true;
  operators_.binds_sizes = false;
  for (const auto& [impl, tensor] : open_tensors_) {
    const SourceId source = outside_tensors_.at(impl).first;
    for (std::int32_t i = 0; i < 64; i++) {
      if (!(tensor.open >> i & 1)) continue;
      Ref now = Ref::steal(PyLong_FromLongLong(tensor.sizes[static_cast<std::size_t>(i)]));
      host_.require_equal(host_.size(HostKind::kSize, source, i), now.get());
    }
  }
  for (const auto& [host, value] : operators_.sized_hosts()) {
    Ref now = Ref::steal(PyLong_FromLongLong(value));
    host_.require_equal(host, now.get());
  }
}

/// A size as a host value; none where it is the same on each replay.
HostId Recorder::size_host(PyObject* object, std::int64_t dimension) {
  const at::Tensor& tensor = guards::tensor_of(object);
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  const auto index = static_cast<std::int32_t>(dimension);
  if (auto open = open_tensors_.find(impl); open != open_tensors_.end())
    return open->second.open >> dimension & 1 ? host_.size(HostKind::kSize, outside_tensors_.at(impl).first, index) : kNoHost;
  if (outside_tensors_.count(impl) != 0) return kNoHost;
  return host_.size(HostKind::kValueSize, operators_.find(tensor), index);
}

HostId Recorder::size_or_constant(PyObject* object, std::int64_t dimension) {
  const HostId host = size_host(object, dimension);
  if (host != kNoHost) return host;
  Ref now = Ref::steal(PyLong_FromLongLong(guards::tensor_of(object).size(dimension)));
  return host_.constant(now.get());
}

/// An int object of its own that is the host value.
Ref Recorder::make_host(HostId id, std::int64_t value) {
  Ref number = Ref::steal(PyLong_FromLongLong(value));
  Ref unique = unique_copy(number.get());
  hosts_.insert_or_assign(unique.get(), std::pair(unique, id));
  originals_[unique.get()] = number;
  return unique;
}

Ref Recorder::make_size(PyObject* tensor) {
  Ref size = Ref::steal(PyObject_GetAttrString(tensor, "shape"));
  if (!size || !is_size(size.get())) return Ref();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(size.get()); i++) {
    const HostId id = size_host(tensor, i);
    if (id == kNoHost) continue;
    Ref unique = make_host(id, number_of(PyTuple_GET_ITEM(size.get(), i)));
    Ref old = Ref::steal(std::exchange(PyTuple_GET_ITEM(size.get(), i), unique.release()));
  }
  note_open_size(size.get());
  return size;
}

/// A torch.Size from outside, a local that lives across a break, that held other numbers before.
bool Recorder::wants_size(PyObject* object, SourceId source) {
  return records_sizes() && is_size(object) && limits_.varying && limits_.varying->count(guards_.describe(source)) != 0;
}

/// Puts a size of its own in the place of one from outside, with host values for its numbers. Those of one element or none are the
/// same on each replay, as they are of tensors.
void Recorder::adopt_size(PyObject** slot, SourceId source) {
  guards_.check_type(source, Py_TYPE(*slot));
  guards_.check_length(source, PyTuple_GET_SIZE(*slot));
  Ref size = Ref::steal(PyObject_CallOneArg(reinterpret_cast<PyObject*>(Py_TYPE(*slot)), *slot));
  if (!size || size.get() == *slot) {
    PyErr_Clear();
    guards_.check_equals(source, *slot);
    return;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(size.get()); i++) {
    PyObject*& item = PyTuple_GET_ITEM(size.get(), i);
    const SourceId path = guards_.read(guards::SourceKind::kSequenceItem, source, static_cast<std::int32_t>(i), nullptr);
    if (number_of(item) < 2) {
      guards_.check_equals(path, item);
      continue;
    }
    Ref unique = make_host(read_host(item, path), number_of(item));
    Ref old = Ref::steal(std::exchange(item, unique.release()));
  }
  note_open_size(size.get());
  Ref old = Ref::steal(std::exchange(*slot, size.release()));
}

void Recorder::note_open_size(PyObject* object) {
  if ((hosts_.empty() && late_.empty()) || !is_size(object)) return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); i++) {
    if (!is_host(PyTuple_GET_ITEM(object, i)) && !is_late(PyTuple_GET_ITEM(object, i))) continue;
    open_sizes_.insert_or_assign(object, Ref::borrow(object));
    return;
  }
}

bool Recorder::holds_late(PyObject* size) const {
  PyObject** items = PySequence_Fast_ITEMS(size);
  return std::any_of(items, items + PyTuple_GET_SIZE(size), [this](PyObject* item) { return is_late(item); });
}

void Recorder::specialise_size(PyObject* object) {
  if (holds_late(object)) {
    leaked_ = true;  // the segment ends here, and its replays hand on the size that they found
    return;
  }
  Ref keep = std::move(open_sizes_.at(object));
  open_sizes_.erase(object);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); i++) {
    if (is_host(PyTuple_GET_ITEM(object, i))) specialise(PyTuple_GET_ITEM(object, i));
  }
  kept_hosts_.push_back(std::move(keep));
}

Flow Recorder::give(vm::Activation& activation, Ref object, int slots, bool method) {
  for (int i = 0; i < slots; i++) Py_XDECREF(activation.pop());
  if (method) activation.push(nullptr);
  activation.push(object.release());
  activation.pc++;
  return Flow::kResume;
}

/// tensor.shape
std::optional<Flow> Recorder::size_attribute(vm::Activation& activation, PyObject* owner, PyObject* name, bool method) {
  if (!has_open_sizes(owner) || !resolve(owner)) return std::nullopt;
  if (operators_.reshaped().count(guards::tensor_of(owner).unsafeGetTensorImpl()) || PyUnicode_CompareWithASCIIString(name, "nbytes") == 0) {
    fix_sizes();
    return std::nullopt;
  }
  if (method || PyUnicode_CompareWithASCIIString(name, "shape") != 0) return std::nullopt;
  static PyObject* const shape = import_path("torch._C:TensorBase.shape").release();
  PyObject* found = _PyType_Lookup(Py_TYPE(owner), name);
  guards_.note_type_lookup(Py_TYPE(owner), name, found);
  Ref size = found == shape ? make_size(owner) : Ref();
  if (!size) {
    fix_sizes();
    return std::nullopt;
  }
  return give(activation, std::move(size), 1);
}

/// The product of all sizes.
HostId Recorder::element_count(PyObject* tensor) {
  const auto sizes = guards::tensor_of(tensor).sizes();
  std::int64_t product = 1;
  HostId id = kNoHost;
  for (std::size_t i = 0; i < sizes.size(); i++) {
    const HostId one = size_or_constant(tensor, static_cast<std::int64_t>(i));
    product *= sizes[i];
    Ref now = Ref::steal(PyLong_FromLongLong(product));
    id = id == kNoHost ? one : host_.compute(HostKind::kBinary, NB_MULTIPLY, {id, one}, nullptr, now.get());
  }
  return id;
}

/// Calls that ask a tensor for its sizes.
std::optional<Flow> Recorder::call_size(vm::Activation& activation, CallSite& site, PyObject* self) {
  static PyObject* const size = tensor_method("size");
  static PyObject* const numel = tensor_method("numel");
  static PyObject* const nelement = tensor_method("nelement");
  static const python::Kept len = import_path("builtins:len");
  if (!sizes_vary() || site.keyword_names) return std::nullopt;
  PyObject* tensor = site.callee == len.get() && site.arguments.size() == 1 ? site.arguments[0] : self;
  if (!tensor || !has_open_sizes(tensor) || !resolve(tensor)) return std::nullopt;
  if (operators_.reshaped().count(guards::tensor_of(tensor).unsafeGetTensorImpl())) {
    fix_sizes();
    return std::nullopt;
  }
  const at::Tensor& value = guards::tensor_of(tensor);
  std::vector<PyObject*> rest(site.arguments.begin() + (!site.arguments.empty() && site.arguments[0] == tensor ? 1 : 0), site.arguments.end());
  auto number = [&](std::int64_t dimension) -> std::optional<Flow> {
    const HostId id = size_host(tensor, dimension);
    if (id != kNoHost) return give(activation, make_host(id, value.size(dimension)), site.slots);
    return give(activation, Ref::steal(PyLong_FromLongLong(value.size(dimension))), site.slots);  // the same on each replay
  };
  if (site.callee == len.get()) return value.dim() > 0 ? number(0) : std::nullopt;
  if (is_method(site.callee, size) && rest.empty()) return give(activation, make_size(tensor), site.slots);
  if (is_method(site.callee, size) && rest.size() == 1 && PyLong_CheckExact(rest[0]) && is_constant(rest[0])) {
    const std::int64_t dimension = number_of(rest[0]), actual = dimension < 0 ? dimension + value.dim() : dimension;
    if (actual >= 0 && actual < value.dim()) return number(actual);
  }
  if (rest.empty() && (is_method(site.callee, numel) || is_method(site.callee, nelement))) {
    const HostId id = element_count(tensor);
    if (id != kNoHost) return give(activation, make_host(id, value.numel()), site.slots);
  }
  return std::nullopt;
}

/// Whether there is nothing about the object but the tensor, and no way to it but the instruction that runs.
bool Recorder::is_seen_by_nobody(PyObject* object) {
  const at::Tensor& tensor = guards::tensor_of(object);
  if (Py_TYPE(object) != reinterpret_cast<PyTypeObject*>(guards::tensor_class()) || Py_REFCNT(object) != 1 || tensor.use_count() != 1 || tensor.requires_grad() || tensor.grad().defined()) return false;
  PyObject* attributes = guards::instance_dict(object);
  const Py_ssize_t offset = Py_TYPE(object)->tp_weaklistoffset;
  const bool referred = offset > 0 && *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset) != nullptr;
  return !referred && (attributes == nullptr || PyDict_GET_SIZE(attributes) == 0);
}

/// `x[:, :n].contiguous()`: at other sizes it may give the tensor itself, or another one. Where nobody sees the tensor, nobody can tell;
/// one that is contiguous as it is, is the operator's result from here on.
std::optional<Flow> Recorder::call_contiguous(vm::Activation& activation, CallSite& site, PyObject* self) {
  static PyObject* const contiguous = tensor_method("contiguous");
  if (!sizes_vary() || self == nullptr || site.keyword_names || !is_method(site.callee, contiguous) || site.arguments.size() > 1) return std::nullopt;
  if (!site.arguments.empty() && site.arguments[0] != self) return std::nullopt;
  if (!guards::is_plain_tensor(self) || is_unsized(self) || outside_tensors_.count(guards::tensor_of(self).unsafeGetTensorImpl()) != 0) return std::nullopt;
  const at::Tensor& tensor = guards::tensor_of(self);
  if (!is_seen_by_nobody(self) || !resolve(self) || operators_.reshaped().count(tensor.unsafeGetTensorImpl()) != 0) return std::nullopt;
  if (const graph::ValueId argument = operators_.find(tensor); argument != graph::kNoValue) unseen_arguments_.insert(argument);
  if (!tensor.is_contiguous() || !operators_.take_as_contiguous(tensor)) return std::nullopt;
  return give(activation, Ref::borrow(self), site.slots);
}

/// C code in front of the dispatcher asks whether the tensor is contiguous.
void Recorder::note_layout(PyObject* object) {
  if (!guards::is_plain_tensor(object)) return;
  const graph::ValueId id = operators_.find(guards::tensor_of(object));
  if (id == graph::kNoValue) layout_unknown_ = true;
  else layouts_asked_.insert(id);
}

/// Whether C code that is given open tensors looks at no size of theirs but those that it is known to.
void Recorder::settle_sizes(const CallSite& site, CallKind kind, std::string_view name) {
  if (!sizes_vary()) return;
  bool any = false;
  auto look = [&](PyObject* object) { any = any || has_open_sizes(object); };
  for (PyObject* argument : site.arguments) {
    look(argument);
    if (!PyTuple_Check(argument) && !PyList_CheckExact(argument)) continue;
    for (Py_ssize_t i = 0; i < Py_SIZE(argument); i++) look(PySequence_Fast_ITEMS(argument)[i]);
  }
  if (!any) return;
  const std::string_view last = name.substr(name.rfind('.') + 1);
  const bool copies = last == "contiguous" && site.arguments.size() == 1 && guards::is_plain_tensor(site.arguments[0]) && !guards::tensor_of(site.arguments[0]).is_contiguous();
  if ((last == "contiguous" && !copies) || last == "is_contiguous") std::for_each(site.arguments.begin(), site.arguments.end(), [this](PyObject* argument) { note_layout(argument); });
  if (kind.call_class == CallClass::kTransparent) {
    sizes_asked_ = true;
    return;
  }
  if (kind.model == Model::kMetadata) {
    static const std::unordered_set<std::string_view> fixed = {"dim", "element_size", "get_device", "is_complex", "is_conj", "is_floating_point", "is_inference", "is_neg", "is_signed", "ndimension", "type"};
    if (last == "is_inference") layout_unknown_ = true;  // a view may have another answer than a copy
    if (fixed.count(last) == 0 && !(last == "is_contiguous" && site.arguments.size() <= 1 && !site.keyword_names)) fix_sizes();
    return;
  }
  const bool passes_on = kind.model == Model::kIsInstance || kind.model == Model::kListAppend || kind.model == Model::kDictGet || kind.model == Model::kDictPop || kind.model == Model::kPrint || kind.model == Model::kWarn || kind.model == Model::kSetAttribute || kind.model == Model::kWriteFresh || kind.model == Model::kNewTuple;
  static const std::unordered_set<std::string_view> by_iteration = {"enumerate", "zip", "iter", "list", "tuple", "map", "sum"};  // as Tensor.__iter__ does it
  if (passes_on || by_iteration.count(name) != 0 || name == "type" || name == "callable" || name == "_abc_instancecheck" || name.rfind("_has_torch_function", 0) == 0) return;
  if (kind.model == Model::kGetAttribute && site.arguments.size() > 1 && PyUnicode_CheckExact(site.arguments[1])) {
    static const std::unordered_set<std::string_view> sizes = {"shape", "nbytes"};
    if (sizes.count(python::text_of(site.arguments[1])) != 0) fix_sizes();
    return;
  }
  for (PyObject* argument : site.arguments) {
    if (has_open_sizes(argument)) return fix_sizes();
  }
}

/// After an instruction: operators whose results are as many as a size says, and numbers that torch gave.
void Recorder::look_at_recorded_sizes(const Instruction& in, PyObject* result) {
  if (leaked_ || operators_.refusal() != Refusal::kNone) {  // the segment ends in front of the instruction
    operators_.index_parts.clear();
    sizes_asked_ = false;
    return;
  }
  for (const OperatorRecorder::IndexPart& part : operators_.index_parts) {
    take_kept_slice(part, result);
    for (std::size_t i = 0; i < part.numbers.size(); i++) {
      const OperatorRecorder::IndexNumber& number = part.numbers[i];
      if (number.host == kNoHost || number.bound || (part.left_out && i == 1)) continue;
      Ref now = Ref::steal(PyLong_FromLongLong(number.value));
      host_.require_equal(number.host, now.get());
    }
  }
  operators_.index_parts.clear();
  if (!sizes_vary()) return;
  const graph::Graph& graph = *operators_.graph();
  const bool stores = in.opcode == Opcode::kStoreSubscr || in.opcode == Opcode::kStoreSlice;
  for (std::size_t i = pending_.guarded ? pending_.mark.nodes : graph.nodes.size(); i < graph.nodes.size(); i++) {
    const graph::Node& node = graph.nodes[i];
    const std::string_view name = graph::base_name(node.op);
    // The value is brought to the form of the place, by sizes that nobody handed over.
    if (stores && (name == "expand" || name == "view" || name == "broadcast_to" || name == "reshape")) fix_sizes();
    const bool gives_list = std::any_of(node.return_lengths.begin(), node.return_lengths.end(), [](std::int32_t length) { return length >= 0; });
    if (!gives_list || name == "split_with_sizes" || node.op.operator_name().overload_name == "sizes" || node.arguments.empty() || !node.arguments[0].is_value()) continue;
    // Others give as many as their arguments say.
    static const std::unordered_set<std::string_view> counted = {"unbind", "split", "chunk", "unsafe_split", "unsafe_chunk", "unbind_copy", "split_copy"};
    if (counted.count(name) == 0) continue;
    const graph::ValueId value = node.arguments[0].value();
    const graph::Argument& last = node.arguments.back();
    const auto& sizes = graph.type_of(value).sizes;
    std::int64_t dimension = last.is_constant() && last.constant().isInt() ? last.constant().toInt() : 0;
    if (dimension < 0) dimension += static_cast<std::int64_t>(sizes.size());
    Ref now = Ref::steal(PyLong_FromLongLong(sizes[static_cast<std::size_t>(dimension)]));
    host_.require_equal(host_.size(HostKind::kValueSize, value, static_cast<std::int32_t>(dimension)), now.get());
  }
  const bool asked = std::exchange(sizes_asked_, false);
  if (asked && result && !holds_only_tensors(result)) fix_sizes();
}

/// torch left a slice out that takes everything at this size: it is the recorded operator of the other sizes.
void Recorder::take_kept_slice(const OperatorRecorder::IndexPart& part, PyObject* result) {
  if (!part.takes_all || part.taken) return;
  if (result && guards::is_plain_tensor(result) && operators_.take_as_slice(guards::tensor_of(result), part)) return;
  if (part.numbers[1].host == kNoHost) return fix_sizes();
  Ref now = Ref::steal(PyLong_FromLongLong(part.numbers[1].value));
  host_.require_equal(part.numbers[1].host, now.get());
  fix_sizes();
}

/// Numbers of each replay in an index of numbers, slices, None and `...`: which operator takes them. False: there is something
/// else in it.
bool Recorder::offer_index(PyObject* tensor, PyObject* key, bool stores) {
  std::vector<PyObject*> items{key};
  if (PyTuple_CheckExact(key)) items.assign(PySequence_Fast_ITEMS(key), PySequence_Fast_ITEMS(key) + PyTuple_GET_SIZE(key));
  std::int64_t specified = 0;
  for (PyObject* item : items) {
    if (!may_give(item) || (PySlice_Check(item) && item != key && !is_fresh(item))) return false;
    if (PyLong_CheckExact(item) && !fits_size(item)) return false;
    if (PyLong_CheckExact(item) || PySlice_Check(item)) specified++;
    else if (item != Py_None && item != Py_Ellipsis) return false;
  }
  const std::int64_t rank = guards::tensor_of(tensor).dim();
  if (specified > rank) return false;
  std::int64_t source = 0, place = 0;
  std::vector<OperatorRecorder::IndexPart> parts;
  for (PyObject* item : items) {
    if (item == Py_Ellipsis) {
      source += rank - specified, place += rank - specified;
      continue;
    }
    if (item == Py_None) {
      place++;
      continue;
    }
    OperatorRecorder::IndexPart part{PySlice_Check(item) != 0, false, false, false, place, {}};
    if (!part.slice) {
      part.numbers[0] = index_number(item);
      part.in_range = part.numbers[0].host >= 0 && operators_.wrote_outside() && require_in_range(tensor, source, part.numbers[0]);
      source++;
    } else {
      part.takes_all = !stores && records_sizes() && !guards::tensor_of(tensor).requires_grad() && !is_unsized(tensor);  // `offer_slice` looks further
      if (!offer_slice(tensor, source, reinterpret_cast<PySliceObject*>(item), part)) return false;
      source++, place++;
    }
    parts.push_back(part);
  }
  operators_.index_parts = std::move(parts);
  return true;
}

OperatorRecorder::IndexNumber Recorder::index_number(PyObject* object) {
  if (is_data_number(object)) return {kNoHost, number_of(object), false, data_number(object).value};
  return is_host(object) && !is_volatile(object) ? OperatorRecorder::IndexNumber{host_of(object), number_of(object)} : OperatorRecorder::IndexNumber{};
}

/// Behind a write to an outside tensor nothing may raise any more: the number is required to lie within the dimension.
bool Recorder::require_in_range(PyObject* tensor, std::int64_t dimension, const OperatorRecorder::IndexNumber& number) {
  const at::Tensor& of = guards::tensor_of(tensor);
  const bool known = outside_tensors_.count(of.unsafeGetTensorImpl()) != 0 || operators_.find(of) != graph::kNoValue;
  if (!known || is_unsized(tensor) || operators_.reshaped().count(of.unsafeGetTensorImpl()) != 0 || number.value < 0 || number.value >= of.size(dimension)) return false;
  Ref zero = Ref::steal(PyLong_FromLong(0));
  host_.require_comparison(Py_GE, number.host, host_.constant(zero.get()), true);
  host_.require_comparison(Py_LT, number.host, size_or_constant(tensor, dimension), true);
  return true;
}

/// A slice of as many elements on each replay, in another place: it is required to lie within the dimension, and not to be all of it.
bool Recorder::require_window(PyObject* tensor, std::int64_t dimension, PySliceObject* slice) {
  auto is_moving = [&](PyObject* bound) { return is_host(bound) && !is_volatile(bound); };
  if (!is_moving(slice->start) || !is_moving(slice->stop) || is_unsized(tensor)) return false;
  const HostId start = host_of(slice->start), stop = host_of(slice->stop);
  const std::optional<std::int64_t> width = constant_difference(host_, stop, start);
  const std::int64_t size = guards::tensor_of(tensor).size(dimension);
  if (!width || *width < 0 || *width >= size || number_of(slice->start) < 0 || number_of(slice->stop) > size) return false;
  const HostId whole = size_or_constant(tensor, dimension);
  Ref zero = Ref::steal(PyLong_FromLong(0)), elements = Ref::steal(PyLong_FromLongLong(*width));
  host_.require_comparison(Py_GE, start, host_.constant(zero.get()), true);
  host_.require_comparison(Py_LE, stop, whole, true);
  if (has_open_sizes(tensor)) host_.require_comparison(Py_GT, whole, host_.constant(elements.get()), true);
  return true;
}

/// torch leaves a slice out that takes the whole dimension: whether it does is required.
bool Recorder::offer_slice(PyObject* tensor, std::int64_t dimension, PySliceObject* slice, OperatorRecorder::IndexPart& part) {
  const bool may_take_less = std::exchange(part.takes_all, false);
  PyObject* const values[] = {slice->start, slice->stop, slice->step};
  for (std::size_t i = 0; i < 3; i++) {
    if (!may_give(values[i]) || (values[i] != Py_None && !(PyLong_CheckExact(values[i]) && fits_size(values[i])))) return false;
    part.numbers[i] = index_number(values[i]);
  }
  // A slice whose size data decides is an operator that takes whatever there is.
  if (is_late(slice->start) || is_late(slice->stop)) return slice->step == Py_None;
  auto is = [](PyObject* value, long wanted) { return value == Py_None || PyLong_AsLong(value) == wanted; };
  if (is_host(slice->step)) specialise(slice->step);
  part.numbers[2] = {};
  if (!is(slice->step, 1)) return true;
  if (require_window(tensor, dimension, slice)) return part.moves = true;
  const std::int64_t size = guards::tensor_of(tensor).size(dimension);
  // Which end leaves how much: torch asks before it hands the slice on.
  auto require = [&](std::int64_t distance, HostId host, int op) {
    if (host == kNoHost && !has_open_sizes(tensor)) return;
    Ref number = Ref::steal(PyLong_FromLongLong(distance));
    host_.require_comparison(op, host == kNoHost ? host_.constant(number.get()) : host, size_or_constant(tensor, dimension), op == Py_GT ? distance > size : distance >= size);
  };
  const std::int64_t start = slice->start == Py_None ? 0 : number_of(slice->start);
  HostId back = kNoHost;  // how far from the end a negative start is
  if (start != 0 && part.numbers[0].host != kNoHost && (start > 0 || slice->stop == Py_None)) {
    Ref zero = Ref::steal(PyLong_FromLong(0)), distance = Ref::steal(PyLong_FromLongLong(-start));
    host_.require_comparison(start > 0 ? Py_GT : Py_LT, part.numbers[0].host, host_.constant(zero.get()), true);
    if (start < 0) back = host_.compute(HostKind::kNegative, 0, {part.numbers[0].host}, nullptr, distance.get());
  } else if (is_host(slice->start)) {
    specialise(slice->start);
    part.numbers[0] = {};
  }
  if (start < 0) require(-start, back, Py_GE);
  if (slice->stop == Py_None) return true;
  const std::int64_t stop = number_of(slice->stop);
  if (stop < 0 && part.numbers[1].host != kNoHost) {
    if (is_host(slice->stop)) specialise(slice->stop);  // not so if it was the start, too
    part.numbers[1] = {};
  }
  if (stop < 0) return true;
  // One that just takes the whole dimension, kept, gives the same view; autograd alone could tell.
  part.left_out = stop >= size && (start == 0 || (start < 0 && -start >= size));
  part.takes_all = may_take_less && stop == size && start == 0 && part.numbers[0].host == kNoHost && (part.numbers[1].host != kNoHost || has_open_sizes(tensor));
  part.numbers[1].value = stop;
  if ((stop < size && !guards::tensor_of(tensor).requires_grad()) || part.takes_all) require(stop, part.numbers[1].host, Py_GT);
  else require(stop, part.numbers[1].host, Py_GE);
  return true;
}

/// tensor[index] and tensor[index] = value.
std::optional<Flow> Recorder::index_tensor(vm::Activation& activation, const Instruction& in, PyObject* tensor, PyObject* key, int slots) {
  const bool stores = in.opcode == Opcode::kStoreSubscr || in.opcode == Opcode::kStoreSlice;
  if ((!records_sizes() && (late_.empty() || stores)) || !resolve(tensor)) return std::nullopt;
  const bool own = in.opcode == Opcode::kBinarySlice || in.opcode == Opcode::kStoreSlice || PyLong_CheckExact(key) || key == Py_None || key == Py_Ellipsis || is_fresh(key);
  if (!own || !offer_index(tensor, key, stores)) {
    if (has_open_sizes(tensor)) settle_odd_index(key);
    return std::nullopt;
  }
  std::vector<OperatorRecorder::IndexPart> parts = std::move(operators_.index_parts);
  Flow flow = prepare(activation, in, slots, stores ? Then::kNothing : Then::kLearnTop);
  operators_.index_parts = std::move(parts);
  return flow;
}

/// An index of tensors or lists: slices in it might be left out by torch.
void Recorder::settle_odd_index(PyObject* key) {
  if (!PyTuple_CheckExact(key)) return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); i++) {
    PyObject* item = PyTuple_GET_ITEM(key, i);
    if (PySlice_Check(item) && reinterpret_cast<PySliceObject*>(item)->stop != Py_None) return fix_sizes();
  }
}

/// Two sizes or tuples of numbers: equal or not, item by item.
bool Recorder::compare_sizes(PyObject* left, PyObject* right) {
  auto fits = [&](PyObject* object) {
    if (!PyTuple_Check(object) || !(is_size(object) || (PyTuple_CheckExact(object) && is_fresh(object)))) return false;
    return std::all_of(PySequence_Fast_ITEMS(object), PySequence_Fast_ITEMS(object) + PyTuple_GET_SIZE(object), [](PyObject* item) { return PyLong_CheckExact(item); });
  };
  if (!fits(left) || !fits(right) || PyTuple_GET_SIZE(left) != PyTuple_GET_SIZE(right)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(left); i++) {
    PyObject *a = PyTuple_GET_ITEM(left, i), *b = PyTuple_GET_ITEM(right, i);
    if (is_unsettled(a) || is_unsettled(b)) return false;
    const bool same = number_of(a) == number_of(b);
    if (is_host(a) || is_host(b)) host_.require_comparison(Py_EQ, host_of(a), host_of(b), same);
    if (!same) return true;
  }
  return true;
}

/// The segment is for many sizes, or the sizes that it found are required. `inputs_`: the recording's.
void Recorder::finish_sizes() {
  for (std::size_t i = 0; i < inputs_.size(); i++) {
    auto host = operators_.host_numbers().find(segment_->graph->inputs[i].value);
    if (host == operators_.host_numbers().end()) continue;
    const c10::impl::ExcludeDispatchKeyGuard unrecorded(c10::DispatchKey::TESTING_ONLY_GenericMode);
    inputs_[i] = wrapped_number(host->second);
  }
  const bool varied = sizes_fixed_ || sizes_vary();
  std::vector<HostId> sized;
  for (const auto& [host, value] : operators_.sized_hosts()) sized.push_back(host);
  if (!sizes_fixed_ && varied && may_have_plans(*segment_, inputs_)) {
    const bool all_alike = layout_unknown_ || operators_.wrote_outside() || operators_.any_unsized();
    PlanLayouts layouts = all_alike ? PlanLayouts() : PlanLayouts(*segment_->graph, layouts_asked_, unseen_arguments_);
    if (!layouts.ones_vary()) guards_.close_ones();
    segment_->shapes = std::make_unique<ShapePlans>(host_, open_sources_, std::move(sized), std::move(layouts));
    return;
  }
  if (varied) fix_sizes();
  // A number may be compared with a size that is always the same.
  host_.fix_value_sizes([this](std::int32_t value, std::int32_t dimension) {
    return dimension == kContent ? contents_.at(value) : segment_->graph->type_of(value).sizes[static_cast<std::size_t>(dimension)];
  });
  if (!varied) return;
  if (std::shared_ptr<graph::Graph> fixed = ShapePlans::with_numbers(*segment_, inputs_, sized)) segment_->graph = fixed;
}

}  // namespace dynrun::trace
