#pragma once
// The lines that a recording comes through, for reports: where a guard was learnt, and what a segment stands for. The line of the
// instruction at hand has a number before it is known whether anybody will ask; what nothing bears the number of is not kept.

#include "graph/graph.h"
#include "python/reference.h"

#include <cstdint>
#include <vector>

namespace dynrun::trace {

/// Holds no code object once it is ended: functions may die. Needs the GIL, as it refers to their names.
class LineLog {
 public:
  /// The instruction at a code unit begins. `told`: something bears the number of the one before.
  void begin(PyCodeObject* code, int unit, bool told);
  void end();
  /// Of the instruction at hand.
  std::int32_t number() const { return static_cast<std::int32_t>(lines_.size()); }

  std::size_t size() const { return lines_.size(); }
  /// An empty one for a number that was not kept.
  graph::SourceLine at(std::int32_t number) const;

 private:
  struct Line {
    python::Ref file, function;
    int line;
  };
  std::vector<Line> lines_;
  python::Ref code_;  // of the instruction at hand
  int unit_ = 0;
};

}  // namespace dynrun::trace
