#pragma once
// Where a graph break is an error: --fullgraph, fullgraph=True, and torch.compile's.

#include "engine/engine.h"
#include "trace/recorder.h"

namespace dynrun::engine {

/// What is to be made of a break.
enum class Ruling {
  kBreaks,           // the program goes on
  kRefused,          // an error
  kRefusedIfTensor,  // an error once the function is known to run operators
};

/// Whether objects are being made: `base` is a constructor's frame, or one calls it.
bool constructs(const python::Frame* base);

/// `in_constructor`: constructs() of the frame that the recording began in. Of a script's own torch.compile(fullgraph=True) only what torch.compile cannot record
/// either is refused; of --fullgraph what breaks modules' forwards and the program's own functions: not in constructors, nor a library's
/// function that the program calls outside of them (an optimizer's step, a tensor's text).
Ruling rule_on(const Engine& engine, const vm::Machine& machine, const trace::Break& met, bool in_constructor);

/// Where the machine is about to raise an error for a break: the frame of the function that asked for one graph.
vm::Activation* asked_in(const Engine& engine, const vm::Machine& machine);

/// What is raised there: the class that torch.compile raises, or a RuntimeError for --fullgraph.
python::Ref fullgraph_error(const trace::Break& met, bool asked_for);

}  // namespace dynrun::engine
