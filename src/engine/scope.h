#pragma once
// What `dynrun.compile` and `dynrun.optimize` ask for the code that runs inside them, on this thread. Needs the GIL.

#include "engine/exports.h"

#include "python/frame.h"

#include <Python.h>

#include <optional>

namespace dynrun::engine {

struct Scope {
  int backend = 0;           // whose code segments get: Engine's number of it, 0 its own
  enum Fullgraph : int { kMayBreak = 0, kMustNotBreak = 1, kAsTorch = 2 };  // a break is an error: any, those that torch.compile has too
  int fullgraph = kMayBreak;
  bool at_once = false;      // recorded at first sight, compiled at once
  std::optional<DynrunDynamic> dynamic;
  bool of_function = false;  // a compiled function's; else a block's

  /// Segments of one key may stand in for each other.
  int key() const { return backend * 4 + fullgraph; }
  static int backend_of_key(int key) { return key / 4; }
  /// That of the code that runs now.
  static Scope& here();
  /// Whether the program has asked for one yet.
  static bool any();
  /// Whether what runs now inside the present one is nothing that the program asked for: a module is being imported, or torch prepares
  /// a backward pass.
  static bool runs_aside();
  /// The function behind a compiled one (`_Scoped`), which is a part of the compiled function that calls it: that one's back end gets
  /// one graph of both. Null for other objects.
  static PyObject* function_within(PyObject* compiled);

  const python::Frame* outside = nullptr;  // that called what runs inside; it may be gone
};

/// Adds to the module `_Scoped(function, scope, forced=False)`, which calls a function inside a scope (`forced`: in the place of the
/// compiled function that calls it, not as a part of that one), and `_enter(scope)`, which makes a scope
/// the present one and gives the one before, and `_forget(back end)`. A scope is a tuple (back end or None, fullgraph, at once, dynamic or None, of a function = False); a back end is
/// a Python function as Engine::lower_with takes it. False with a Python error set.
bool add_scopes(PyObject* module);

}  // namespace dynrun::engine
