#pragma once
// Provenance of what a segment reads from outside: a path from the entry's frames to an object, read again on each replay.

#include <cstdint>

namespace dynrun::guards {

using SourceId = std::int32_t;
constexpr SourceId kNoSource = -1;

// One table: name, and how the path is written for people (%s the parent, %k the key, %i the index).
#define DYNRUN_SOURCE_KINDS(X)                                                    \
  X(Local, "%k")                /* a local, cell or free slot of a frame of the entry; parent: frame depth */ \
  X(Stack, "stack[%i]")         /* a stack slot of a frame of the entry */       \
  X(FrameFunction, "frame")     /* the function that a frame of the entry runs */ \
  X(Modules, "sys.modules")                                                      \
  X(InstanceDict, "%s.__dict__")                                                 \
  X(ModuleDict, "%s.__dict__")                                                   \
  X(DictItem, "%s[%k]")         /* of an exact dict or a dict subclass's own table */ \
  X(SequenceItem, "%s[%i]")     /* of a list or tuple */                         \
  X(ItemAt, "%s[%n]")           /* of a list or tuple, at the number that the source `index` gives */ \
  X(CellContents, "%s.cell_contents")                                            \
  X(FunctionClosure, "%s.__closure__[%i]")                                       \
  X(FunctionDefaults, "%s.__defaults__")                                         \
  X(FunctionKeywordDefaults, "%s.__kwdefaults__")                                \
  X(FunctionGlobals, "%s.__globals__")                                           \
  X(FunctionBuiltins, "%s.__builtins__")                                         \
  X(FunctionField, "%s.%k")     /* index: a FunctionField */                      \
  X(ClassField, "%s.%k")       /* of a class of Python code. index 0: __name__, 1: __qualname__, 2: __module__, 3: __doc__ */ \
  X(ContextValue, "%s.get()")                                                    \
  X(MethodFunction, "%s.__func__")                                               \
  X(MethodSelf, "%s.__self__")                                                   \
  X(TypeOf, "type(%s)")                                                          \
  X(TypeAttribute, "%s.%k")     /* found along the MRO of the parent, a type */  \
  X(SuperAttribute, "super().%k") /* found along the MRO of the parent, a type, behind the type held as aux */ \
  X(Member, "%s.%k")            /* a __slots__ member */                         \
  X(PropertyGetter, "%s.fget")                                                   \
  X(PropertySetter, "%s.fset")                                                   \
  X(Gradient, "%s.grad")        /* of a leaf tensor: another tensor, or None */ \
  X(CachedCall, "%s(%k)")       /* what functools.lru_cache holds under a key */ \
  X(Referent, "%s()")           /* what a weak reference refers to: None once that has died */ \
  X(Wrapped, "%s.__func__")     /* what a staticmethod or classmethod holds */   \
  X(Constant, "%k")             /* the object itself, which the segment keeps: immortal or harmless */

enum class SourceKind : std::uint8_t {
#define X(name, text) k##name,
  DYNRUN_SOURCE_KINDS(X)
#undef X
};

/// What functions have besides their code, closure and globals.
enum class FunctionField : std::uint8_t { kName, kQualifiedName, kAnnotations, kModule, kDoc, kTypeParameters, kDict };

}  // namespace dynrun::guards
