#include "guards/torch_python.h"

#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/MemoryFormat.h>
#include <torch/csrc/Size.h>
#include <torch/csrc/autograd/python_variable.h>

namespace dynrun::guards {

bool is_plain_tensor(PyObject* object) { return THPVariable_CheckExact(object); }

bool is_parameter(PyObject* object) { return is_plain_tensor(object) && reinterpret_cast<PyObject*>(Py_TYPE(object)) != THPVariableClass; }

PyObject* tensor_class() { return THPVariableClass; }

bool is_tensor(PyObject* object) {
  return is_plain_tensor(object) ||
         (THPVariableClass && PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(THPVariableClass)));
}

bool has_plain_layout(PyObject* object) {
  const at::Tensor& tensor = tensor_of(object);
  return tensor.defined() && tensor.layout() == c10::kStrided && !tensor.is_nested() && !tensor.is_quantized() && !tensor.is_mkldnn();
}

PyObject* gradient_of(PyObject* tensor) {
  if (!is_plain_tensor(tensor) || !tensor_of(tensor).is_leaf()) return nullptr;
  const at::Tensor& gradient = tensor_of(tensor).grad();
  if (!gradient.defined()) return Py_None;
  PyObject* object = THPVariable_Wrap(gradient);
  if (object == nullptr) PyErr_Clear();
  Py_XDECREF(object);
  return object != nullptr && is_plain_tensor(object) ? object : nullptr;
}

const at::Tensor& tensor_of(PyObject* object) { return THPVariable_Unpack(object); }

bool is_torch_constant(PyObject* object) {
  return THPDtype_Check(object) || THPDevice_Check(object) || THPLayout_Check(object) || THPMemoryFormat_Check(object) ||
         THPSize_Check(object);
}

PyObject* wrap(const at::Tensor& tensor) { return THPVariable_Wrap(tensor); }

}  // namespace dynrun::guards
