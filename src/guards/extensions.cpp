#include "guards/extensions.h"

#include "guards/storage_watch.h"
#include "guards/tensor_converter.h"
#include "guards/torch_python.h"
#include "python/import.h"
#include "python/reference.h"

#include <ATen/dlpack.h>

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <utility>

namespace dynrun::guards {

namespace {

using Loader = bool (*)(void*, PyObject*, bool);

/// libtorch_python: its converter, and where its code lies.
struct TorchPython {
  Loader load = nullptr;
  ElfW(Addr) base = 0, end = 0;

  bool holds(const void* code) const {
    const auto address = reinterpret_cast<ElfW(Addr)>(code);
    return base <= address && address < end;
  }
};

int note_end(dl_phdr_info* info, std::size_t, void* data) {
  auto* torch = static_cast<TorchPython*>(data);
  if (info->dlpi_addr != torch->base) return 0;
  for (int i = 0; i < info->dlpi_phnum; i++) torch->end = std::max<ElfW(Addr)>(torch->end, info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz);
  return 1;
}

TorchPython find_torch_python() {
  TorchPython torch;
  void* library = dlopen("libtorch_python.so", RTLD_LAZY | RTLD_NOLOAD);
  link_map* map = nullptr;
  if (library == nullptr || dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) return torch;
  torch.load = reinterpret_cast<Loader>(dlsym(library, DYNRUN_TENSOR_CONVERTER));
  torch.base = map->l_addr;
  dl_iterate_phdr(note_end, &torch);
  return torch;
}

void give_to_extension(PyObject* object) {
  if (is_tensor(object)) give_away(tensor_of(object));
}

DLPackManagedTensorFromPyObjectNoSync original_managed = nullptr;
int managed_of(void* object, DLManagedTensorVersioned** out) {
  give_to_extension(static_cast<PyObject*>(object));
  return original_managed(object, out);
}

DLPackDLTensorFromPyObjectNoSync original_described = nullptr;
int described(void* object, DLTensor* out) {
  give_to_extension(static_cast<PyObject*>(object));
  return original_described(object, out);
}

}  // namespace

bool load_tensor(void* caster, PyObject* object, bool convert, const void* caller) {
  static const TorchPython torch = find_torch_python();
  if (torch.load == nullptr) return false;
  const bool loaded = torch.load(caster, object, convert);
  if (loaded && !torch.holds(caller)) give_to_extension(object);
  return loaded;
}

void watch_dlpack_table() {
  const python::Ref torch_c = python::import_module("torch._C");
  const python::Ref function = torch_c ? python::Ref::steal(PyObject_GetAttrString(torch_c.get(), "_dlpack_exchange_api")) : python::Ref();
  const python::Ref capsule = function ? python::Ref::steal(PyObject_CallNoArgs(function.get())) : python::Ref();
  auto* table = capsule ? static_cast<DLPackExchangeAPI*>(PyCapsule_GetPointer(capsule.get(), PyCapsule_GetName(capsule.get()))) : nullptr;
  PyErr_Clear();
  if (table == nullptr || table->header.version.major != DLPACK_MAJOR_VERSION) return;
  if (table->managed_tensor_from_py_object_no_sync != nullptr) original_managed = std::exchange(table->managed_tensor_from_py_object_no_sync, &managed_of);
  if (table->dltensor_from_py_object_no_sync != nullptr) original_described = std::exchange(table->dltensor_from_py_object_no_sync, &described);
}

}  // namespace dynrun::guards
