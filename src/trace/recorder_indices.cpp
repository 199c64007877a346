// Lists of numbers as indices of tensors: torch makes tensors of them behind the dispatcher.

#include "guards/torch_python.h"
#include "trace/recorder.h"

#include <ATen/ATen.h>

namespace dynrun::trace {

using python::Ref;

namespace {

constexpr Py_ssize_t kMostNumbers = 65536;

/// The tensor that torch makes of a list of whole numbers, or of truths, in an index. Undefined for another list.
at::Tensor index_of_list(PyObject* list, at::Device device) {
  const Py_ssize_t count = PyList_GET_SIZE(list);
  if (count == 0 || count > kMostNumbers) return {};
  const bool truths = PyBool_Check(PyList_GET_ITEM(list, 0));
  std::vector<std::int64_t> numbers;
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject* item = PyList_GET_ITEM(list, i);
    int overflow = 0;
    const bool fits = truths ? PyBool_Check(item) : PyLong_CheckExact(item);
    numbers.push_back(fits ? PyLong_AsLongLongAndOverflow(item, &overflow) : 0);
    if (!fits || overflow != 0) return {};
  }
  const c10::InferenceMode normal(false);
  const UnrecordedScope unrecorded;
  return at::tensor(numbers, at::kLong).to(device, truths ? at::kBool : at::kLong);
}

}  // namespace

/// An index in its slot, or the items of one that is a tuple: what `made_of` gives stands for them.
void Recorder::replace_index(PyObject** slot, const std::function<Ref(PyObject* item)>& made_of) {
  PyObject* key = *slot;
  Ref made;
  if (PyTuple_CheckExact(key)) {
    Ref items = Ref::steal(PyTuple_New(PyTuple_GET_SIZE(key)));
    bool any = false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); i++) {
      Ref item = made_of(PyTuple_GET_ITEM(key, i));
      any = any || item;
      PyTuple_SET_ITEM(items.get(), i, item ? item.release() : Py_NewRef(PyTuple_GET_ITEM(key, i)));
    }
    if (any) learn_fresh(items.get()), made = std::move(items);
  } else {
    made = made_of(key);
  }
  if (made) const Ref old = Ref::steal(std::exchange(*slot, made.release()));
}

/// A list of numbers that stay what they are becomes the tensor that torch makes of it, a constant of the graph that the program never
/// gets at.
void Recorder::make_index_of_lists(PyObject* tensor, PyObject** slot) {
  const at::Device device = guards::tensor_of(tensor).device();
  if (!(device.is_cpu() || device.is_cuda()) || vm::current_machine() != &machine_) return;
  replace_index(slot, [&](PyObject* item) {
    if (!PyList_CheckExact(item) || !resolve(item) || !resolve_deep(item)) return Ref();
    const at::Tensor index = index_of_list(item, device);
    if (!index.defined()) return Ref();
    operators_.add_literal(index);
    return Ref::steal(guards::wrap(index));
  });
}

/// Bounds of slices that are tensors become the numbers that torch asks them for.
void Recorder::make_numbers_of_bounds(PyObject** slot) {
  replace_index(slot, [&](PyObject* item) {
    if (!PySlice_Check(item)) return Ref();
    auto* slice = reinterpret_cast<PySliceObject*>(item);
    Ref start = number_of_bound(slice->start), stop = number_of_bound(slice->stop);
    if (!start && !stop) return Ref();
    Ref made = Ref::steal(PySlice_New(start ? start.get() : slice->start, stop ? stop.get() : slice->stop, slice->step));
    learn_fresh(made.get());
    return made;
  });
}

}  // namespace dynrun::trace
