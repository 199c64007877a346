// Where operators come from: the lines of the program, their callers, the modules whose calls they are.

#include "python/compat.h"
#include "python/text.h"
#include "trace/recorder.h"

#include <fmt/format.h>

namespace dynrun::trace {

using bytecode::Instruction;
using guards::kNoSource;
using guards::SourceId;
using python::Ref;

/// The module whose call runs in this frame of torch.nn.Module's; borrowed, null in other frames.
static PyObject* module_called(vm::Activation& activation) {
  static const python::Kept module_class = import_path("torch.nn.modules.module:Module");  // no package, of which Python code would run
  const PyCodeObject* code = activation.code->object;
  if (code->co_argcount == 0 || PyUnicode_CompareWithASCIIString(code->co_qualname, "Module._call_impl") != 0 || !module_class.get()) return nullptr;
  PyObject* self = activation.locals()[0];
  if (self && PyCell_Check(self)) self = PyCell_GET(self);
  return self && PyType_IsSubtype(Py_TYPE(self), reinterpret_cast<PyTypeObject*>(module_class.get())) ? self : nullptr;
}

/// "torch.nn.modules.linear.Linear@7f12", with its address: two classes may have one name.
static std::string class_name_of(PyTypeObject* type) {
  const Ref name = Ref::steal(PyType_GetQualName(type));
  PyObject* module = PyDict_GetItemString(type->tp_dict, "__module__");
  return fmt::format("{}.{}@{:x}", module && PyUnicode_Check(module) ? python::text_of(module) : "?", name ? python::text_of(name.get()) : "?", reinterpret_cast<std::uintptr_t>(type));
}

std::int32_t Recorder::source_line(vm::Activation& activation, const Instruction& in) {
  return source_at(activation, python::shown_line(activation.code->object, in.offset));
}

std::int32_t Recorder::source_at(vm::Activation& activation, int line) {
  PyCodeObject* code = activation.code->object;
  graph::Source source{{python::file_of(code->co_filename), python::text_of(code->co_qualname), line}, -1, {}, {}};
  SourceId module = kNoSource;
  if (limits_.keeps_callers) {
    if (activation.caller) source.caller = source_at(*activation.caller, python::line_of(activation.caller->frame));
    PyObject* called = module_called(activation);
    module = called ? source_of(called) : kNoSource;
    if (module != kNoSource) {
      source.module = guards_.describe(module);
      source.class_name = class_name_of(Py_TYPE(called));
    }
  }
  std::vector<graph::Source>& sources = operators_.graph()->sources;
  auto [at, fresh] = line_index_.try_emplace(fmt::format("{}:{}:{}:{}:{}", source.file, line, source.caller, module, source.function), static_cast<std::int32_t>(sources.size()));
  if (fresh) sources.push_back(std::move(source));
  return at->second;
}

}  // namespace dynrun::trace
