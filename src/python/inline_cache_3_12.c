// inline_cache.h for CPython 3.12. Like CPython's specialised instructions these read a type's method table, an instance's
// values and a dict's keys directly; a version tag that stands says that what was found at filling time still holds.

#define Py_BUILD_CORE 1
#include "inline_cache.h"

#include "internal/pycore_descrobject.h"
#include "internal/pycore_dict.h"
#include "internal/pycore_interp.h"
#include "internal/pycore_object.h"
#include "internal/pycore_pystate.h"
#include "structmember.h"

enum Plan {
  kNothing,
  kInstance,  // the instance's own attribute, else `found`
  kSlot,      // a __slots__ member: `index` is its offset
  kProperty,  // `found` is the property
  kClass,     // the owner is a class: `found` is on it
  kModule,    // the owner is a module: in its dict
  kGlobal,    // in the globals, at `index`
  kBuiltin,   // in the builtins, at `index`
};

enum { kManyMisses = 10, kScanned = 256 };

// Whether a cache that missed is to be filled now.
static int wants_filling(DynrunInlineCache* cache) {
  if (cache->cooldown > 0) {
    cache->cooldown--;
    return 0;
  }
  if (cache->misses < kManyMisses) cache->misses++;
  cache->cooldown = (uint16_t)((1u << cache->misses) - 2);
  cache->plan = kNothing;
  return 1;
}

// ---- dict keys ----

static int same_name(PyObject* key, PyObject* name) {
  if (key == name) return 1;
  if (key == NULL || !PyUnicode_CheckExact(key)) return 0;
  Py_ssize_t length = PyUnicode_GET_LENGTH(key);
  return length == PyUnicode_GET_LENGTH(name) && PyUnicode_KIND(key) == PyUnicode_KIND(name) &&
         memcmp(PyUnicode_DATA(key), PyUnicode_DATA(name), (size_t)length * PyUnicode_KIND(key)) == 0;
}

// The entry of `name`; -1: none, -2: too many to look through.
static int32_t find_entry(PyDictKeysObject* keys, PyObject* name) {
  PyDictUnicodeEntry* entries = DK_UNICODE_ENTRIES(keys);
  Py_ssize_t count = keys->dk_nentries;
  for (Py_ssize_t i = 0; i < count && i < kScanned; i++) {
    if (entries[i].me_key == name) return (int32_t)i;
  }
  if (count > kScanned) return -2;
  for (Py_ssize_t i = 0; i < count; i++) {
    if (same_name(entries[i].me_key, name)) return (int32_t)i;
  }
  return -1;
}

// The value of `name` in a dict of str keys (borrowed, null: none). `hint`: where it was last.
static inline PyObject* find_value(PyDictObject* dict, PyObject* name, int32_t hint) {
  PyDictKeysObject* keys = dict->ma_keys;
  if (keys->dk_kind == DICT_KEYS_UNICODE && hint >= 0 && hint < keys->dk_nentries) {
    PyDictUnicodeEntry* entry = DK_UNICODE_ENTRIES(keys) + hint;
    if (entry->me_key == name && entry->me_value) return entry->me_value;
  }
  return _PyDict_GetItem_KnownHash((PyObject*)dict, name, ((PyASCIIObject*)name)->hash);
}

static int has_plain_keys(PyObject* dict) {
  return PyDict_CheckExact(dict) && ((PyDictObject*)dict)->ma_keys->dk_kind != DICT_KEYS_GENERAL;
}

static uint32_t keys_version(PyDictKeysObject* keys) {
  if (keys->dk_version != 0) return keys->dk_version;
  struct _Py_dict_state* state = &PyInterpreterState_Get()->dict_state;
  if (state->next_keys_version == 0) return 0;
  return keys->dk_version = state->next_keys_version++;
}

// ---- filling ----

static PyObject* default_getattribute(void) {
  static PyObject* found = NULL;
  static PyObject* name = NULL;
  if (name == NULL) name = PyUnicode_InternFromString("__getattribute__");
  if (found == NULL && name != NULL) found = _PyType_Lookup(&PyBaseObject_Type, name);
  return found;
}

// Whether attributes of the type's instances are found as object finds them (a __getattr__ comes after that).
static int reads_plainly(PyTypeObject* type) {
  if (type->tp_getattro == PyObject_GenericGetAttr) return 1;
  static PyObject* name = NULL;
  if (name == NULL) name = PyUnicode_InternFromString("__getattribute__");
  if (name == NULL || !(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || type->tp_getattr != NULL) return 0;
  PyObject* own = _PyType_Lookup(type, name);
  return own != NULL && own == default_getattribute();
}

static int is_own_slot(PyTypeObject* type, PyObject* descriptor) {
  if (!Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) return 0;
  PyMemberDef* member = ((PyMemberDescrObject*)descriptor)->d_member;
  return member->type == T_OBJECT_EX && member->flags == 0 && member->offset > 0 &&
         PyType_IsSubtype(type, ((PyDescrObject*)descriptor)->d_type);
}

static void locate_in_instance(DynrunInlineCache* cache, PyObject* owner, PyObject* name) {
  PyTypeObject* type = Py_TYPE(owner);
  cache->index = -1;
  cache->names = 0;
  if (!(type->tp_flags & Py_TPFLAGS_MANAGED_DICT)) return;
  PyDictOrValues held = *_PyObject_DictOrValuesPointer(owner);
  if (!_PyDictOrValues_IsValues(held)) {
    PyObject* dict = _PyDictOrValues_GetDict(held);
    if (dict == NULL || !has_plain_keys(dict)) return;
    PyDictKeysObject* keys = ((PyDictObject*)dict)->ma_keys;
    if (keys->dk_kind == DICT_KEYS_UNICODE) cache->index = find_entry(keys, name);
    cache->names = -1;
    return;
  }
  PyDictKeysObject* keys = ((PyHeapTypeObject*)type)->ht_cached_keys;
  cache->index = find_entry(keys, name);
  cache->names = (int32_t)keys->dk_nentries;
}

static void fill_load(DynrunInlineCache* cache, PyObject* owner, PyObject* name) {
  PyTypeObject* type = Py_TYPE(owner);
  if (((PyASCIIObject*)name)->hash == -1) return;
  if (PyType_Check(owner) && type->tp_getattro == PyType_Type.tp_getattro) {
    if (_PyType_Lookup(type, name) != NULL) return;
    PyObject* found = _PyType_Lookup((PyTypeObject*)owner, name);
    cache->found = found;
    cache->version = ((PyTypeObject*)owner)->tp_version_tag;
    cache->version_2 = type->tp_version_tag;
    if (found != NULL && cache->version != 0 && cache->version_2 != 0) {
      if (Py_TYPE(found)->tp_descr_get == NULL || PyFunction_Check(found)) cache->plan = kClass;
    }
    return;
  }
  int is_module = Py_IS_TYPE(owner, &PyModule_Type);
  if (!is_module && !reads_plainly(type)) return;
  PyObject* found = _PyType_Lookup(type, name);
  cache->found = found;
  cache->version = type->tp_version_tag;
  if (cache->version == 0) return;
  if (is_module) {
    PyObject* dict = PyModule_GetDict(owner);
    if (found != NULL || dict == NULL || !has_plain_keys(dict)) return;
    PyDictKeysObject* keys = ((PyDictObject*)dict)->ma_keys;
    cache->index = keys->dk_kind == DICT_KEYS_UNICODE ? find_entry(keys, name) : -1;
    cache->plan = kModule;
    return;
  }
  if (found != NULL && Py_TYPE(found)->tp_descr_set != NULL) {
    if (is_own_slot(type, found)) {
      cache->index = (int32_t)((PyMemberDescrObject*)found)->d_member->offset;
      cache->plan = kSlot;
    } else if (Py_IS_TYPE(found, &PyProperty_Type) && type->tp_getattro == PyObject_GenericGetAttr) {
      cache->plan = kProperty;  // where it raises AttributeError, no __getattr__ is asked
    }
    return;
  }
  // What binds itself to the owner, apart from methods, is left alone: it may run anything.
  if (found != NULL && Py_TYPE(found)->tp_descr_get != NULL &&
      !_PyType_HasFeature(Py_TYPE(found), Py_TPFLAGS_METHOD_DESCRIPTOR)) {
    return;
  }
  if (type->tp_dictoffset < 0 && !(type->tp_flags & Py_TPFLAGS_MANAGED_DICT)) return;
  locate_in_instance(cache, owner, name);
  if (cache->index != -2) cache->plan = kInstance;
}

// ---- running ----

// The instance's own attribute (borrowed). False: the cache cannot tell.
static inline int own_attribute(DynrunInlineCache* cache, PyObject* owner, PyObject* name, PyObject** value) {
  PyTypeObject* type = Py_TYPE(owner);
  PyObject* dict;
  if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
    PyDictOrValues held = *_PyObject_DictOrValuesPointer(owner);
    if (_PyDictOrValues_IsValues(held)) {
      if (cache->names < 0) return 0;
      if (cache->index >= 0) {
        *value = _PyDictOrValues_GetValues(held)->values[cache->index];
        return 1;
      }
      *value = NULL;
      return cache->names == ((PyHeapTypeObject*)type)->ht_cached_keys->dk_nentries;
    }
    dict = _PyDictOrValues_GetDict(held);
  } else if (type->tp_dictoffset == 0) {
    *value = NULL;
    return 1;
  } else {
    dict = *(PyObject**)((char*)owner + type->tp_dictoffset);
  }
  *value = NULL;
  if (dict == NULL) return 1;
  if (!has_plain_keys(dict)) return 0;
  *value = find_value((PyDictObject*)dict, name, cache->names < 0 ? cache->index : -1);
  return 1;
}

// What the cache's plan gives; slow where a guard does not hold.
static inline int follow(DynrunInlineCache* cache, PyObject* owner, PyObject* name, int method, PyObject** result) {
  PyTypeObject* type = Py_TYPE(owner);
  PyObject* value = NULL;
  switch (cache->plan) {
    case kInstance:
      if (type->tp_version_tag != cache->version || !own_attribute(cache, owner, name, &value)) return kDynrunAttributeSlow;
      if (value == NULL) {
        value = cache->found;
        if (value == NULL) return kDynrunAttributeSlow;
        if (Py_TYPE(value)->tp_descr_get != NULL) {
          if (!method) return kDynrunAttributeSlow;
          *result = Py_NewRef(value);
          return kDynrunAttributeMethod;
        }
      }
      break;
    case kSlot:
      if (type->tp_version_tag != cache->version) return kDynrunAttributeSlow;
      value = *(PyObject**)((char*)owner + cache->index);
      break;
    case kProperty:
      if (type->tp_version_tag != cache->version) return kDynrunAttributeSlow;
      value = ((_PyPropertyObject*)cache->found)->prop_get;
      if (value == NULL) return kDynrunAttributeSlow;
      *result = Py_NewRef(value);
      return kDynrunAttributeGetter;
    case kClass:
      if (type->tp_version_tag != cache->version_2 || !PyType_Check(owner) ||
          ((PyTypeObject*)owner)->tp_version_tag != cache->version) {
        return kDynrunAttributeSlow;
      }
      value = cache->found;
      break;
    case kModule: {
      if (type != &PyModule_Type || type->tp_version_tag != cache->version) return kDynrunAttributeSlow;
      PyObject* dict = PyModule_GetDict(owner);
      if (dict == NULL || !has_plain_keys(dict)) return kDynrunAttributeSlow;
      value = find_value((PyDictObject*)dict, name, cache->index);
      break;
    }
    default:
      return kDynrunAttributeSlow;
  }
  if (value == NULL) return kDynrunAttributeSlow;
  *result = Py_NewRef(value);
  return kDynrunAttributeValue;
}

int dynrun_load_attribute(DynrunInlineCache* cache, PyObject* owner, PyObject* name, int method, PyObject** result) {
  int how = follow(cache, owner, name, method, result);
  if (how != kDynrunAttributeSlow || !wants_filling(cache)) return how;
  fill_load(cache, owner, name);
  return follow(cache, owner, name, method, result);
}

// ---- stores ----

static void fill_store(DynrunInlineCache* cache, PyObject* owner, PyObject* name) {
  PyTypeObject* type = Py_TYPE(owner);
  if (type->tp_setattro != PyObject_GenericSetAttr || ((PyASCIIObject*)name)->hash == -1) return;
  PyObject* found = _PyType_Lookup(type, name);
  cache->version = type->tp_version_tag;
  if (cache->version == 0) return;
  if (found != NULL && Py_TYPE(found)->tp_descr_set != NULL) {
    if (is_own_slot(type, found)) {
      cache->index = (int32_t)((PyMemberDescrObject*)found)->d_member->offset;
      cache->plan = kSlot;
    }
    return;
  }
  if (!(type->tp_flags & Py_TPFLAGS_MANAGED_DICT)) return;
  locate_in_instance(cache, owner, name);
  if (cache->index >= 0 || cache->names < 0) cache->plan = kInstance;
}

static inline int store(DynrunInlineCache* cache, PyObject* owner, PyObject* name, PyObject* value) {
  PyTypeObject* type = Py_TYPE(owner);
  if (cache->plan == kNothing || type->tp_version_tag != cache->version) return 0;
  PyObject** place;
  if (cache->plan == kSlot) {
    place = (PyObject**)((char*)owner + cache->index);
  } else {
    PyDictOrValues held = *_PyObject_DictOrValuesPointer(owner);
    if (!_PyDictOrValues_IsValues(held)) {
      PyObject* dict = _PyDictOrValues_GetDict(held);
      if (dict == NULL || !has_plain_keys(dict)) return 0;
      Py_INCREF(dict);  // the old value's destructor may take it away
      int stored = _PyDict_SetItem_KnownHash(dict, name, value, ((PyASCIIObject*)name)->hash);
      Py_DECREF(dict);
      if (stored < 0) PyErr_Clear();  // no memory: the slow way says so again
      return stored == 0;
    }
    if (cache->names < 0) return 0;
    PyDictValues* values = _PyDictOrValues_GetValues(held);
    place = &values->values[cache->index];
    if (*place == NULL) _PyDictValues_AddToInsertionOrder(values, cache->index);
  }
  PyObject* before = *place;
  *place = Py_NewRef(value);
  Py_XDECREF(before);
  return 1;
}

int dynrun_store_attribute(DynrunInlineCache* cache, PyObject* owner, PyObject* name, PyObject* value) {
  if (store(cache, owner, name, value)) return 1;
  if (!wants_filling(cache)) return 0;
  fill_store(cache, owner, name);
  return store(cache, owner, name, value);
}

// ---- globals ----

static int fill_global(DynrunInlineCache* cache, PyObject* globals, PyObject* builtins, PyObject* name) {
  if (!PyDict_CheckExact(globals) || !PyDict_CheckExact(builtins)) return 0;
  PyDictKeysObject* keys = ((PyDictObject*)globals)->ma_keys;
  if (keys->dk_kind != DICT_KEYS_UNICODE || keys->dk_nentries > UINT16_MAX) return 0;
  PyDictUnicodeEntry* entries = DK_UNICODE_ENTRIES(keys);
  PyObject* value = _PyDict_GetItem_KnownHash(globals, name, ((PyASCIIObject*)name)->hash);
  cache->version = keys_version(keys);
  cache->plan = kGlobal;
  if (value == NULL) {
    keys = ((PyDictObject*)builtins)->ma_keys;
    if (keys->dk_kind != DICT_KEYS_UNICODE) return 0;
    entries = DK_UNICODE_ENTRIES(keys);
    value = _PyDict_GetItem_KnownHash(builtins, name, ((PyASCIIObject*)name)->hash);
    cache->version_2 = keys_version(keys);
    cache->plan = kBuiltin;
    if (value == NULL || cache->version_2 == 0) return 0;
  }
  if (cache->version == 0) return 0;
  for (Py_ssize_t i = 0; i < keys->dk_nentries; i++) {
    if (entries[i].me_value == value && same_name(entries[i].me_key, name)) {
      cache->index = (int32_t)i;
      return 1;
    }
  }
  return 0;
}

static inline PyObject* global(DynrunInlineCache* cache, PyObject* globals, PyObject* builtins) {
  if (cache->plan == kNothing || !PyDict_CheckExact(globals)) return NULL;
  PyDictKeysObject* keys = ((PyDictObject*)globals)->ma_keys;
  if (keys->dk_version != cache->version) return NULL;
  if (cache->plan == kBuiltin) {
    if (!PyDict_CheckExact(builtins)) return NULL;
    keys = ((PyDictObject*)builtins)->ma_keys;
    if (keys->dk_version != cache->version_2) return NULL;
  }
  return Py_XNewRef(DK_UNICODE_ENTRIES(keys)[cache->index].me_value);
}

PyObject* dynrun_load_global(DynrunInlineCache* cache, PyObject* globals, PyObject* builtins, PyObject* name) {
  PyObject* value = global(cache, globals, builtins);
  if (value != NULL || ((PyASCIIObject*)name)->hash == -1 || !wants_filling(cache)) return value;
  if (!fill_global(cache, globals, builtins, name)) {
    cache->plan = kNothing;
    return NULL;
  }
  return global(cache, globals, builtins);
}

// ---- super ----

// The class behind `type` in the method resolution order of `start` when what follows is that class's own order.
static PyTypeObject* next_class(PyTypeObject* start, PyTypeObject* type) {
  PyObject* order = start->tp_mro;
  if (order == NULL) return NULL;
  Py_ssize_t count = PyTuple_GET_SIZE(order), at = 0;
  while (at < count && PyTuple_GET_ITEM(order, at) != (PyObject*)type) at++;
  if (++at >= count) return NULL;
  PyTypeObject* next = (PyTypeObject*)PyTuple_GET_ITEM(order, at);
  PyObject* rest = next->tp_mro;
  if (rest == NULL || PyTuple_GET_SIZE(rest) != count - at) return NULL;
  for (Py_ssize_t i = at; i < count; i++) {
    if (PyTuple_GET_ITEM(order, i) != PyTuple_GET_ITEM(rest, i - at)) return NULL;
  }
  return next;
}

int dynrun_load_super_attribute(PyTypeObject* type, PyObject* self, PyObject* name, int method, PyObject** result) {
  PyTypeObject* next = next_class(Py_TYPE(self), type);
  if (next == NULL || PyType_Check(self) || _PyUnicode_EqualToASCIIString(name, "__class__")) return kDynrunAttributeSlow;
  PyObject* found = _PyType_Lookup(next, name);
  if (found == NULL) return kDynrunAttributeSlow;
  if (method && _PyType_HasFeature(Py_TYPE(found), Py_TPFLAGS_METHOD_DESCRIPTOR)) {
    *result = Py_NewRef(found);
    return kDynrunAttributeMethod;
  }
  if (Py_TYPE(found)->tp_descr_get != NULL) return kDynrunAttributeSlow;
  *result = Py_NewRef(found);
  return kDynrunAttributeValue;
}
