#pragma once
// The name of the function of libtorch_python that gives extension modules the tensor of a Python object,
// pybind11::detail::type_caster<at::Tensor>::load (torch/csrc/utils/pybind.h). Modules look for it by this name; what comes before
// libtorch_python and has it too stands in for it.

#define DYNRUN_TENSOR_CONVERTER "_ZN8pybind116detail11type_casterIN2at6TensorEvE4loadENS_6handleEb"
