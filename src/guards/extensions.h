#pragma once
// Code of extension modules may write a tensor's memory at any time from when it is given the tensor, and moves no version counter. It gets
// tensors from Python through libtorch_python's converter for pybind11, which the program itself stands in for (exports.cc), or through
// DLPack's table of functions.

#include <Python.h>

namespace dynrun::guards {

/// libtorch_python's converter: whether the object is a tensor, which it puts into the caster. `caller`: the code that asks; what is not
/// libtorch's own is an extension. Needs the GIL.
bool load_tensor(void* caster, PyObject* object, bool convert, const void* caller);

/// Catches what is taken through the table that `torch.Tensor.__dlpack_c_exchange_api__` gives. Needs the GIL and torch imported.
void watch_dlpack_table();

}  // namespace dynrun::guards
