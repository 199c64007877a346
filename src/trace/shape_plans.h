#pragma once
// A segment for many sizes: what it needs to know of each choice of them before it runs.
//
// Sizes of computed tensors are found by running the graph on tensors without memory (the Meta device), once for each choice of
// the sizes and numbers that they follow from; the answer is kept as a plan. A plan fits where every value has as many dimensions
// as in the recording, the same ones of no element, and lies as it has to (plan_layouts.h). Where no plan fits, the segment does not
// apply. Needs the GIL.

#include "trace/plan_layouts.h"
#include "trace/plan_pace.h"
#include "trace/segment.h"

#include <list>
#include <map>
#include <set>

namespace dynrun::trace {

/// One choice of sizes.
struct ShapePlan : std::enable_shared_from_this<ShapePlan> {
  bool fits = false;
  std::vector<std::int64_t> answers;               // to the kValueSize steps of the host program, in order
  std::vector<graph::TensorType> output_types;     // of the graph's outputs
  SmallSizes small;
  int runs = 0, refined_at = 0;  // the run at which code was last made
  std::shared_ptr<graph::Graph> graph;             // with these sizes, once it is compiled
  Code code;
};

class ShapeWalk;

class ShapePlans {
 public:
  /// `open`: sources of tensors whose sizes are open. `sized`: values of `host` that decide sizes.
  ShapePlans(const HostProgram& host, std::vector<guards::SourceId> open, std::vector<HostId> sized, PlanLayouts layouts);

  /// Runs the host program behind guards that hold. The plan for what it was given, or null where the segment does not apply.
  std::shared_ptr<ShapePlan> find(const Segment& segment, const std::vector<PyObject*>& registers, std::vector<python::Ref>& hosts);
  /// Why the segment does not apply, behind guards that hold.
  guards::Miss explain_miss(const Segment& segment, const std::vector<PyObject*>& registers) const;
  /// The graph with the sizes of this choice.
  std::shared_ptr<graph::Graph> concrete(const Segment& segment, const std::vector<at::Tensor>& inputs) const;
  /// Runs the operators at any sizes, for plans that are not compiled; the engine's.
  std::shared_ptr<runtime::Executable> operators;
  /// What the code of all plans has in common; the engine's.
  std::unique_ptr<runtime::LoweringState> lowering_state;
  PlanPace pace;
  /// Of the plans that are compiled, so many stay so.
  void note_lowered(ShapePlan& plan);
  /// The recorded graph with the numbers among `inputs` in the places of the host values `sized`. Others stay inputs: they may
  /// be other numbers at the same sizes.
  static std::shared_ptr<graph::Graph> with_numbers(const Segment& segment, const std::vector<at::Tensor>& inputs, const std::vector<HostId>& sized);

  /// Whether a host value follows from sizes of open tensors alone.
  static bool follows_from_sizes(const HostProgram& host, HostId id) { return follow_from(host, {id}, {}); }

 private:
  using Key = std::vector<std::int64_t>;
  std::optional<Key> key(const std::vector<PyObject*>& registers) const;
  std::shared_ptr<ShapePlan> known_plan(const Key& key);
  std::shared_ptr<ShapePlan> make_plan(const Segment& segment, ShapeWalk& walk, const std::vector<python::Ref>& hosts);
  std::shared_ptr<ShapePlan> find_by_values(const Segment& segment, const std::vector<PyObject*>& registers, std::vector<python::Ref>& hosts);
  void keep(Key key, std::shared_ptr<ShapePlan> plan);
  void add_open_sizes(Key& key, const std::vector<PyObject*>& registers) const;

  using Sources = std::set<guards::SourceId>;
  static bool follow_from(const HostProgram& host, const std::vector<HostId>& ids, const Sources& sources);
  std::vector<HostId> settled(const Segment& segment) const;

  std::vector<guards::SourceId> open_;
  std::vector<HostId> sized_;
  Sources sized_by_;         // what the host values that decide sizes follow from
  bool drawn_ = false;       // they follow from a random generator, too
  PlanLayouts layouts_;
  std::map<Key, std::pair<std::shared_ptr<ShapePlan>, std::list<Key>::iterator>> plans_;
  std::vector<std::weak_ptr<ShapePlan>> lowered_;  // the last first
  std::list<Key> recent_;  // the last used first
};

/// Whether the recorded types are what the graph gives on tensors without memory: else it can have no plans. `inputs`: the recording's.
bool may_have_plans(const Segment& segment, const std::vector<at::Tensor>& inputs);

}  // namespace dynrun::trace
