#pragma once
// The place where CPython hands its frames over (PEP 523).

namespace dynrun::vm {

/// Whether CPython asks the VM for each new frame now. It does not with --vm=off, nor inside a frame that was begun under a tracer:
/// what C code calls there nobody sees, and nothing may be recorded.
bool sees_frames();

/// Whether another one's evaluator stands where CPython hands frames over: torch._dynamo at work, which has to see the calls that are made now.
bool is_displaced();

/// While it lives CPython runs new frames itself and inlines their calls: for library code that a replay calls and that nobody would
/// record. Does nothing where a second thread has frames, or where every frame is to run in the VM.
class PlainFrames {
 public:
  PlainFrames();
  ~PlainFrames();
  PlainFrames(const PlainFrames&) = delete;
  PlainFrames& operator=(const PlainFrames&) = delete;

 private:
  bool off_;
};

/// From here on CPython asks for new frames again, whatever is to run plain: what runs next is to be recorded.
void see_frames_again();

}  // namespace dynrun::vm
