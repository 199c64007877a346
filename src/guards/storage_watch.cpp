#include "guards/storage_watch.h"

#include "guards/address_users.h"
#include "guards/unversioned_operators.h"
#include "guards/torch_python.h"
#include "python/import.h"
#include "python/reference.h"

#include <c10/core/CPUAllocator.h>
#include <torch/csrc/Storage.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

namespace dynrun::guards {

namespace {

std::mutex mutex;
std::atomic<std::uint64_t> alias_total = 0;
std::unordered_map<const void*, std::uint64_t>& epochs() {
  static auto* map = new std::unordered_map<const void*, std::uint64_t>();
  return *map;
}

/// Storages whose address has left torch: what holds it does not show in the storage's use count.
class GivenAway {
 public:
  void add(c10::StorageImpl* storage) {
    if (storages_.size() >= most_) drop_dead();
    storages_.try_emplace(storage, c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage));
  }
  bool has(const c10::StorageImpl* storage) const {
    auto found = storages_.find(storage);
    return found != storages_.end() && !found->second.expired();
  }

 private:
  void drop_dead() {
    std::erase_if(storages_, [](const auto& entry) { return entry.second.expired(); });
    most_ = std::max<std::size_t>(most_, 2 * storages_.size());
  }

  std::unordered_map<const c10::StorageImpl*, c10::weak_intrusive_ptr<c10::StorageImpl>> storages_;
  std::size_t most_ = 256;
};

GivenAway& given_away() {
  static auto* storages = new GivenAway;
  return *storages;
}

enum class Alias : std::uint8_t { kCounted, kAddress };  // it owns the storage; it knows where the storage lies

/// The storage of a tensor, or the one that the Python object of a storage is for; null where there is none.
c10::StorageImpl* storage_of(PyObject* self) {
  if (PyObject_TypeCheck(self, &THPStorageType)) return THPStorage_Unpack(self).unsafeGetStorageImpl();
  if (!is_tensor(self)) return nullptr;
  const at::Tensor& tensor = tensor_of(self);
  return tensor.defined() && tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

/// Under the lock.
void count_alias(const c10::StorageImpl* storage) {
  auto found = epochs().find(storage);
  if (found == epochs().end()) return;
  found->second++;
  alias_total++;
}

void note(PyObject* self, Alias alias) {
  c10::StorageImpl* storage = storage_of(self);
  if (storage == nullptr || (alias == Alias::kAddress && only_compares_addresses())) return;
  std::lock_guard<std::mutex> lock(mutex);
  if (alias == Alias::kAddress) given_away().add(storage);
  count_alias(storage);
}

getter original_data = nullptr;
PyObject* data_of(PyObject* self, void* closure) {
  note(self, Alias::kCounted);
  return original_data(self, closure);
}

setter original_set_data = nullptr;
int set_data(PyObject* self, PyObject* data, void* closure) {
  if (data != nullptr) note(data, Alias::kCounted);  // `self` becomes one
  return original_set_data(self, data, closure);
}

objobjargproc original_set_item = nullptr;
int set_item(PyObject* storage, PyObject* key, PyObject* value) {
  note(storage, Alias::kCounted);
  return original_set_item(storage, key, value);
}

// One catcher a method: torch's table holds plain function pointers, so each needs its own.
template <int kIndex, Alias kAlias>
struct Method {
  static inline PyCFunction original = nullptr;
  static PyObject* positional(PyObject* self, PyObject* arguments) {
    note(self, kAlias);
    return original(self, arguments);
  }
  static PyObject* with_keywords(PyObject* self, PyObject* arguments, PyObject* keywords) {
    note(self, kAlias);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); i++) note(PyTuple_GET_ITEM(arguments, i), kAlias);  // set_()
    return reinterpret_cast<PyCFunctionWithKeywords>(reinterpret_cast<void (*)()>(original))(self, arguments, keywords);
  }
  static void install(PyTypeObject* type, const char* name) {
    python::Ref key = python::Ref::steal(PyUnicode_InternFromString(name));
    PyObject* descriptor = _PyType_Lookup(type, key.get());
    if (descriptor == nullptr || Py_TYPE(descriptor) != &PyMethodDescr_Type) return;
    PyMethodDef* method = reinterpret_cast<PyMethodDescrObject*>(descriptor)->d_method;
    if (method->ml_flags & METH_FASTCALL) return;
    original = method->ml_meth;
    method->ml_meth = method->ml_flags & METH_KEYWORDS
                          ? reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&with_keywords))
                          : &positional;
  }
};

/// Of a tensor, or of each in a sequence.
void note_all(PyObject* argument, Alias alias) {
  if (!PyTuple_Check(argument) && !PyList_Check(argument)) return note(argument, alias);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(argument); i++) note(PySequence_Fast_GET_ITEM(argument, i), alias);
}

/// The definition of a function of torch._C, which its object shares; null where it takes its arguments in no way of these.
PyMethodDef* definition_of(PyObject* module, const char* name, int flags) {
  python::Ref function = python::Ref::steal(PyObject_GetAttrString(module, name));
  PyErr_Clear();
  if (!function || !PyCFunction_CheckExact(function.get())) return nullptr;
  PyMethodDef* method = reinterpret_cast<PyCFunctionObject*>(function.get())->m_ml;
  return (method->ml_flags & ~METH_STATIC) == flags ? method : nullptr;
}

/// The same for a function of torch._C that is given tensors.
template <int kIndex, Alias kAlias>
struct Function {
  static inline PyCFunctionWithKeywords original = nullptr;
  static PyObject* call(PyObject* self, PyObject* arguments, PyObject* keywords) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); i++) note_all(PyTuple_GET_ITEM(arguments, i), kAlias);
    PyObject *name, *value;
    for (Py_ssize_t at = 0; keywords && PyDict_Next(keywords, &at, &name, &value);) note_all(value, kAlias);
    return original(self, arguments, keywords);
  }
  static void install(PyObject* module, const char* name) {
    PyMethodDef* method = definition_of(module, name, METH_VARARGS | METH_KEYWORDS);
    if (method == nullptr) return;
    original = reinterpret_cast<PyCFunctionWithKeywords>(reinterpret_cast<void (*)()>(method->ml_meth));
    method->ml_meth = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&call));
  }
};

/// A mode's handler writes without moving version counters. Those of torch's own, which have a key, write nothing that a program has.
PyCFunction original_pop_mode = nullptr;
PyObject* pop_mode(PyObject* self, PyObject* key) {
  PyObject* mode = original_pop_mode(self, key);
  if (mode == nullptr) return mode;
  const python::Ref of_torch = python::Ref::steal(PyObject_GetAttrString(mode, "_mode_key"));
  PyErr_Clear();
  if (!of_torch || of_torch.get() == Py_None) note_all_written();
  return mode;
}

/// What gives away where a storage lies, or a way back to it that holds nothing; and what writes it, however the program came by it.
void watch_storage_methods(PyTypeObject* type) {
  Method<13, Alias::kCounted>::install(type, "fill_");
  Method<14, Alias::kCounted>::install(type, "copy_");
  Method<15, Alias::kCounted>::install(type, "_set_from_file");
  if (THPStorageClass != nullptr && THPStorageClass->tp_as_mapping != nullptr) {
    original_set_item = THPStorageClass->tp_as_mapping->mp_ass_subscript;
    if (original_set_item != nullptr) THPStorageClass->tp_as_mapping->mp_ass_subscript = &set_item;
  }
  Method<4, Alias::kAddress>::install(type, "data_ptr");
  Method<5, Alias::kAddress>::install(type, "_weak_ref");
  Method<6, Alias::kAddress>::install(type, "_share_cuda_");
  Method<7, Alias::kAddress>::install(type, "_share_fd_cpu_");
  Method<8, Alias::kAddress>::install(type, "_share_filename_cpu_");
}

/// Whether a program holds the object, or can come by it again.
bool is_held(PyObject* object) {
  const Py_ssize_t at = Py_TYPE(object)->tp_weaklistoffset;
  return Py_REFCNT(object) > 1 || (at != 0 && *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + at) != nullptr);
}

}  // namespace

void watch_storage_aliases() {
  static bool done = false;
  if (done) return;
  done = true;
  python::Ref module = python::import_module("torch._C");
  python::Ref base = module ? python::Ref::steal(PyObject_GetAttrString(module.get(), "TensorBase")) : python::Ref();
  if (!base) {
    PyErr_Clear();
    return;
  }
  auto* type = reinterpret_cast<PyTypeObject*>(base.get());
  python::Ref key = python::Ref::steal(PyUnicode_InternFromString("data"));
  PyObject* descriptor = _PyType_Lookup(type, key.get());
  if (descriptor && Py_TYPE(descriptor) == &PyGetSetDescr_Type) {
    PyGetSetDef* data = reinterpret_cast<PyGetSetDescrObject*>(descriptor)->d_getset;
    original_data = data->get;
    original_set_data = data->set;
    data->get = &data_of;
    data->set = &set_data;
  }
  Method<0, Alias::kCounted>::install(type, "numpy");
  Method<1, Alias::kCounted>::install(type, "untyped_storage");
  Method<2, Alias::kAddress>::install(type, "data_ptr");
  Method<3, Alias::kCounted>::install(type, "detach");
  Method<9, Alias::kCounted>::install(type, "set_");
  Method<10, Alias::kCounted>::install(type, "apply_");
  Method<11, Alias::kCounted>::install(type, "map_");
  Method<12, Alias::kCounted>::install(type, "map2_");
  python::Ref storages = python::Ref::steal(PyObject_GetAttrString(module.get(), "StorageBase"));
  if (storages) watch_storage_methods(reinterpret_cast<PyTypeObject*>(storages.get()));
  PyErr_Clear();
  Function<0, Alias::kAddress>::install(module.get(), "_to_dlpack");
  Function<1, Alias::kAddress>::install(module.get(), "_to_dlpack_versioned");
  Function<2, Alias::kAddress>::install(module.get(), "_data_address");
  const python::Ref autograd = python::Ref::steal(PyObject_GetAttrString(module.get(), "_autograd"));
  if (autograd) Function<3, Alias::kCounted>::install(autograd.get(), "_unsafe_set_version_counter");
  if (PyMethodDef* pop = definition_of(module.get(), "_pop_torch_dispatch_stack", METH_O)) original_pop_mode = std::exchange(pop->ml_meth, &pop_mode);
  PyErr_Clear();
}

void watch_storage(const at::Tensor& tensor) {
  watch_new_operators();
  std::lock_guard<std::mutex> lock(mutex);
  epochs().try_emplace(tensor.storage().unsafeGetStorageImpl(), 0);
}

void note_written(const at::Tensor& tensor) {
  if (!tensor.has_storage()) return;
  std::lock_guard<std::mutex> lock(mutex);
  count_alias(tensor.storage().unsafeGetStorageImpl());
}

void note_all_written() {
  std::lock_guard<std::mutex> lock(mutex);
  for (auto& [storage, epoch] : epochs()) epoch++;
  alias_total++;
}

void give_away(const at::Tensor& tensor) {
  if (!tensor.has_storage()) return;
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  std::lock_guard<std::mutex> lock(mutex);
  given_away().add(storage);
  count_alias(storage);
}

std::uint64_t alias_epoch(const at::Tensor& tensor) {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = epochs().find(tensor.storage().unsafeGetStorageImpl());
  return found == epochs().end() ? 0 : found->second;
}

std::uint64_t alias_count() { return alias_total; }

/// Whether libtorch's allocator for the device made it.
static bool is_own_memory(const c10::Storage& storage) {
  if (storage.device_type() == c10::DeviceType::CPU) {
    // Files that torch.load reads are in its memory too, in storages that cannot be resized, without an allocator.
    const bool named = storage.allocator() == nullptr || storage.allocator() == c10::GetDefaultCPUAllocator() || storage.allocator() == c10::GetCPUAllocator();
    return named && storage.data_ptr().get_deleter() == c10::GetDefaultCPUAllocator()->raw_deleter();
  }
  if (storage.device_type() != c10::DeviceType::CUDA) return false;
  const c10::Allocator* own = c10::GetAllocator(c10::DeviceType::CUDA);
  return storage.allocator() == own && storage.data_ptr().get_deleter() == own->raw_deleter();
}

bool has_one_owner(const c10::Storage& storage) {
  const std::size_t owners = storage.use_count();
  if (owners == 1) return true;
  PyObject* object = owners == 2 ? storage.unsafeGetStorageImpl()->pyobj_slot()->load_pyobj() : nullptr;
  return object != nullptr && !is_held(object);
}

bool is_foldable(const at::Tensor& tensor) {
  if (!tensor.has_storage() || tensor.is_inference()) return false;
  const c10::Storage& storage = tensor.storage();
  // Memory from elsewhere (numpy, a mapped file, shared memory, another process) may be written by its real owner.
  if (!is_own_memory(storage) || !has_one_owner(storage)) return false;
  std::lock_guard<std::mutex> lock(mutex);
  return !given_away().has(storage.unsafeGetStorageImpl());
}

}  // namespace dynrun::guards
