#pragma once
// Why a segment ends before the code does. One table: id, what happened, what to do. `dynrun --explain=ids` prints it.

#include <cstdint>
#include <string>
#include <string_view>

namespace dynrun::report {

#define DYNRUN_BREAKS(X)                                                                                                          \
  X(opaque_call, "opaque-call", "a call into code that dynrun cannot see through", "move the call out of the hot function, or call it on plain values before or after") \
  X(opaque_operation, "opaque-operation", "an operation that dynrun does not record yet", "move it out of the hot function")      \
  X(data_dependent_bool, "data-dependent-bool", "a branch on a tensor's value", "use torch.where, or compute the condition outside") \
  X(data_dependent_operator, "data-dependent-operator", "an operator whose result's shape or number depends on tensor data",       \
    "keep such values in tensors")                                                                                                \
  X(unknown_object, "unknown-object", "an object of unknown provenance", "make it inside the function, or pass it in")            \
  X(unsupported_tensor, "unsupported-tensor", "a tensor of a layout or subclass that is not recorded", "use strided tensors")     \
  X(write_then_raise, "write-then-raise", "an operator that may raise follows a write to an outside tensor", "write last")        \
  X(read_after_write, "read-after-write", "a container from outside is read as a whole after it was written", "read first")       \
  X(write_after_output, "write-after-output", "a tensor is written after something was printed", "print last")                      \
  X(raise, "raise", "an exception is raised", "none needed where it is rare; else ask first, do not catch")                                                     \
  X(loop, "loop", "the next turn of a loop whose iterator is from outside the segment", "mend the break in the loop's body, if there is one; or make the iterator in the function; else the cost is the iterator's own") \
  X(generator, "generator", "a generator or coroutine of the program's own", "use a list where speed matters")                    \
  X(changing_number, "changing-number", "a number that is another one on every call (a clock's, a random one, a tensor's item) decides something", \
    "keep such numbers out of conditions, sizes and containers")                                                                  \
  X(size_cap, "size-cap", "the segment reached its size limit", "none needed: the next segment takes over")                       \
  X(asked_for, "graph-break", "a break that the program asks for with dynrun.graph_break()", "remove the call")                     \
  X(disabled, "disabled", "a call of a function that dynrun.disable or torch.compiler.disable was given", "remove the decorator") \
  X(scope, "scope", "a call of code that is compiled in another way: by another back end, or with fullgraph", "compile the caller, too: compiled functions that it calls are parts of it") \
  X(stress, "stress", "a break asked for by --stress=break", "none")

enum class BreakId : std::uint8_t {
#define X(name, id, what, cure) k_##name,
  DYNRUN_BREAKS(X)
#undef X
};

struct BreakInfo {
  const char *id, *what, *cure;
};
/// `detail`: what was met (trace::Break). Some have words and a cure of their own.
BreakInfo break_info(BreakId id, std::string_view detail);

/// The table for people: a line an id, with what it means and the cure.
std::string ids_text();

}  // namespace dynrun::report
