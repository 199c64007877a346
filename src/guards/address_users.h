#pragma once
// Code that asks where tensors lie only to tell which of them share memory: torch.save, safetensors, transformers, torch.nn.RNN.

namespace dynrun::guards {

/// Whether the address that the running code is about to be given goes no further than such code. Needs the GIL.
bool only_compares_addresses();

}  // namespace dynrun::guards
