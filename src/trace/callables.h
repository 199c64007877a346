#pragma once
// What a call of C code means to the recorder: every C callable is in one class, from one table.

#include "python/reference.h"

#include <Python.h>

#include <cstdint>
#include <string>

namespace dynrun::trace {

enum class CallClass : std::uint8_t {
  kTransparent,  // torch's generated bindings: run with the key on, recorded at the dispatcher
  kPure,         // result follows from the arguments, whose contents are guarded; writes nothing but fresh arguments
  kModelled,     // a recorder function of its own, see `Model`
  kOpaque,       // everything else: ends the segment
};

enum class Model : std::uint8_t {
  kNone,
  kListAppend,      // list.append
  kSetAttribute,    // object.__setattr__, setattr
  kDeleteAttribute, // delattr
  kGetAttribute,    // getattr, hasattr: attribute lookup
  kGenericGetAttribute,  // object.__getattribute__
  kIsInstance,      // isinstance, issubclass
  kSetGrad,         // torch._C._set_grad_enabled
  kWriteFresh,      // a method that writes its self: allowed on fresh containers only
  kIterNext,        // next(): the iterator must be fresh
  kDictGet,         // dict.get, dict.__getitem__, dict.__contains__ on one key
  kDictPop,         // dict.pop of one key
  kNew,             // object.__new__
  kIdentity,        // id()
  kContextGet,      // ContextVar.get
  kContextSet,      // ContextVar.set
  kContextReset,    // ContextVar.reset
  kHash,            // id(), hash(): may be taken of constants only
  kPrint,           // print: a host call
  kWarn,            // warnings.warn: a host call
  kAutocast,        // a setter of autocast's state
  kNewTuple,        // tuple.__new__
  kWriteFirst,      // a function that writes its first argument: allowed on fresh containers only
  kGenerator,       // send, close, throw: the generator must be fresh
  kHandled,         // sys.exc_info, sys.exception
  kGlobals,         // globals
  kVariables,       // vars of one object
  kSetDevice,       // makes a GPU the current one
  kState,           // tells state that no guard knows of: each replay calls it again and compares
  kBreak,           // dynrun.graph_break: a break that the program asks for
  kScope,           // what changes how code is recorded from there on
  kDisable,         // the switch of dynrun.disable
  kMetadata,        // a method or attribute of a tensor that reads its type (sizes, strides, dtype), which is guarded
};

struct CallKind {
  CallClass call_class = CallClass::kOpaque;
  Model model = Model::kNone;
};

/// What lies at "module:attribute.attribute"; null, without an error, where there is none.
python::Ref import_path(const std::string& path);

/// The object that a built-in method is bound to, borrowed; null for a module's function, a class's static one, or pybind11's.
PyObject* bound_object(PyObject* function);

/// The descriptor of a C method, or C class method, in one of these classes, borrowed; null where none of them has it.
PyObject* descriptor_in(PyObject* mro, PyMethodDef* method);

/// The class of a C callable: a built-in function or method, a method descriptor, a slot wrapper or a built-in type.
CallKind classify_callable(PyObject* callable);

/// The class of reading an attribute of a tensor that is not a method, by its descriptor (borrowed, may be null).
CallKind classify_attribute(PyObject* descriptor);

/// The class of torch.ops.aten.add.Tensor and torch.ops.aten.add: transparent where the dispatcher has it. (What TorchScript adds
/// to a packet works on numbers and lists, or calls operators.) Opaque for any other object. From then on `classify_callable`
/// knows the C function behind it.
CallKind classify_operator(PyObject* overload_or_packet);

/// The class of whatever of the three it is.
CallKind classify(PyObject* object);

/// From now on the callable (kept) is of that class.
void classify_as(PyObject* callable, CallKind kind);

/// "transparent", "pure", "modelled", "opaque"
const char* class_name(CallClass call_class);
/// "builtins.len", "list.append", "Tensor.view"
/// Whether the callable is that method of a C class, bound or not.
bool is_method(PyObject* callable, PyObject* method);
std::string callable_name(PyObject* callable);

/// Fills the table from the modules that are loaded; needs torch to be imported. Called once.
void build_callable_table();

}  // namespace dynrun::trace
