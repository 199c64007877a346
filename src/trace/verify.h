#pragma once
// --verify: what compiled code gives is compared with what its operators give, on copies of the inputs.

#include "graph/graph.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace dynrun::trace {

/// A replay that does not do what the operators do: our bug, said at once.
struct VerifyError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Says what was found, and ends the program.
[[noreturn]] void end_program(const std::string& problem);

/// Copies of the inputs before the run, with the sharing among them kept. `only_read`: by input, whether it may stand for itself.
std::vector<at::Tensor> snapshot(const std::vector<at::Tensor>& inputs, const std::vector<bool>& only_read = {});

/// Runs the recorded operators on the copies and compares: outputs, and what was written. Throws VerifyError.
void verify_outputs(const std::shared_ptr<const graph::Graph>& graph, const std::vector<at::Tensor>& copies, const std::vector<at::Tensor>& outputs);

/// A replay that raised must not have written anything, because its code runs again: ends the program where it has. `copies`: what
/// the inputs were.
void verify_unwritten(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& copies);

}  // namespace dynrun::trace
