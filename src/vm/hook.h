#pragma once
// The place where CPython hands its frames over (PEP 523).

namespace dynrun::vm {

/// Whether CPython asks the VM for each new frame now. It does not with --vm=off, nor inside a frame that was begun under a tracer:
/// what C code calls there nobody sees, and nothing may be recorded.
bool sees_frames();

}  // namespace dynrun::vm
