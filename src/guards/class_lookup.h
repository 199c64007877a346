#pragma once

#include "guards/watch.h"
#include "python/reference.h"

#include <memory>
#include <vector>

namespace dynrun::guards {

/// What a name of a class gave when it was looked up. The object is not kept alive: a weak reference, or where there can be none
/// (a list, say) a watch of the dict that it was found in, tells whether it is still that object.
class ClassLookup {
 public:
  /// `found` is borrowed; null: not there.
  ClassLookup(PyTypeObject* type, PyObject* name, PyObject* found);

  PyObject* name() const { return name_.get(); }
  bool holds(PyTypeObject* type) const;

 private:
  python::Ref name_;
  PyTypeObject* kind_ = nullptr;  // of what was found; compared only
  PyObject* stem_ = nullptr;      // borrowed, compared only while `weak_` lives, `watch_` is quiet, or when held by `strong_`
  python::Ref weak_, strong_;     // strong: of what leads to nothing of the program's
  std::shared_ptr<DictWatch> watch_;
};

/// The special methods that a class has at one time (`__eq__`, `__len__`, ...; its own and those of bases written in Python): what
/// C code finds by the class of an object, without a look-up that the VM sees.
class SpecialMethods {
 public:
  /// Those of `type` as it is now, shared by all that ask while the class does not change.
  static std::shared_ptr<const SpecialMethods> of(PyTypeObject* type);

  /// Whether `type`, the same class at a later time, has these and no others.
  bool hold(PyTypeObject* type) const;

 private:
  std::vector<ClassLookup> methods_;
};

}  // namespace dynrun::guards
