#pragma once
// The opcodes that make up most of what runs, inline, with pc and stack pointer in registers. Each does what its function in
// ops_*.cpp does, on the cases that need no call out; anything else is left to that function, untouched.

#include "vm/interpreter.h"

namespace dynrun::vm {

inline bool both_small_ints(PyObject* left, PyObject* right) {
  return PyLong_CheckExact(left) && PyLong_CheckExact(right) &&
         PyUnstable_Long_IsCompact(reinterpret_cast<PyLongObject*>(left)) &&
         PyUnstable_Long_IsCompact(reinterpret_cast<PyLongObject*>(right));
}

inline long small_int(PyObject* object) {
  return static_cast<long>(PyUnstable_Long_CompactValue(reinterpret_cast<PyLongObject*>(object)));
}

/// left OP right where both are small ints or floats and nothing can fail but memory. Null without an error: not such a case.
inline PyObject* fast_arithmetic(int operation, PyObject* left, PyObject* right) {
  constexpr int kAdd = 0, kMultiply = 5, kSubtract = 10, kInPlace = 13;
  int plain = operation >= kInPlace ? operation - kInPlace : operation;
  if (both_small_ints(left, right)) {
    long a = small_int(left), b = small_int(right);  // 30 bits: no overflow
    switch (plain) {
      case kAdd:
        return PyLong_FromLong(a + b);
      case kSubtract:
        return PyLong_FromLong(a - b);
      case kMultiply:
        return PyLong_FromLong(a * b);
      default:
        return nullptr;
    }
  }
  if (PyFloat_CheckExact(left) && PyFloat_CheckExact(right)) {
    double a = PyFloat_AS_DOUBLE(left), b = PyFloat_AS_DOUBLE(right);
    switch (plain) {
      case kAdd:
        return PyFloat_FromDouble(a + b);
      case kSubtract:
        return PyFloat_FromDouble(a - b);
      case kMultiply:
        return PyFloat_FromDouble(a * b);
      default:
        return nullptr;
    }
  }
  return nullptr;
}

template <typename Number>
bool compares(int comparison, Number a, Number b) {
  switch (comparison) {
    case Py_LT:
      return a < b;
    case Py_LE:
      return a <= b;
    case Py_EQ:
      return a == b;
    case Py_NE:
      return a != b;
    case Py_GT:
      return a > b;
    default:
      return a >= b;
  }
}

/// left < right and so on of small ints and floats: True, False (borrowed), or null: not such a case.
inline PyObject* fast_comparison(int comparison, PyObject* left, PyObject* right) {
  if (both_small_ints(left, right)) return compares(comparison, small_int(left), small_int(right)) ? Py_True : Py_False;
  if (PyFloat_CheckExact(left) && PyFloat_CheckExact(right)) {
    return compares(comparison, PyFloat_AS_DOUBLE(left), PyFloat_AS_DOUBLE(right)) ? Py_True : Py_False;
  }
  return nullptr;
}

/// What the opcodes here see of the running frame.
struct HotFrame {
  const Interpreter& vm;
  PyObject** const locals;
  PyCodeObject* const code;
  DynrunInlineCache* const caches;
  python::Frame* const frame;
};

enum class HotResult : std::uint8_t {
  kSlow,   // nothing was done: the opcode's own function is to run
  kDone,   // `pc` and `sp` are moved on
  kError,  // an error is set, the operands are gone
};

/// The item that a list or tuple holds at a small int (borrowed), what a dict holds, or null without an error: not such a case.
inline PyObject* fast_item(PyObject* container, PyObject* key) {
  if (PyLong_CheckExact(key)) {
    bool list = PyList_CheckExact(container);
    if (list || PyTuple_CheckExact(container)) {
      if (!PyUnstable_Long_IsCompact(reinterpret_cast<PyLongObject*>(key))) return nullptr;
      long index = small_int(key);
      if (index < 0) index += Py_SIZE(container);
      if (index < 0 || index >= Py_SIZE(container)) return nullptr;
      return list ? PyList_GET_ITEM(container, index) : PyTuple_GET_ITEM(container, index);
    }
  }
  return nullptr;
}

/// LOAD_ATTR by its cache.
inline HotResult hot_load_attribute(const HotFrame& hot, const bytecode::Instruction& instruction, PyObject**& sp) {
  PyObject* owner = sp[-1];
  PyObject* name = PyTuple_GET_ITEM(hot.code->co_names, instruction.argument >> 1);
  PyObject* value;
  bool method = instruction.argument & 1;
  switch (dynrun_load_attribute(&hot.caches[instruction.cache], owner, name, method, &value)) {
    case kDynrunAttributeValue:
      if (method) *(sp++ - 1) = nullptr;
      sp[-1] = value;
      Py_DECREF(owner);
      return HotResult::kDone;
    case kDynrunAttributeMethod:
      sp[-1] = value;
      *sp++ = owner;
      return HotResult::kDone;
    case kDynrunAttributeGetter:
      Py_DECREF(value);
      return HotResult::kSlow;
    default:
      return HotResult::kSlow;
  }
}

/// FOR_ITER over iterators of C's own.
inline HotResult hot_for_iter(const bytecode::Instruction& instruction, const bytecode::Instruction* instructions,
                              const bytecode::Instruction*& pc, PyObject**& sp) {
  PyObject* iterator = sp[-1];
  PyTypeObject* type = Py_TYPE(iterator);
  if (type == &PyGen_Type) return HotResult::kSlow;
  PyObject* next = type->tp_iternext(iterator);
  if (next) {
    *sp++ = next;
    return HotResult::kDone;
  }
  if (PyErr_Occurred()) {
    if (!PyErr_ExceptionMatches(PyExc_StopIteration)) return HotResult::kError;
    PyErr_Clear();
  }
  --sp;
  pc = instructions + instruction.argument + 1;  // behind the END_FOR
  Py_DECREF(iterator);
  return HotResult::kDone;
}

/// UNPACK_SEQUENCE of a tuple or list of that length.
inline HotResult hot_unpack(const bytecode::Instruction& instruction, PyObject**& sp) {
  PyObject* sequence = sp[-1];
  Py_ssize_t count = instruction.argument;
  PyObject** items;
  if (PyTuple_CheckExact(sequence)) {
    items = reinterpret_cast<PyTupleObject*>(sequence)->ob_item;
  } else if (PyList_CheckExact(sequence)) {
    items = reinterpret_cast<PyListObject*>(sequence)->ob_item;
  } else {
    return HotResult::kSlow;
  }
  if (Py_SIZE(sequence) != count) return HotResult::kSlow;
  --sp;
  for (Py_ssize_t i = count; i-- > 0;) *sp++ = Py_NewRef(items[i]);
  Py_DECREF(sequence);
  return HotResult::kDone;
}

/// container[key] = value for a list's item and a dict; sp points behind value, container, key.
inline HotResult hot_store_item(PyObject**& sp) {
  PyObject *key = sp[-1], *container = sp[-2], *value = sp[-3];
  if (PyDict_CheckExact(container)) {
    sp -= 3;
    int stored = PyDict_SetItem(container, key, value);
    Py_DECREF(value);
    Py_DECREF(container);
    Py_DECREF(key);
    return stored < 0 ? HotResult::kError : HotResult::kDone;
  }
  if (!PyList_CheckExact(container) || !fast_item(container, key)) return HotResult::kSlow;
  long index = small_int(key);
  if (index < 0) index += Py_SIZE(container);
  PyObject* before = PyList_GET_ITEM(container, index);
  sp -= 3;
  PyList_SET_ITEM(container, index, value);
  Py_DECREF(key);
  Py_DECREF(before);
  Py_DECREF(container);
  return HotResult::kDone;
}

inline HotResult replace_two(PyObject**& sp, PyObject* value) {
  PyObject *left = sp[-2], *right = sp[-1];
  --sp;
  sp[-1] = value;
  Py_DECREF(left);
  Py_DECREF(right);
  return HotResult::kDone;
}

/// Runs instructions from `pc` on while they are hot ones in an easy case. kSlow: `pc` stands behind one that is not, which did
/// nothing. The frame's line is kept up to date: what frees an object may run any code.
inline HotResult run_hot(const HotFrame& hot, const bytecode::Instruction* instructions, std::int32_t& pc,
                         PyObject**& stack_top) {
  using bytecode::Opcode;
  PyObject** const locals = hot.locals;
  std::uint16_t* const units = code_units(hot.code);
  const bytecode::Instruction* next = instructions + pc;
  PyObject** sp = stack_top;
  HotResult result = HotResult::kSlow;
  // One indirect jump an instruction, which the compiler repeats behind each of them.
  static const void* const kLabels[] = {
#define DYNRUN_LABEL(constant, text, kind, jumps) &&op_##constant,
      DYNRUN_OPCODES(DYNRUN_LABEL)
#undef DYNRUN_LABEL
  };
#define DYNRUN_NEXT()                                              \
  do {                                                             \
    instruction = next++;                                          \
    hot.frame->previous_instruction = units + instruction->offset; \
    goto* kLabels[static_cast<int>(instruction->opcode)];          \
  } while (0)

  const bytecode::Instruction* instruction;
  DYNRUN_NEXT();

op_LoadFast:
  *sp++ = Py_NewRef(locals[instruction->argument]);
  DYNRUN_NEXT();
op_LoadFastCheck:
  if (!locals[instruction->argument]) goto leave;
  *sp++ = Py_NewRef(locals[instruction->argument]);
  DYNRUN_NEXT();
op_LoadConst:
  *sp++ = Py_NewRef(PyTuple_GET_ITEM(hot.code->co_consts, instruction->argument));
  DYNRUN_NEXT();
op_LoadDeref: {
  PyObject* value = PyCell_GET(locals[instruction->argument]);
  if (!value) goto leave;
  *sp++ = Py_NewRef(value);
  DYNRUN_NEXT();
}
op_LoadGlobal: {
  PyObject* name = PyTuple_GET_ITEM(hot.code->co_names, instruction->argument >> 1);
  PyObject* value = dynrun_load_global(&hot.caches[instruction->cache], hot.frame->globals, hot.frame->builtins, name);
  if (!value) goto leave;
  if (instruction->argument & 1) *sp++ = nullptr;
  *sp++ = value;
  DYNRUN_NEXT();
}
op_LoadAttr:
  result = hot_load_attribute(hot, *instruction, sp);
  if (result != HotResult::kDone) goto leave_so;
  DYNRUN_NEXT();
op_StoreAttr: {
  PyObject *owner = sp[-1], *value = sp[-2];
  PyObject* name = PyTuple_GET_ITEM(hot.code->co_names, instruction->argument);
  if (!dynrun_store_attribute(&hot.caches[instruction->cache], owner, name, value)) goto leave;
  sp -= 2;
  Py_DECREF(owner);
  Py_DECREF(value);
  DYNRUN_NEXT();
}
op_PushNull:
  *sp++ = nullptr;
  DYNRUN_NEXT();
op_Copy: {
  PyObject* value = Py_XNewRef(sp[-instruction->argument]);
  *sp++ = value;
  DYNRUN_NEXT();
}
op_Swap:
  std::swap(sp[-1], sp[-instruction->argument]);
  DYNRUN_NEXT();
op_StoreFast: {
  PyObject* before = locals[instruction->argument];
  locals[instruction->argument] = *--sp;
  Py_XDECREF(before);
  DYNRUN_NEXT();
}
op_PopTop:
  --sp;
  Py_DECREF(*sp);
  DYNRUN_NEXT();
op_PopJumpIfNone:
op_PopJumpIfNotNone: {
  PyObject* value = *--sp;
  if ((value == Py_None) == (instruction->opcode == Opcode::kPopJumpIfNone)) next = instructions + instruction->argument;
  Py_DECREF(value);
  DYNRUN_NEXT();
}
op_Nop:
  DYNRUN_NEXT();
op_JumpForward:
op_JumpBackwardNoInterrupt:
  next = instructions + instruction->argument;
  DYNRUN_NEXT();
op_JumpBackward:
  if (hot.vm.wants_attention()) goto leave;
  next = instructions + instruction->argument;
  DYNRUN_NEXT();
op_Resume:
  if (hot.vm.wants_attention()) goto leave;
  DYNRUN_NEXT();
op_ForIter:
  result = hot_for_iter(*instruction, instructions, next, sp);
  if (result != HotResult::kDone) goto leave_so;
  DYNRUN_NEXT();
op_PopJumpIfFalse:
op_PopJumpIfTrue: {
  PyObject* condition = sp[-1];
  if (condition != Py_True && condition != Py_False) goto leave;
  --sp;
  if ((condition == Py_True) == (instruction->opcode == Opcode::kPopJumpIfTrue)) next = instructions + instruction->argument;
  DYNRUN_NEXT();
}
op_UnaryNot: {
  PyObject* operand = sp[-1];
  if (operand != Py_True && operand != Py_False) goto leave;
  sp[-1] = operand == Py_True ? Py_False : Py_True;  // immortal
  DYNRUN_NEXT();
}
op_IsOp: {
  bool same = (sp[-2] == sp[-1]) != (instruction->argument != 0);
  replace_two(sp, same ? Py_True : Py_False);
  DYNRUN_NEXT();
}
op_CompareOp: {
  PyObject* answer = fast_comparison(instruction->argument >> 4, sp[-2], sp[-1]);
  if (!answer) goto leave;
  replace_two(sp, answer);
  DYNRUN_NEXT();
}
op_BinaryOp: {
  PyObject* value = fast_arithmetic(instruction->argument, sp[-2], sp[-1]);
  if (value) {
    replace_two(sp, value);
    DYNRUN_NEXT();
  }
  if (PyErr_Occurred()) PyErr_Clear();  // no memory: the slow way says so again
  goto leave;
}
op_BinarySubscr: {
  PyObject* item = fast_item(sp[-2], sp[-1]);
  if (!item) goto leave;
  replace_two(sp, Py_NewRef(item));
  DYNRUN_NEXT();
}
op_StoreSubscr:
  result = hot_store_item(sp);
  if (result != HotResult::kDone) goto leave_so;
  DYNRUN_NEXT();
op_UnpackSequence:
  result = hot_unpack(*instruction, sp);
  if (result != HotResult::kDone) goto leave_so;
  DYNRUN_NEXT();
op_ListAppend: {
  PyObject* value = *--sp;
  int appended = PyList_Append(sp[-instruction->argument], value);
  Py_DECREF(value);
  if (appended < 0) {
    result = HotResult::kError;
    goto leave_so;
  }
  DYNRUN_NEXT();
}
op_EndFor:
op_EndSend:
op_LoadFastAndClear:
op_DeleteFast:
op_LoadClosure:
op_MakeCell:
op_CopyFreeVars:
op_StoreDeref:
op_DeleteDeref:
op_LoadFromDictOrDeref:
op_LoadFromDictOrGlobals:
op_LoadName:
op_StoreName:
op_DeleteName:
op_StoreGlobal:
op_DeleteGlobal:
op_LoadLocals:
op_LoadBuildClass:
op_LoadAssertionError:
op_SetupAnnotations:
op_DeleteAttr:
op_LoadSuperAttr:
op_UnaryNegative:
op_UnaryInvert:
op_BinarySlice:
op_StoreSlice:
op_DeleteSubscr:
op_ContainsOp:
op_BuildTuple:
op_BuildList:
op_BuildSet:
op_BuildMap:
op_BuildConstKeyMap:
op_BuildString:
op_BuildSlice:
op_FormatValue:
op_ListExtend:
op_SetAdd:
op_SetUpdate:
op_MapAdd:
op_DictUpdate:
op_DictMerge:
op_UnpackEx:
op_MakeFunction:
op_Call:
op_CallFunctionEx:
op_CallIntrinsic1:
op_CallIntrinsic2:
op_ReturnValue:
op_ReturnConst:
op_GetIter:
op_GetLen:
op_MatchMapping:
op_MatchSequence:
op_MatchKeys:
op_MatchClass:
op_RaiseVarargs:
op_Reraise:
op_PushExcInfo:
op_PopExcept:
op_CheckExcMatch:
op_CheckEgMatch:
op_WithExceptStart:
op_BeforeWith:
op_BeforeAsyncWith:
op_EndAsyncFor:
op_CleanupThrow:
op_ReturnGenerator:
op_YieldValue:
op_Send:
op_GetYieldFromIter:
op_GetAwaitable:
op_GetAiter:
op_GetAnext:
op_ImportName:
op_ImportFrom:
leave:
  result = HotResult::kSlow;
leave_so:
  pc = static_cast<std::int32_t>(next - instructions);
  stack_top = sp;
  return result;
#undef DYNRUN_NEXT
}

}  // namespace dynrun::vm
