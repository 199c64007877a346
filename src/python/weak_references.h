#pragma once
// Weak references that others than the program make. Needs the GIL.

#include <Python.h>

namespace dynrun::python {

/// Whether weak references to the object are cleared when it ends. Not every class of an extension that takes them does so
/// (torch.cuda.Event's ends without a word in torch 2.11): a reference to such an object would dangle.
bool clears_weak_references(PyObject* object);

}  // namespace dynrun::python
