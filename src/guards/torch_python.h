#pragma once
// How torch's objects look from Python's side. Needs the GIL.

#include <Python.h>

#include <ATen/core/Tensor.h>

namespace dynrun::guards {

/// torch.Tensor (borrowed), or null before torch is there.
PyObject* tensor_class();
/// Exactly torch.Tensor or torch.nn.Parameter: no subclass.
bool is_plain_tensor(PyObject* object);
/// Exactly torch.nn.Parameter.
bool is_parameter(PyObject* object);
/// Any torch.Tensor, subclasses included.
bool is_tensor(PyObject* object);
/// Strided, and no wrapper: sizes and strides can be asked for.
bool has_plain_layout(PyObject* tensor);
/// The tensor inside a Python tensor object.
const at::Tensor& tensor_of(PyObject* object);
/// `tensor.grad` of a leaf, borrowed (the tensor keeps its object): a plain tensor or None. Null: not a leaf, or another class.
PyObject* gradient_of(PyObject* tensor);
/// torch.dtype, torch.layout, torch.memory_format, torch.device, torch.Size: values, compared by ==.
bool is_torch_constant(PyObject* object);
/// A new reference to the Python object of `tensor`: the one it already has, or a new one.
PyObject* wrap(const at::Tensor& tensor);

}  // namespace dynrun::guards
