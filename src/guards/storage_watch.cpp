#include "guards/storage_watch.h"

#include "guards/torch_python.h"
#include "python/import.h"
#include "python/reference.h"

#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <mutex>
#include <string>
#include <unordered_map>

namespace dynrun::guards {

namespace {

std::mutex mutex;
std::atomic<std::uint64_t> alias_total = 0;
std::unordered_map<const void*, std::uint64_t>& epochs() {
  static auto* map = new std::unordered_map<const void*, std::uint64_t>();
  return *map;
}

void note(PyObject* self) {
  if (!is_tensor(self)) return;
  const at::Tensor& tensor = tensor_of(self);
  if (!tensor.defined() || !tensor.has_storage()) return;
  std::lock_guard<std::mutex> lock(mutex);
  auto found = epochs().find(tensor.storage().unsafeGetStorageImpl());
  if (found == epochs().end()) return;
  found->second++;
  alias_total++;
}

getter original_data = nullptr;
PyObject* data_of(PyObject* self, void* closure) {
  note(self);
  return original_data(self, closure);
}

// One catcher a method: torch's table holds plain function pointers, so each needs its own.
template <int kIndex>
struct Method {
  static inline PyCFunction original = nullptr;
  static PyObject* positional(PyObject* self, PyObject* arguments) {
    note(self);
    return original(self, arguments);
  }
  static PyObject* with_keywords(PyObject* self, PyObject* arguments, PyObject* keywords) {
    note(self);
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
    data->get = &data_of;
  }
  Method<0>::install(type, "numpy");
  Method<1>::install(type, "untyped_storage");
  Method<2>::install(type, "data_ptr");
  Method<3>::install(type, "detach");
}

void watch_storage(const at::Tensor& tensor) {
  std::lock_guard<std::mutex> lock(mutex);
  epochs().try_emplace(tensor.storage().unsafeGetStorageImpl(), 0);
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
    if (storage.allocator() != c10::GetDefaultCPUAllocator() && storage.allocator() != c10::GetCPUAllocator()) return false;
    return storage.data_ptr().get_deleter() == c10::GetDefaultCPUAllocator()->raw_deleter();
  }
  if (storage.device_type() != c10::DeviceType::CUDA) return false;
  const c10::Allocator* own = c10::GetAllocator(c10::DeviceType::CUDA);
  return storage.allocator() == own && storage.data_ptr().get_deleter() == own->raw_deleter();
}

bool is_foldable(const at::Tensor& tensor) {
  if (!tensor.has_storage() || tensor.is_inference()) return false;
  const c10::Storage& storage = tensor.storage();
  // Memory from elsewhere (numpy, a mapped file, shared memory, another process) may be written by its real owner.
  if (!is_own_memory(storage)) return false;
  return storage.use_count() == 1;
}

}  // namespace dynrun::guards
