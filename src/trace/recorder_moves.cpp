// Loads, stores and jumps.

#include "python/compat.h"
#include "python/text.h"
#include "trace/recorder.h"

namespace dynrun::trace {

using bytecode::Instruction;
using guards::kNoSource;
using guards::SourceId;
using guards::SourceKind;
using python::Ref;

namespace {

PyObject* name_of(vm::Activation& activation, std::int32_t index) { return PyTuple_GET_ITEM(activation.code->object->co_names, index); }

}  // namespace

Flow Recorder::plain(vm::Activation&, const Instruction&) { return Flow::kRun; }

Flow Recorder::load_const(vm::Activation& activation, const Instruction& in) {
  // Tuples of constants, code objects: the code object, which is guarded, holds them.
  PyObject* constant = PyTuple_GET_ITEM(activation.code->object->co_consts, in.argument);
  learn_code_constant(constant);
  return Flow::kRun;
}

/// With what it holds: C code may hand on the parts by themselves.
void Recorder::learn_code_constant(PyObject* constant) {
  if (guards::is_constant_like(constant) || find(constant)) return;
  guards::SourceId source = guards_.constant(constant);
  objects_.insert_or_assign(constant, Object{Known::kExternal, source, Py_TYPE(constant), Ref::borrow(constant), Contents::kLearnt});
  for (Py_ssize_t i = 0; PyTuple_CheckExact(constant) && i < PyTuple_GET_SIZE(constant); i++) learn_code_constant(PyTuple_GET_ITEM(constant, i));
}

Flow Recorder::load_fast(vm::Activation& activation, const Instruction& in) {
  if (!read_local(activation, in.argument)) return cut(BreakId::k_unknown_object, "a local variable");
  if (activation.locals()[in.argument] == nullptr) return cut(BreakId::k_raise, "an unbound local variable");
  return Flow::kRun;
}

Flow Recorder::store_fast(vm::Activation& activation, const Instruction& in) {
  for (EntrySlots& slots : entry_) {
    if (slots.activation == &activation) slots.written[static_cast<std::size_t>(in.argument)] = true;
  }
  return Flow::kRun;
}

Flow Recorder::load_fast_and_clear(vm::Activation& activation, const Instruction& in) {
  if (!read_local(activation, in.argument)) return cut(BreakId::k_unknown_object, "a local variable");
  return store_fast(activation, in);
}

Flow Recorder::make_cell(vm::Activation& activation, const Instruction& in) {
  if (!read_local(activation, in.argument)) return cut(BreakId::k_unknown_object, "a captured argument");
  store_fast(activation, in);
  pending_.then = Then::kMakeCell;
  pending_.count = in.argument;
  pending_.activation = &activation;
  return Flow::kRun;
}

Flow Recorder::copy_free_variables(vm::Activation& activation, const Instruction& in) {
  PyObject* function = activation.frame->function;
  if (!resolve(function)) return cut(BreakId::k_unknown_object, "a closure");
  SourceId source = source_of(function);
  PyObject* closure = PyFunction_GET_CLOSURE(function);
  for (std::int32_t i = 0; closure && i < in.argument; i++) {
    PyObject* cell = PyTuple_GET_ITEM(closure, i);
    if (source == kNoSource) {
      if (!resolve(cell)) return cut(BreakId::k_unknown_object, "a closure's cell");
      continue;
    }
    learn_external(cell, guards_.read(SourceKind::kFunctionClosure, source, i, nullptr));
  }
  for (std::int32_t i = 0; i < in.argument; i++) {
    Instruction slot = in;
    slot.argument = activation.code->locals_count - in.argument + i;
    store_fast(activation, slot);
  }
  return Flow::kRun;
}

Flow Recorder::load_closure(vm::Activation& activation, const Instruction& in) {
  if (!read_local(activation, in.argument)) return cut(BreakId::k_unknown_object, "a cell");
  PyObject* cell = activation.locals()[in.argument];
  if (cell == nullptr || !resolve(cell)) return cut(BreakId::k_unknown_object, "a cell");
  return Flow::kRun;
}

/// The cell in that slot, or null where it is not known.
PyObject* Recorder::known_cell(vm::Activation& activation, int slot) {
  PyObject* cell = read_local(activation, slot) ? activation.locals()[slot] : nullptr;
  return cell && resolve(cell) ? cell : nullptr;
}

Flow Recorder::load_deref(vm::Activation& activation, const Instruction& in) {
  PyObject* cell = known_cell(activation, in.argument);
  if (cell == nullptr) return cut(BreakId::k_unknown_object, "a cell");
  PyObject* contents = PyCell_GET(cell);
  if (contents == nullptr) return cut(BreakId::k_raise, "an unbound variable");
  SourceId source = source_of(cell);
  if (source != kNoSource && !dirty_.count(cell) &&
      !learn_external(contents, guards_.read(SourceKind::kCellContents, source, 0, nullptr)))
    return cut(BreakId::k_unknown_object, "a captured variable");
  return resolve(contents) ? Flow::kRun : cut(BreakId::k_unknown_object, "a captured variable");
}

Flow Recorder::store_deref(vm::Activation& activation, const Instruction& in) {
  PyObject* cell = known_cell(activation, in.argument);
  if (cell == nullptr || !resolve(activation.peek(1))) return cut(BreakId::k_unknown_object, "a cell");
  mutations_++;
  if (source_of(cell) != kNoSource) {
    dirty_.insert(cell);
    effects_.push_back({EffectKind::kSetCell, Ref::borrow(cell), Ref(), Ref::borrow(activation.peek(1))});
  }
  return Flow::kRun;
}

Flow Recorder::delete_deref(vm::Activation& activation, const Instruction& in) {
  PyObject* cell = known_cell(activation, in.argument);
  if (cell == nullptr) return cut(BreakId::k_unknown_object, "a cell");
  if (PyCell_GET(cell) == nullptr) return cut(BreakId::k_raise, "an unbound variable");
  mutations_++;
  if (SourceId source = source_of(cell); source != kNoSource) {
    if (!is_dirty(cell)) guards_.check_present(guards_.read(SourceKind::kCellContents, source, 0, nullptr));
    dirty_.insert(cell);
    effects_.push_back({EffectKind::kSetCell, Ref::borrow(cell), Ref(), Ref()});
  }
  return Flow::kRun;
}

Flow Recorder::load_global(vm::Activation& activation, const Instruction& in) { return read_global(activation, name_of(activation, in.argument >> 1)); }

/// A name of a module's own level: its locals are the globals.
Flow Recorder::load_name(vm::Activation& activation, const Instruction& in) {
  if (activation.frame->locals != activation.frame->globals) return cut(BreakId::k_opaque_operation, "LOAD_NAME");
  return read_global(activation, name_of(activation, in.argument));
}

Flow Recorder::store_name(vm::Activation& activation, const Instruction& in) {
  if (activation.frame->locals != activation.frame->globals) return cut(BreakId::k_opaque_operation, "STORE_NAME");
  return store_global(activation, in);
}

Flow Recorder::read_global(vm::Activation& activation, PyObject* name) {
  PyObject* globals = activation.frame->globals;
  PyObject* builtins = activation.frame->builtins;
  if (!PyDict_CheckExact(globals) || !PyDict_CheckExact(builtins)) return cut(BreakId::k_opaque_operation, "globals of a class of their own");
  SourceId source = globals_source(activation);
  if (source == kNoSource) return cut(BreakId::k_unknown_object, "the globals");
  PyObject* value = PyDict_GetItemWithError(globals, name);
  if (value != nullptr) {
    if (was_written(globals, name)) return resolve(value) ? Flow::kRun : cut(BreakId::k_unknown_object, python::text_of(name));
    if (learn_external(value, guards_.read(SourceKind::kDictItem, source, 0, name))) return Flow::kRun;
    return cut(BreakId::k_unknown_object, python::text_of(name));
  }
  value = PyDict_GetItemWithError(builtins, name);
  if (value == nullptr) return cut(BreakId::k_raise, "a name that is not defined");
  guards_.check_absent(source, name);
  if (function_of_globals_.at(globals) == kNoSource) return cut(BreakId::k_unknown_object, "the builtins");
  return learn_builtin(globals, name, value) ? Flow::kRun : cut(BreakId::k_unknown_object, python::text_of(name));
}

/// A name of the builtins that code with these globals has, whose provenance is known.
bool Recorder::learn_builtin(PyObject* globals, PyObject* name, PyObject* value) {
  const SourceId function = function_of_globals_.at(globals);
  if (function == kNoSource) return false;
  const SourceId table = guards_.read(SourceKind::kFunctionBuiltins, function, 0, nullptr);
  return learn_external(value, guards_.read(SourceKind::kDictItem, table, 0, name));
}

Flow Recorder::store_global(vm::Activation& activation, const Instruction& in) {
  PyObject* name = name_of(activation, in.argument);
  PyObject* globals = activation.frame->globals;
  SourceId source = globals_source(activation);
  if (source == kNoSource || !PyDict_CheckExact(globals) || !resolve(activation.peek(1))) return cut(BreakId::k_opaque_operation, "a global");
  if (!find(globals)) learn_external(globals, source);
  mutations_++;
  written_keys_[globals].push_back(Ref::borrow(name));
  effects_.push_back({EffectKind::kSetItem, Ref::borrow(globals), Ref::borrow(name), Ref::borrow(activation.peek(1))});
  return Flow::kRun;
}

/// The name of the module that `from ..name import x` means: that many levels up from the package that the globals tell. Null where
/// there is none.
Ref Recorder::relative_name(vm::Activation& activation, PyObject* name, long level) {
  static PyObject* const package_name = PyUnicode_InternFromString("__package__");
  PyObject* package = PyDict_CheckExact(activation.frame->globals) ? PyDict_GetItemWithError(activation.frame->globals, package_name) : nullptr;
  if (package == nullptr || !PyUnicode_CheckExact(package) || read_global(activation, package_name) != Flow::kRun || !is_constant(package)) return {};
  std::string whole = python::text_of(package);
  for (; level > 1; level--) {
    const std::size_t dot = whole.rfind('.');
    if (dot == std::string::npos) return {};
    whole.resize(dot);
  }
  if (PyUnicode_GET_LENGTH(name) > 0) whole.append(".").append(python::text_of(name));
  return whole.empty() ? Ref() : Ref::steal(PyUnicode_InternFromString(whole.c_str()));
}

/// Whether `import` is the interpreter's own, and that is guarded: a program may put another function in its place.
bool Recorder::imports_plainly(vm::Activation& activation) {
  static PyObject* const import_function = PyUnicode_InternFromString("__import__");
  PyObject* builtins = activation.frame->builtins;
  if (!PyDict_CheckExact(builtins) || globals_source(activation) == kNoSource) return false;
  PyObject* own = PyDict_GetItemWithError(builtins, import_function);
  return own != nullptr && own == dynrun_import_function(PyThreadState_Get()) && learn_builtin(activation.frame->globals, import_function, own);
}

Flow Recorder::import_name(vm::Activation& activation, const Instruction& in) {
  // `import a` and `from a import b` of a module that is loaded: a read of sys.modules.
  PyObject* name = name_of(activation, in.argument);
  PyObject* from = activation.peek(1);
  PyObject* level = activation.peek(2);
  if (!imports_plainly(activation)) return cut(BreakId::k_opaque_operation, "an import by a function of the program's own");
  const Ref absolute = PyLong_CheckExact(level) && PyLong_AsLong(level) > 0 ? relative_name(activation, name, PyLong_AsLong(level)) : Ref::borrow(name);
  if (!absolute || (name != absolute.get() && from == Py_None)) return cut(BreakId::k_opaque_operation, "a relative import");
  name = absolute.get();
  PyObject* modules = PyImport_GetModuleDict();
  PyObject* module = PyDict_GetItemWithError(modules, name);
  if (module == nullptr || !PyModule_Check(module)) return cut(BreakId::k_opaque_operation, "an import of a module that is not loaded");
  SourceId table = guards_.read(SourceKind::kModules, kNoSource, 0, nullptr);
  learn_external(module, guards_.read(SourceKind::kDictItem, table, 0, name));
  Py_ssize_t dot = PyUnicode_FindChar(name, '.', 0, PyUnicode_GET_LENGTH(name), 1);
  if (from == Py_None && dot >= 0) {
    // `import a.b` gives a.
    Ref package = Ref::steal(PyUnicode_Substring(name, 0, dot));
    PyObject* top = PyDict_GetItemWithError(modules, package.get());
    if (top == nullptr || !PyModule_Check(top)) return cut(BreakId::k_opaque_operation, "an import");
    learn_external(top, guards_.read(SourceKind::kDictItem, table, 0, package.get()));
  }
  if (from != Py_None) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(from); i++) {
      PyObject* dict = PyModule_GetDict(module);
      if (PyDict_GetItemWithError(dict, PyTuple_GET_ITEM(from, i)) == nullptr) return cut(BreakId::k_opaque_operation, "an import");
    }
  }
  if (PyLong_AsLong(level) > 0) return give(activation, Ref::borrow(module), 2);  // importlib's own code is not looked at
  return prepare(activation, in, 2, Then::kLearnTop);
}

Flow Recorder::import_from(vm::Activation& activation, const Instruction& in) {
  PyObject* name = name_of(activation, in.argument);
  PyObject* module = activation.peek(1);
  SourceId source = kNoSource;
  PyObject* getter = nullptr;
  if (!resolve(module) || !PyModule_Check(module) || look_up(module, name, &getter, &source) != Attribute::kValue)
    return cut(BreakId::k_opaque_operation, "an import");
  return Flow::kRun;
}

Flow Recorder::make_function(vm::Activation& activation, const Instruction& in) {
  if (globals_source(activation) == kNoSource) return cut(BreakId::k_unknown_object, "the globals");
  int operands = 1;
  for (int bit = 1; bit <= 8; bit <<= 1) operands += (in.argument & bit) != 0;
  return prepare(activation, in, operands, Then::kLearnTop);
}

Flow Recorder::jump_backward(vm::Activation& activation, const Instruction& in) {
  ++backward_jumps_;
  // Of one loop, entered once: a program may hold many short ones. Nothing can end inside code that C code called.
  if (vm::current_machine() != &machine_) return Flow::kRun;
  // A loop over something that is there ends by itself; one on a condition may turn for long.
  const bool counted = activation.code->instructions[static_cast<std::size_t>(in.argument)].opcode == bytecode::Opcode::kForIter;
  if (++turns_[{&activation, activation.pc}] > (counted ? limits_.iterations : limits_.backward_jumps)) return cut_here("many turns of a loop");
  return Flow::kRun;
}

Flow Recorder::return_value(vm::Activation& activation, const Instruction&) {
  if (activation.continuation == vm::Continuation::kPushTruth || activation.continuation == vm::Continuation::kPushNotTruth) is_constant(activation.peek(1));
  // The C code that called takes the truth of it.
  bool to_c = vm::current_machine() != &machine_ && activation.caller == nullptr && !outer_pending_.empty();
  if (to_c && outer_pending_.back().second.passes_through) is_constant(activation.peek(1));
  // It may use up an iterator: what it sees is looked at before.
  if (to_c && !hands_on(outer_pending_.back().second) && !settle_hidden(activation.peek(1))) return cut_unsettled(BreakId::k_changing_number, "a value given to C code");
  if (&activation != base_) return Flow::kRun;
  if (!resolve(activation.peek(1))) return cut(BreakId::k_unknown_object, Py_TYPE(activation.peek(1))->tp_name);
  return finish_return(activation.peek(1)) ? Flow::kFinished : Flow::kDropped;
}

Flow Recorder::return_const(vm::Activation& activation, const Instruction& in) {
  if (&activation != base_) return Flow::kRun;
  return finish_return(PyTuple_GET_ITEM(activation.code->object->co_consts, in.argument)) ? Flow::kFinished : Flow::kDropped;
}

}  // namespace dynrun::trace
