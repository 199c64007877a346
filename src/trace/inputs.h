#pragma once
// The tensors that a replay is given, in the order of its graph's inputs.

#include "python/reference.h"

#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>
#include <vector>

namespace dynrun::trace {

struct Segment;

/// Filled and cleared under the GIL.
class Inputs {
 public:
  Inputs() = default;
  Inputs(Inputs&& other) noexcept : tensors_(std::exchange(other.tensors_, {})), objects_(std::exchange(other.objects_, {})) {}
  Inputs(const Inputs&) = delete;
  Inputs& operator=(Inputs&&) = delete;
  ~Inputs() { clear(); }

  void reserve(std::size_t count);
  /// Another owner of the tensor, which may be undefined.
  void own(at::Tensor tensor);
  /// The tensor of a Python object, by a reference to that alone: libtorch counts what Python owns through the GIL, at a price.
  void borrow(PyObject* object);
  void clear();

  const std::vector<at::Tensor>& tensors() const { return tensors_; }

 private:
  std::vector<at::Tensor> tensors_;
  std::vector<python::Ref> objects_;  // by tensor: the object that one is borrowed of
};

/// Empty optional when the aliasing pattern does not hold. `borrowed`: nobody is going to own an input that is a Python object's.
std::optional<Inputs> gather_inputs(const Segment& segment, const std::vector<PyObject*>& registers, const std::vector<python::Ref>& hosts, bool borrowed);

/// The tensors of the graph's inputs, those that are host values undefined.
std::vector<at::Tensor> outside_inputs(const Segment& segment, const std::vector<PyObject*>& registers);

/// A Python number as operators take it; undefined where it does not fit.
at::Tensor number_tensor(PyObject* number);

/// For each input the first one with the same storage, and where a later one lies in it.
std::vector<std::int32_t> alias_pattern(const std::vector<at::Tensor>& inputs);

}  // namespace dynrun::trace
