#pragma once
// Work in which no signal handler may run: many functions of CPython look for signals (PyObject_Repr among them), and an
// exception of a handler would be taken for their own.

#include "python/compat.h"

namespace dynrun::python {

/// Signals that come in wait until this is gone. Needs the GIL. They may be held already.
class HeldSignals {
 public:
  HeldSignals() : main_thread_(dynrun_hold_signals()) {}
  ~HeldSignals() { dynrun_release_signals(main_thread_); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

 private:
  const unsigned long main_thread_;
};

}  // namespace dynrun::python
