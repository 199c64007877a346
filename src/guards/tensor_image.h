#pragma once
// What a living tensor looked like, in one stretch of memory: one comparison instead of a question for each of its facts. Needs the
// GIL.

#include <Python.h>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <array>
#include <optional>

namespace dynrun::guards {

class TensorImage {
 public:
  /// Of a plain tensor whose facts all lie in its own memory: a leaf of at most five dimensions that is no view. None of another one.
  static std::optional<TensorImage> of(PyObject* object);

  /// Whether every byte of it is what it was: its type, shape, device and keys, where its storage is, whether it requires a gradient.
  /// The object must be alive. What its memory holds, and where its storage has that memory, is not part of the image.
  bool still() const;
  const PyObject* object() const { return object_; }
  /// Has the tensor brought near before it is asked about.
  void prefetch() const;

 private:
  TensorImage() = default;

  static constexpr std::size_t kCounts = sizeof(c10::intrusive_ptr_target);  // reference counts come first
  static constexpr std::size_t kLine = 64;

  PyObject* object_ = nullptr;
  PyTypeObject* type_ = nullptr;
  c10::TensorImpl* impl_ = nullptr;
  const torch::autograd::AutogradMeta* gradients_ = nullptr;  // none where nothing was ever asked of them
  bool requires_grad_ = false;
  std::array<char, sizeof(c10::TensorImpl) - kCounts> bytes_;
};

}  // namespace dynrun::guards
