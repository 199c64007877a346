#include "trace/inputs.h"

#include "guards/torch_python.h"
#include "trace/segment.h"

#include <ATen/EmptyTensor.h>
#include <torch/csrc/autograd/variable.h>

#include <unordered_map>

namespace dynrun::trace {

using python::Ref;

void Inputs::reserve(std::size_t count) {
  tensors_.reserve(count);
  objects_.reserve(count);
}

void Inputs::own(at::Tensor tensor) {
  tensors_.push_back(std::move(tensor));
  objects_.emplace_back();
}

void Inputs::borrow(PyObject* object) {
  tensors_.emplace_back(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim(guards::tensor_of(object).unsafeGetTensorImpl()));
  objects_.push_back(Ref::borrow(object));
}

void Inputs::clear() {
  for (std::size_t i = 0; i < tensors_.size(); i++) {
    if (objects_[i]) tensors_[i].unsafeReleaseTensorImpl();
  }
  tensors_.clear();
  objects_.clear();
}

at::Tensor number_tensor(PyObject* number) {
  at::Tensor tensor;
  if (PyFloat_CheckExact(number)) {
    tensor = at::detail::empty_cpu({}, at::TensorOptions().dtype(at::kDouble));
    *tensor.mutable_data_ptr<double>() = PyFloat_AS_DOUBLE(number);
  } else {
    int overflow = 0;
    long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (overflow != 0) return tensor;
    tensor = at::detail::empty_cpu({}, at::TensorOptions().dtype(at::kLong));
    *tensor.mutable_data_ptr<std::int64_t>() = value;
  }
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

std::vector<at::Tensor> outside_inputs(const Segment& segment, const std::vector<PyObject*>& registers) {
  std::vector<at::Tensor> inputs;
  inputs.reserve(segment.input_sources.size());
  for (guards::SourceId source : segment.input_sources) {
    const int input = static_cast<int>(inputs.size());
    if (segment.host_inputs.count(input) != 0) inputs.emplace_back();
    else if (source == guards::kNoSource) inputs.push_back(segment.literals.at(input));
    else inputs.push_back(guards::tensor_of(registers[static_cast<std::size_t>(source)]));
  }
  return inputs;
}

std::optional<Inputs> gather_inputs(const Segment& segment, const std::vector<PyObject*>& registers, const std::vector<Ref>& hosts, bool borrowed) {
  std::optional<Inputs> inputs(std::in_place);
  inputs->reserve(segment.input_sources.size());
  for (guards::SourceId source : segment.input_sources) {
    const int input = static_cast<int>(inputs->tensors().size());
    if (auto host = segment.host_inputs.find(input); host != segment.host_inputs.end()) {
      at::Tensor number = number_tensor(hosts[static_cast<std::size_t>(host->second)].get());
      if (!number.defined()) return std::nullopt;
      inputs->own(std::move(number));
    } else if (source == guards::kNoSource) {
      inputs->own(segment.literals.at(input));
    } else if (PyObject* object = registers[static_cast<std::size_t>(source)]; borrowed) {
      inputs->borrow(object);
    } else {
      inputs->own(guards::tensor_of(object));
    }
  }
  if (segment.writes_outside && alias_pattern(inputs->tensors()) != segment.alias_pattern) return std::nullopt;
  return inputs;
}

std::vector<std::int32_t> alias_pattern(const std::vector<at::Tensor>& inputs) {
  std::vector<std::int32_t> pattern;
  std::unordered_map<const void*, std::int32_t> seen, bases;
  // A write to a view changes what autograd knows of its base, and of the base's other views.
  auto base_of = [&](const at::Tensor& tensor) {
    const void* base = tensor.is_view() ? tensor._base().unsafeGetTensorImpl() : tensor.unsafeGetTensorImpl();
    return bases.try_emplace(base, static_cast<std::int32_t>(bases.size())).first->second;
  };
  for (std::size_t i = 0; i < inputs.size(); i++) {
    const at::Tensor& tensor = inputs[i];
    const void* storage = tensor.has_storage() ? static_cast<const void*>(tensor.storage().unsafeGetStorageImpl()) : nullptr;
    auto [at, fresh] = seen.try_emplace(storage, static_cast<std::int32_t>(i));
    pattern.push_back(at->second);
    // What autograd refuses of a view whose memory was written.
    const auto* view = torch::autograd::impl::get_view_autograd_meta(tensor);
    pattern.push_back(view && view->has_bw_view() ? static_cast<std::int32_t>(view->get_creation_meta()) : -1);
    // Where two inputs share memory, how they lie in it matters too.
    pattern.push_back(fresh ? 0 : static_cast<std::int32_t>(tensor.storage_offset()));
    if (fresh || storage == nullptr) continue;
    for (const at::Tensor& one : {inputs[static_cast<std::size_t>(at->second)], tensor}) pattern.push_back(base_of(one));
  }
  return pattern;
}

}  // namespace dynrun::trace
