#pragma once
// The dispatch key that operators are recorded and counted through must not be seen by torch's own Python code: higher-order
// operators (torch.cond, flex_attention) look for a kernel by the keys that are on.

namespace dynrun::trace {

/// Replaces `torch._C._dispatch_tls_local_include_set`, once torch is there, by one that leaves the key out. Needs the GIL.
void hide_recording_key();

}  // namespace dynrun::trace
