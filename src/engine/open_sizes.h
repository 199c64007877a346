#pragma once
// What of a segment's inputs may be another one on a later call, as plain Python data: dynrun/_symbols.py makes SymInts of it.

#include "python/reference.h"
#include "trace/segment.h"

namespace dynrun::engine {

/// A list with an item for each input of the graph:
///   a tensor    a tuple of its open dimensions
///   a number    ("size", input, dimension), ("constant", number), ("binary", NB_ADD and the like, number, number), ("negative", number),
///               or None where it follows from nothing that the graph is given
/// Null with a Python error set.
python::Ref open_sizes(const trace::Segment& segment);

}  // namespace dynrun::engine
