#pragma once
// What one LOAD_ATTR, STORE_ATTR or LOAD_GLOBAL remembers of its last run, as CPython's own caches do: valid while the type's
// (or the dict keys') version stands. Everything here needs the GIL; objects in a cache are borrowed, the version keeps them.

#include <Python.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct DynrunInlineCache {
  uint8_t plan;        // 0: nothing is known
  uint8_t misses;      // so far: a cache that keeps missing is filled less and less often
  uint16_t cooldown;   // runs until it is filled again
  uint32_t version;    // of the type, the class or the globals' keys
  uint32_t version_2;  // of the metaclass or the builtins' keys
  int32_t index;       // of the name in the shared keys, or in the dict's entries; -1: not there
  int32_t names;       // how many names the shared keys held
  PyObject* found;     // on the type; null: nothing
} DynrunInlineCache;

/// What dynrun_load_attribute gives.
enum DynrunAttribute {
  kDynrunAttributeSlow,    // nothing was done: the cache does not know
  kDynrunAttributeValue,   // the attribute (new reference)
  kDynrunAttributeMethod,  // the unbound method (new reference), to be called with the owner first; only if `method`
  kDynrunAttributeGetter,  // a property's function (new reference): the attribute is what it returns for the owner
};

/// owner.name, where the cache knows the way. Never fails and never runs Python code.
int dynrun_load_attribute(DynrunInlineCache* cache, PyObject* owner, PyObject* name, int method, PyObject** result);

/// owner.name = value. False: nothing was done. The old value's destructor may run.
int dynrun_store_attribute(DynrunInlineCache* cache, PyObject* owner, PyObject* name, PyObject* value);

/// The global or builtin (new reference). Null, without an error: the cache does not know.
PyObject* dynrun_load_global(DynrunInlineCache* cache, PyObject* globals, PyObject* builtins, PyObject* name);

/// super(type, self).name. Value or method as above, or slow.
int dynrun_load_super_attribute(PyTypeObject* type, PyObject* self, PyObject* name, int method, PyObject** result);

#ifdef __cplusplus
}
#endif
