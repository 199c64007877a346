#pragma once
// The interpreter lock, for a thread that may hold it already.

#include <Python.h>

namespace dynrun::python {

class Gil {
 public:
  Gil() : state_(PyGILState_Ensure()) {}
  ~Gil() { PyGILState_Release(state_); }
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  PyGILState_STATE state_;
};

}  // namespace dynrun::python
