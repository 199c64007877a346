// An extension module as programs bring them: it writes tensors through pointers, given by pybind11 and by the dispatcher.

#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

#include <vector>

namespace {

std::vector<at::Tensor> kept;

void scale(const at::Tensor& tensor, double by) {
  auto* numbers = static_cast<float*>(tensor.data_ptr());
  for (std::int64_t i = 0; i < tensor.numel(); ++i) numbers[i] *= static_cast<float>(by);
}

void scale_all(const std::vector<at::Tensor>& tensors, double by) {
  for (const at::Tensor& tensor : tensors) scale(tensor, by);
}

at::Tensor scaled(const at::Tensor& tensor, double by) {
  scale(tensor, by);
  return tensor;
}

void scale_kept(double by) { scale_all(kept, by); }

}  // namespace

TORCH_LIBRARY(writers, m) {
  m.def("said(Tensor(a!) tensor, float by) -> ()", &scale);
  m.def("said_of_list(Tensor(a!)[] tensors, float by) -> ()", &scale_all);
  m.def("said_and_given(Tensor(a!) tensor, float by) -> Tensor(a!)", &scaled);
  m.def("unsaid", &scale);
  m.def("unsaid_of_list", &scale_all);
  m.def("unsaid_and_given_", &scaled);
  m.def("by_device(Tensor(a!) tensor, float by) -> ()");
}

TORCH_LIBRARY_IMPL(writers, CPU, m) { m.impl("by_device", &scale); }

/// As a library that is loaded late.
static void define_late() {
  static auto library = torch::Library(torch::Library::DEF, "late_writers", std::nullopt, __FILE__, __LINE__);
  library.def("unsaid", &scale);
}

PYBIND11_MODULE(writers, m) {
  m.def("scale", &scale);
  m.def("scale_all", &scale_all);
  m.def("keep", [](const at::Tensor& tensor) { kept.push_back(tensor); });
  m.def("scale_kept", &scale_kept);
  m.def("define_late", &define_late);
}
