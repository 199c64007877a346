#pragma once
// The interpreter lock: held by a thread that may hold it already, and given up for a while by one that does.

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

/// Other threads may run Python code while this lives, however its scope is left.
class NoGil {
 public:
  NoGil() : thread_(PyEval_SaveThread()) {}
  ~NoGil() noexcept(false) { PyEval_RestoreThread(thread_); }  // a thread that outlives the interpreter ends there
  NoGil(const NoGil&) = delete;
  NoGil& operator=(const NoGil&) = delete;

 private:
  PyThreadState* thread_;
};

}  // namespace dynrun::python
