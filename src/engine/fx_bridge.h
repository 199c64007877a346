#pragma once
// A recorded graph as plain Python data, of which dynrun/_fx.py makes a torch.fx.GraphModule.

#include "graph/graph.h"
#include "python/reference.h"

namespace dynrun::engine {

/// A dict:
///   values   (name, type) each; type is (dtype, device, sizes, strides, requires_grad, number) or the text "int", "float", "bool"
///   inputs   numbers of values
///   nodes    (operator, overload, arguments, keywords, outputs, return_lengths, mode, source) each, as graph::Node has them
///   outputs  numbers of values, None for an undefined tensor
///   sources  (file, function, line, index of the caller or -1, path and class of the module whose call it is, as "name@address", or "") each
/// In arguments a value is a tuple of its number (of None where it is undefined), a list is a list, all else is a constant.
/// Trailing arguments that are the schema's defaults are left out. Null with a Python error set where a constant has no form
/// in Python.
python::Ref describe(const graph::Graph& graph);

/// A tuple (grad, inference, autocast's device and dtype, or None).
python::Ref mode_of(const graph::Mode& mode);

}  // namespace dynrun::engine
