// Class statements: a class whose making nobody can see is fresh, and made again only where it is still wanted at an exit.

#include "python/text.h"
#include "trace/recorder.h"

#include <algorithm>
#include <string_view>

namespace dynrun::trace {

using bytecode::Instruction;
using bytecode::Opcode;
using guards::kNoSource;
using guards::SourceId;
using guards::SourceKind;
using python::Ref;

namespace {

PyObject* build_class_function() {
  static PyObject* const function = import_path("builtins:__build_class__").release();
  return function;
}

/// The names that a plain class body calls, all of them built-in descriptors.
bool is_descriptor_maker(std::string_view name) { return name == "staticmethod" || name == "classmethod" || name == "property"; }

/// Whether a class body only binds names: constants and functions, the latter perhaps as static or class methods or
/// properties. Gives the built-in names that it calls.
bool is_plain_body(PyCodeObject* code, std::vector<PyObject*>& called) {
  static constexpr Opcode kAllowed[] = {Opcode::kResume, Opcode::kNop, Opcode::kLoadConst, Opcode::kStoreName, Opcode::kMakeFunction, Opcode::kBuildTuple,
                                        Opcode::kLoadClosure, Opcode::kCopyFreeVars, Opcode::kMakeCell, Opcode::kPushNull, Opcode::kCopy, Opcode::kPopTop,
                                        Opcode::kReturnConst, Opcode::kReturnValue, Opcode::kBuildConstKeyMap};
  int calls = 0;
  for (const Instruction& in : bytecode::decode(code)->instructions) {
    if (in.opcode == Opcode::kLoadName) {
      PyObject* name = PyTuple_GET_ITEM(code->co_names, in.argument);
      std::string_view text = python::text_of(name);
      if (text == "__name__") continue;
      if (!is_descriptor_maker(text)) return false;
      called.push_back(name);
    } else if (in.opcode == Opcode::kCall) {
      if (in.argument != 0 && in.argument != 1) return false;
      ++calls;
    } else if (std::find(std::begin(kAllowed), std::end(kAllowed), in.opcode) == std::end(kAllowed)) {
      return false;
    }
  }
  // A lambda or generator expression could be called on the spot.
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_consts); i++) {
    PyObject* constant = PyTuple_GET_ITEM(code->co_consts, i);
    if (PyCode_Check(constant) && PyUnicode_ReadChar(reinterpret_cast<PyCodeObject*>(constant)->co_name, 0) == '<') return false;
  }
  return calls == static_cast<int>(called.size());
}

/// Metaclasses whose work cannot be told from outside the class: type, and that of torch.autograd.Function.
bool is_quiet_metaclass(PyTypeObject* metaclass) {
  if (metaclass == &PyType_Type) return true;
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "torch.autograd.function");
  PyObject* known = module ? PyDict_GetItemString(PyModule_GetDict(module), "FunctionMeta") : nullptr;
  return known == reinterpret_cast<PyObject*>(metaclass);
}

/// Whether two dicts hold the same objects under the same names.
bool same_items(PyObject* one, PyObject* other) {
  if (PyDict_GET_SIZE(one) != PyDict_GET_SIZE(other)) return false;
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (PyDict_Next(one, &at, &key, &value)) {
    if (PyDict_GetItemWithError(other, key) != value) return false;
  }
  return true;
}

}  // namespace

/// A built-in name that the globals do not hide, and which is what Python made it.
bool Recorder::learn_builtin(vm::Activation& activation, PyObject* name, PyObject* genuine) {
  PyObject *globals = activation.frame->globals, *builtins = activation.frame->builtins;
  if (!PyDict_CheckExact(globals) || !PyDict_CheckExact(builtins)) return false;
  SourceId source = globals_source(activation);
  if (source == kNoSource || was_written(globals, name) || PyDict_GetItemWithError(globals, name) != nullptr) return false;
  PyObject* value = PyDict_GetItemWithError(builtins, name);
  SourceId function = function_of_globals_.at(globals);
  if (value == nullptr || value != genuine || function == kNoSource) return false;
  guards_.check_absent(source, name);
  SourceId table = guards_.read(SourceKind::kFunctionBuiltins, function, 0, nullptr);
  return learn_external(value, guards_.read(SourceKind::kDictItem, table, 0, name));
}

Flow Recorder::load_build_class(vm::Activation& activation, const Instruction&) {
  static PyObject* name = PyUnicode_InternFromString("__build_class__");
  return learn_builtin(activation, name, build_class_function()) ? Flow::kRun : cut(BreakId::k_opaque_operation, "a class statement");
}

bool Recorder::is_class_statement(PyObject* callable) const { return callable == build_class_function(); }

/// __build_class__(body, name, *bases): makes the class now, out of sight.
Flow Recorder::build_class(vm::Activation& activation, CallSite& site) {
  auto refused = [&] { return cut(BreakId::k_opaque_call, "__build_class__"); };
  if (site.arguments.size() < 2 || site.keyword_names || !PyFunction_Check(site.arguments[0]) || !PyUnicode_CheckExact(site.arguments[1])) return refused();
  PyObject* body = site.arguments[0];
  std::vector<PyObject*> called;
  bool plain = is_fresh(body) && PyFunction_GET_GLOBALS(body) == activation.frame->globals &&
               is_plain_body(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(body)), called);
  if (!plain) return refused();
  PyTypeObject* const makers[] = {&PyStaticMethod_Type, &PyClassMethod_Type, &PyProperty_Type};
  for (PyObject* name : called) {
    bool known = std::any_of(std::begin(makers), std::end(makers), [&](PyTypeObject* maker) {
      return std::string_view(maker->tp_name) == python::text_of(name) && learn_builtin(activation, name, reinterpret_cast<PyObject*>(maker));
    });
    if (!known) return refused();
  }
  static PyObject* init_subclass = PyUnicode_InternFromString("__init_subclass__");
  for (std::size_t i = 2; i < site.arguments.size(); i++) {
    if (!PyType_Check(site.arguments[i]) || !resolve(site.arguments[i])) return refused();
    auto* base = reinterpret_cast<PyTypeObject*>(site.arguments[i]);
    PyObject* hook = _PyType_Lookup(base, init_subclass);
    if (!is_quiet_metaclass(Py_TYPE(base)) || hook != _PyType_Lookup(&PyBaseObject_Type, init_subclass)) return refused();
    guards_.note_type_lookup(base, init_subclass, hook);
  }
  Ref arguments = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(site.arguments.size())));
  for (std::size_t i = 0; i < site.arguments.size(); i++) PyTuple_SET_ITEM(arguments.get(), static_cast<Py_ssize_t>(i), Py_NewRef(site.arguments[i]));
  Ref made;
  {
    UnrecordedScope unrecorded;
    made = Ref::steal(PyObject_Call(site.callee, arguments.get(), nullptr));
  }
  if (!made) return Flow::kRaise;
  learn_fresh(made.get());
  Ref contents = Ref::steal(PyType_GetDict(reinterpret_cast<PyTypeObject*>(made.get())));
  PyObject* result = made.get();
  classes_.emplace(result, MadeClass{std::move(made), std::move(arguments), Ref::steal(PyDict_Copy(contents.get()))});
  for (int i = 0; i < site.slots; i++) Py_XDECREF(activation.pop());
  activation.push(Py_NewRef(result));
  activation.pc++;
  return Flow::kResume;
}

/// A class that is wanted at the exit is made there, by the same statement.
RecipeId Recorder::recipe_class(PyObject* object) {
  auto found = classes_.find(object);
  if (found == classes_.end()) return kNullRecipe;
  Ref contents = Ref::steal(PyType_GetDict(reinterpret_cast<PyTypeObject*>(object)));
  if (!same_items(contents.get(), found->second.contents.get())) return kNullRecipe;  // written since
  RecipeNode node{RecipeKind::kClass, 0, Ref::borrow(build_class_function()), {}, {}};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(found->second.arguments.get()); i++) {
    RecipeId child = recipe(PyTuple_GET_ITEM(found->second.arguments.get(), i));
    if (child == kNullRecipe) return kNullRecipe;
    node.children.push_back(child);
  }
  return segment_->recipes.add(std::move(node));
}

}  // namespace dynrun::trace
