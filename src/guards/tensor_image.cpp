#include "guards/tensor_image.h"

#include "guards/torch_python.h"

#include <c10/core/impl/SizesAndStrides.h>

#include <cstring>

namespace dynrun::guards {

namespace {

const char* after_counts(const c10::TensorImpl* impl) { return reinterpret_cast<const char*>(impl) + sizeof(c10::intrusive_ptr_target); }

}  // namespace

std::optional<TensorImage> TensorImage::of(PyObject* object) {
  if (!is_plain_tensor(object) || !has_plain_layout(object)) return std::nullopt;
  const at::Tensor& tensor = tensor_of(object);
  if (tensor.dim() > static_cast<std::int64_t>(C10_SIZES_AND_STRIDES_MAX_INLINE_SIZE) || !tensor.is_leaf()) return std::nullopt;
  TensorImage image;
  image.object_ = object;
  image.type_ = Py_TYPE(object);
  image.impl_ = tensor.unsafeGetTensorImpl();
  image.gradients_ = torch::autograd::impl::get_autograd_meta(tensor);
  if (image.gradients_ && (image.gradients_->is_view_ || image.gradients_->grad_fn_)) return std::nullopt;
  image.requires_grad_ = tensor.requires_grad();
  std::memcpy(image.bytes_.data(), after_counts(image.impl_), image.bytes_.size());
  return image;
}

bool TensorImage::still() const {
  if (Py_TYPE(object_) != type_ || tensor_of(object_).unsafeGetTensorImpl() != impl_) return false;
  if (std::memcmp(bytes_.data(), after_counts(impl_), bytes_.size()) != 0) return false;
  return gradients_ == nullptr || (gradients_->requires_grad_ == requires_grad_ && !gradients_->grad_fn_);
}

void TensorImage::prefetch() const {
  __builtin_prefetch(object_);
  for (std::size_t at = 0; at < sizeof(c10::TensorImpl); at += kLine) __builtin_prefetch(reinterpret_cast<const char*>(impl_) + at);
  if (gradients_ == nullptr) return;
  __builtin_prefetch(&gradients_->grad_fn_);
  __builtin_prefetch(&gradients_->requires_grad_);
}

}  // namespace dynrun::guards
