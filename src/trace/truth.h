#pragma once
// Branches on the value of a tensor: the segment ends before them, and its truth is read without torch's dispatcher.

#include "vm/machine.h"

namespace dynrun::trace {

/// Where the instruction to run next asks for the truth of a plain tensor on the CPU with one element (a conditional jump, `not`,
/// bool()), puts True or False in its place, which gives the same. Whether it did. Needs the GIL.
bool settle_truth(vm::Activation& activation);

}  // namespace dynrun::trace
