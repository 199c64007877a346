#pragma once
// The table of dynrun opcodes: the one place where an opcode is named.
//
// Columns: constant, text, what the argument means, whether the argument is the index of a target instruction.
// Stack effects and meanings are CPython 3.12's, with these differences: EXTENDED_ARG and caches do not exist; KW_NAMES is
// part of CALL (Instruction::keyword_names); every jump's argument is an instruction index; FOR_ITER's target is its END_FOR:
// an exhausted loop pops the iterator and goes on behind that END_FOR.

#include <cstdint>

namespace dynrun::bytecode {

enum class ArgumentKind : std::uint8_t {
  kNone,       // unused
  kCount,      // a number of stack slots, or a distance down the stack
  kFlags,      // bits whose meaning is the opcode's own
  kConstant,   // index into co_consts
  kName,       // index into co_names
  kNameFlag,   // name index << 1 | flag (LOAD_GLOBAL: push NULL first; LOAD_ATTR: method load)
  kNameSuper,  // name index << 2 | two-argument form << 1 | method load
  kLocal,      // index into localsplus
  kTarget,     // instruction index
  kOperator,   // BINARY_OP: NB_* of opcode.h
  kCompare,    // COMPARE_OP: Py_LT.. << 4 | mask
  kIntrinsic,  // number of an intrinsic function
};

// clang-format off
#define DYNRUN_OPCODES(X) \
  X(Nop,                     NOP,                        kNone,      false) \
  X(Resume,                  RESUME,                     kFlags,     false) \
  X(PopTop,                  POP_TOP,                    kNone,      false) \
  X(PushNull,                PUSH_NULL,                  kNone,      false) \
  X(EndFor,                  END_FOR,                    kNone,      false) \
  X(EndSend,                 END_SEND,                   kNone,      false) \
  X(Copy,                    COPY,                       kCount,     false) \
  X(Swap,                    SWAP,                       kCount,     false) \
  X(LoadConst,               LOAD_CONST,                 kConstant,  false) \
  X(LoadFast,                LOAD_FAST,                  kLocal,     false) \
  X(LoadFastCheck,           LOAD_FAST_CHECK,            kLocal,     false) \
  X(LoadFastAndClear,        LOAD_FAST_AND_CLEAR,        kLocal,     false) \
  X(StoreFast,               STORE_FAST,                 kLocal,     false) \
  X(DeleteFast,              DELETE_FAST,                kLocal,     false) \
  X(LoadClosure,             LOAD_CLOSURE,               kLocal,     false) \
  X(MakeCell,                MAKE_CELL,                  kLocal,     false) \
  X(CopyFreeVars,            COPY_FREE_VARS,             kCount,     false) \
  X(LoadDeref,               LOAD_DEREF,                 kLocal,     false) \
  X(StoreDeref,              STORE_DEREF,                kLocal,     false) \
  X(DeleteDeref,             DELETE_DEREF,               kLocal,     false) \
  X(LoadFromDictOrDeref,     LOAD_FROM_DICT_OR_DEREF,    kLocal,     false) \
  X(LoadFromDictOrGlobals,   LOAD_FROM_DICT_OR_GLOBALS,  kName,      false) \
  X(LoadName,                LOAD_NAME,                  kName,      false) \
  X(StoreName,               STORE_NAME,                 kName,      false) \
  X(DeleteName,              DELETE_NAME,                kName,      false) \
  X(LoadGlobal,              LOAD_GLOBAL,                kNameFlag,  false) \
  X(StoreGlobal,             STORE_GLOBAL,               kName,      false) \
  X(DeleteGlobal,            DELETE_GLOBAL,              kName,      false) \
  X(LoadLocals,              LOAD_LOCALS,                kNone,      false) \
  X(LoadBuildClass,          LOAD_BUILD_CLASS,           kNone,      false) \
  X(LoadAssertionError,      LOAD_ASSERTION_ERROR,       kNone,      false) \
  X(SetupAnnotations,        SETUP_ANNOTATIONS,          kNone,      false) \
  X(LoadAttr,                LOAD_ATTR,                  kNameFlag,  false) \
  X(StoreAttr,               STORE_ATTR,                 kName,      false) \
  X(DeleteAttr,              DELETE_ATTR,                kName,      false) \
  X(LoadSuperAttr,           LOAD_SUPER_ATTR,            kNameSuper, false) \
  X(UnaryNegative,           UNARY_NEGATIVE,             kNone,      false) \
  X(UnaryNot,                UNARY_NOT,                  kNone,      false) \
  X(UnaryInvert,             UNARY_INVERT,               kNone,      false) \
  X(BinaryOp,                BINARY_OP,                  kOperator,  false) \
  X(BinarySubscr,            BINARY_SUBSCR,              kNone,      false) \
  X(BinarySlice,             BINARY_SLICE,               kNone,      false) \
  X(StoreSlice,              STORE_SLICE,                kNone,      false) \
  X(StoreSubscr,             STORE_SUBSCR,               kNone,      false) \
  X(DeleteSubscr,            DELETE_SUBSCR,              kNone,      false) \
  X(CompareOp,               COMPARE_OP,                 kCompare,   false) \
  X(IsOp,                    IS_OP,                      kFlags,     false) \
  X(ContainsOp,              CONTAINS_OP,                kFlags,     false) \
  X(BuildTuple,              BUILD_TUPLE,                kCount,     false) \
  X(BuildList,               BUILD_LIST,                 kCount,     false) \
  X(BuildSet,                BUILD_SET,                  kCount,     false) \
  X(BuildMap,                BUILD_MAP,                  kCount,     false) \
  X(BuildConstKeyMap,        BUILD_CONST_KEY_MAP,        kCount,     false) \
  X(BuildString,             BUILD_STRING,               kCount,     false) \
  X(BuildSlice,              BUILD_SLICE,                kCount,     false) \
  X(FormatValue,             FORMAT_VALUE,               kFlags,     false) \
  X(ListAppend,              LIST_APPEND,                kCount,     false) \
  X(ListExtend,              LIST_EXTEND,                kCount,     false) \
  X(SetAdd,                  SET_ADD,                    kCount,     false) \
  X(SetUpdate,               SET_UPDATE,                 kCount,     false) \
  X(MapAdd,                  MAP_ADD,                    kCount,     false) \
  X(DictUpdate,              DICT_UPDATE,                kCount,     false) \
  X(DictMerge,               DICT_MERGE,                 kCount,     false) \
  X(UnpackSequence,          UNPACK_SEQUENCE,            kCount,     false) \
  X(UnpackEx,                UNPACK_EX,                  kFlags,     false) \
  X(MakeFunction,            MAKE_FUNCTION,              kFlags,     false) \
  X(Call,                    CALL,                       kCount,     false) \
  X(CallFunctionEx,          CALL_FUNCTION_EX,           kFlags,     false) \
  X(CallIntrinsic1,          CALL_INTRINSIC_1,           kIntrinsic, false) \
  X(CallIntrinsic2,          CALL_INTRINSIC_2,           kIntrinsic, false) \
  X(ReturnValue,             RETURN_VALUE,               kNone,      false) \
  X(ReturnConst,             RETURN_CONST,               kConstant,  false) \
  X(JumpForward,             JUMP_FORWARD,               kTarget,    true)  \
  X(JumpBackward,            JUMP_BACKWARD,              kTarget,    true)  \
  X(JumpBackwardNoInterrupt, JUMP_BACKWARD_NO_INTERRUPT, kTarget,    true)  \
  X(PopJumpIfFalse,          POP_JUMP_IF_FALSE,          kTarget,    true)  \
  X(PopJumpIfTrue,           POP_JUMP_IF_TRUE,           kTarget,    true)  \
  X(PopJumpIfNone,           POP_JUMP_IF_NONE,           kTarget,    true)  \
  X(PopJumpIfNotNone,        POP_JUMP_IF_NOT_NONE,       kTarget,    true)  \
  X(GetIter,                 GET_ITER,                   kNone,      false) \
  X(ForIter,                 FOR_ITER,                   kTarget,    true)  \
  X(GetLen,                  GET_LEN,                    kNone,      false) \
  X(MatchMapping,            MATCH_MAPPING,              kNone,      false) \
  X(MatchSequence,           MATCH_SEQUENCE,             kNone,      false) \
  X(MatchKeys,               MATCH_KEYS,                 kNone,      false) \
  X(MatchClass,              MATCH_CLASS,                kCount,     false) \
  X(RaiseVarargs,            RAISE_VARARGS,              kCount,     false) \
  X(Reraise,                 RERAISE,                    kCount,     false) \
  X(PushExcInfo,             PUSH_EXC_INFO,              kNone,      false) \
  X(PopExcept,               POP_EXCEPT,                 kNone,      false) \
  X(CheckExcMatch,           CHECK_EXC_MATCH,            kNone,      false) \
  X(CheckEgMatch,            CHECK_EG_MATCH,             kNone,      false) \
  X(WithExceptStart,         WITH_EXCEPT_START,          kNone,      false) \
  X(BeforeWith,              BEFORE_WITH,                kNone,      false) \
  X(BeforeAsyncWith,         BEFORE_ASYNC_WITH,          kNone,      false) \
  X(EndAsyncFor,             END_ASYNC_FOR,              kNone,      false) \
  X(CleanupThrow,            CLEANUP_THROW,              kNone,      false) \
  X(ReturnGenerator,         RETURN_GENERATOR,           kNone,      false) \
  X(YieldValue,              YIELD_VALUE,                kFlags,     false) \
  X(Send,                    SEND,                       kTarget,    true)  \
  X(GetYieldFromIter,        GET_YIELD_FROM_ITER,        kNone,      false) \
  X(GetAwaitable,            GET_AWAITABLE,              kFlags,     false) \
  X(GetAiter,                GET_AITER,                  kNone,      false) \
  X(GetAnext,                GET_ANEXT,                  kNone,      false) \
  X(ImportName,              IMPORT_NAME,                kName,      false) \
  X(ImportFrom,              IMPORT_FROM,                kName,      false)
// clang-format on

enum class Opcode : std::uint8_t {
#define DYNRUN_OPCODE_NAME(constant, text, kind, jumps) k##constant,
  DYNRUN_OPCODES(DYNRUN_OPCODE_NAME)
#undef DYNRUN_OPCODE_NAME
};

struct OpcodeInfo {
  const char* name;
  ArgumentKind argument;
  bool jumps;
};

inline constexpr OpcodeInfo kOpcodeInfo[] = {
#define DYNRUN_OPCODE_INFO(constant, text, kind, jumps) {#text, ArgumentKind::kind, jumps},
    DYNRUN_OPCODES(DYNRUN_OPCODE_INFO)
#undef DYNRUN_OPCODE_INFO
};
inline constexpr int kOpcodeCount = static_cast<int>(sizeof(kOpcodeInfo) / sizeof(kOpcodeInfo[0]));

constexpr const OpcodeInfo& info(Opcode opcode) { return kOpcodeInfo[static_cast<int>(opcode)]; }

}  // namespace dynrun::bytecode
