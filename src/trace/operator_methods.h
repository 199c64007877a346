#pragma once
// The methods behind Python's binary operators, in the order of BINARY_OP's argument; `__r…__` is the reflected one.

namespace dynrun::trace {

inline constexpr const char* kBinaryMethods[] = {"__add__", "__and__", "__floordiv__", "__lshift__", "__matmul__", "__mul__", "__mod__",
                                                 "__or__", "__pow__", "__rshift__", "__sub__", "__truediv__", "__xor__"};

inline constexpr const char* kInPlaceMethods[] = {"__iadd__", "__iand__", "__ifloordiv__", "__ilshift__", "__imatmul__", "__imul__", "__imod__",
                                                  "__ior__", "__ipow__", "__irshift__", "__isub__", "__itruediv__", "__ixor__"};

}  // namespace dynrun::trace
