#include "engine/backend.h"

#include "engine/fx_bridge.h"
#include "engine/guard_words.h"
#include "engine/open_sizes.h"
#include "guards/torch_python.h"
#include "python/gil.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <utility>

namespace dynrun::engine {

using python::Ref;

namespace {

/// The thread's gradient and autocast modes, as they were, when it goes: code that raises may leave them switched.
class Modes {
 public:
  Modes() = default;
  ~Modes() {
    for (const Autocast& old : autocast_) {
      at::autocast::set_autocast_enabled(old.device, old.on);
      at::autocast::set_autocast_dtype(old.device, old.dtype);
    }
    at::autocast::set_autocast_cache_enabled(cache_);
    for (int nesting = at::autocast::increment_nesting(); nesting > nesting_; nesting = at::autocast::decrement_nesting()) {
    }
  }
  Modes(const Modes&) = delete;
  Modes& operator=(const Modes&) = delete;

 private:
  static int nesting() {
    at::autocast::increment_nesting();
    return at::autocast::decrement_nesting();
  }
  const at::AutoGradMode grad_{at::GradMode::is_enabled()};
  struct Autocast {
    c10::DeviceType device;
    bool on = at::autocast::is_autocast_enabled(device);
    c10::ScalarType dtype = at::autocast::get_autocast_dtype(device);
  };
  const std::array<Autocast, 2> autocast_{Autocast{at::kCPU}, Autocast{at::kCUDA}};
  const bool cache_ = at::autocast::is_autocast_cache_enabled();
  const int nesting_ = nesting();
};

Ref number_of(const at::Tensor& tensor) {
  const at::Scalar value = tensor.item();
  if (value.isBoolean()) return Ref::steal(PyBool_FromLong(value.toBool()));
  if (value.isFloatingPoint()) return Ref::steal(PyFloat_FromDouble(value.toDouble()));
  if (value.isComplex()) return Ref::steal(PyComplex_FromDoubles(value.toComplexDouble().real(), value.toComplexDouble().imag()));
  return Ref::steal(PyLong_FromLongLong(value.toLong()));
}

/// The graph's inputs as Python objects; null with an error set.
Ref arguments_of(const graph::Graph& graph, c10::ArrayRef<at::Tensor> inputs) {
  Ref arguments = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(inputs.size())));
  for (std::size_t i = 0; arguments && i < inputs.size(); i++) {
    const bool number = graph.type_of(graph.inputs[i].value).number;
    Ref object = !inputs[i].defined() ? Ref::borrow(Py_None) : number ? number_of(inputs[i]) : Ref::steal(guards::wrap(inputs[i]));
    if (!object) return Ref();
    PyTuple_SET_ITEM(arguments.get(), static_cast<Py_ssize_t>(i), object.release());
  }
  return arguments;
}

at::Tensor tensor_from(PyObject* object) {
  if (object == Py_None) return {};
  if (guards::is_tensor(object)) return guards::tensor_of(object);
  if (PyBool_Check(object)) return at::scalar_tensor(object == Py_True, c10::kBool);
  if (PyLong_Check(object)) return at::scalar_tensor(static_cast<std::int64_t>(PyLong_AsLongLong(object)), c10::kLong);
  if (PyFloat_Check(object)) return at::scalar_tensor(PyFloat_AS_DOUBLE(object), c10::kDouble);
  PyErr_Format(PyExc_TypeError, "a back end's code gave a %s instead of a tensor", Py_TYPE(object)->tp_name);
  return {};
}

class PythonExecutable final : public runtime::Executable {
 public:
  PythonExecutable(Ref callable, std::shared_ptr<const graph::Graph> graph, bool writes_outside)
      : callable_(std::move(callable)), graph_(std::move(graph)), writes_outside_(writes_outside) {}

  ~PythonExecutable() override {
    if (!Py_IsInitialized()) {
      callable_.release();
      return;
    }
    const python::Gil gil;
    callable_ = Ref();
  }

  std::vector<at::Tensor> run(c10::ArrayRef<at::Tensor> inputs) override {
    const python::Gil gil;
    std::vector<at::Tensor> outputs;
    {
      const Modes modes;
      Ref arguments = arguments_of(*graph_, inputs);
      Ref result = arguments ? Ref::steal(PyObject_CallObject(callable_.get(), arguments.get())) : Ref();
      if (result) read_outputs(result.get(), outputs);
    }
    if (PyErr_Occurred()) fail(inputs);
    return outputs;
  }

  int extern_count() const override { return 1; }

 private:
  void read_outputs(PyObject* result, std::vector<at::Tensor>& outputs) const {
    Ref items = Ref::steal(guards::is_tensor(result) ? PyTuple_Pack(1, result) : PySequence_Tuple(result));
    if (!items) return;
    if (static_cast<std::size_t>(PyTuple_GET_SIZE(items.get())) != graph_->outputs.size()) {
      PyErr_Format(PyExc_RuntimeError, "a back end's code gave %zd results of a graph that has %zu", PyTuple_GET_SIZE(items.get()), graph_->outputs.size());
      return;
    }
    for (std::size_t i = 0; i < graph_->outputs.size() && !PyErr_Occurred(); i++) outputs.push_back(tensor_from(PyTuple_GET_ITEM(items.get(), static_cast<Py_ssize_t>(i))));
  }

  /// Where the operators raise too, the program's code runs again, and raises in its place what it raises. Else the exception is
  /// that of the back end's code, or of a signal: it is raised, as it is where something may have been written.
  [[noreturn]] void fail(c10::ArrayRef<at::Tensor> inputs) const {
    if (!writes_outside_) {
      Ref error = Ref::steal(PyErr_GetRaisedException());
      runtime::make_replayer(graph_)->run(inputs);
      PyErr_SetRaisedException(error.release());
    }
    throw runtime::ForeignError();
  }

  Ref callable_;
  std::shared_ptr<const graph::Graph> graph_;
  bool writes_outside_;
};

Ref facts_of(const trace::Segment& segment) {
  Ref guards = Ref::steal(PyList_New(0));
  for (const std::string& words : guards ? guard_words(segment.guards) : std::vector<std::string>()) {
    Ref line = Ref::steal(PyUnicode_DecodeUTF8(words.data(), static_cast<Py_ssize_t>(words.size()), "replace"));
    if (!line || PyList_Append(guards.get(), line.get()) < 0) return Ref();
  }
  const std::size_t effects = segment.effects.size() + segment.host_calls.size() + (segment.writes_outside ? 1 : 0);
  return guards ? Ref::steal(Py_BuildValue("{sOsn}", "guards", guards.get(), "effects", static_cast<Py_ssize_t>(effects))) : Ref();
}

}  // namespace

std::shared_ptr<runtime::Executable> lower_with(PyObject* lower, const trace::Segment& segment, const std::vector<at::Tensor>& inputs) {
  const std::shared_ptr<const graph::Graph> graph = segment.graph;
  Ref description = describe(*graph);
  if (!description) {
    if (!PyErr_ExceptionMatches(PyExc_NotImplementedError)) return nullptr;
    PyErr_Clear();
    return runtime::make_replayer(graph);
  }
  const Ref facts = facts_of(segment);
  const trace::TorchState& state = segment.state;
  const Ref entry = mode_of({.grad_enabled = state.grad, .inference = state.inference});
  const Ref sizes = open_sizes(segment);
  const Ref code = Ref::borrow(reinterpret_cast<PyObject*>(segment.entry.frames.front().first->object));
  for (const auto& [key, part] : {std::pair("facts", &facts), {"entry", &entry}, {"open", &sizes}, {"code", &code}}) {
    if (!*part || PyDict_SetItemString(description.get(), key, part->get()) < 0) return nullptr;
  }
  Ref arguments = arguments_of(*graph, inputs);
  Ref made = arguments ? Ref::steal(PyObject_CallFunctionObjArgs(lower, description.get(), arguments.get(), nullptr)) : Ref();
  if (!made) return nullptr;
  if (made.get() == Py_None) return runtime::make_replayer(graph);
  return std::make_shared<PythonExecutable>(std::move(made), graph, segment.writes_outside);
}

}  // namespace dynrun::engine
