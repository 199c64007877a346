// When the code for one choice of sizes is made, of a segment for many.

#include "engine/engine.h"
#include "lowering/shared.h"
#include "runtime/undo_log.h"
#include "trace/shape_plans.h"
#include "trace/sure_sizes.h"

#include <algorithm>
#include <chrono>

namespace dynrun::engine {

namespace {

/// Whether what was found of indices at the sizes of the recording is so at these.
bool proofs_hold(const trace::Segment& segment, const std::vector<at::Tensor>& inputs) {
  if (segment.proofs.empty()) return true;
  const std::shared_ptr<graph::Graph> graph = segment.shapes->concrete(segment, inputs);
  return graph && std::all_of(segment.proofs.begin(), segment.proofs.end(), [&](const graph::RangeProof& proof) { return graph::holds(*graph, proof); });
}

lowering::Shared& shared_of(trace::Segment& segment) {
  std::unique_ptr<runtime::LoweringState>& state = segment.shapes->lowering_state;
  if (!state) state = std::make_unique<lowering::Shared>(segment.graph);
  return static_cast<lowering::Shared&>(*state);
}

/// What is compiled for a GPU is measured whole, in every way that there is: not in haste.
bool is_on_cpu(const graph::Graph& graph) {
  return std::all_of(graph.values.begin(), graph.values.end(), [](const graph::Value& value) { return !value.is_tensor() || value.tensor().device.is_cpu(); });
}

/// Whether code may be made before the operators have run at these sizes, which might raise.
bool sizes_are_sure(const trace::Segment& segment, trace::ShapePlan& plan, const std::vector<at::Tensor>& inputs) {
  if (!plan.graph) plan.graph = segment.shapes->concrete(segment, inputs);
  return plan.graph && trace::sizes_are_sure(*segment.graph, *plan.graph);
}

}  // namespace

void Engine::prepare_plan(trace::Segment& segment, trace::ShapePlan& plan, const std::vector<at::Tensor>& inputs) {
  std::shared_ptr<runtime::Executable>& operators = segment.shapes->operators;
  if (!operators) operators = segment.writes_outside && runtime::UndoLog::covers(*segment.graph) ? runtime::make_undoing_replayer(segment.graph) : runtime::make_replayer(segment.graph);
  if (!plan.code.executable) {
    plan.code.executable = operators;
    plan.code.expected = plan.output_types;
    plan.code.untried = segment.writes_outside;
    plan.code.unproven = !proofs_hold(segment, inputs);
  }
  if (plan.code.failed && !plan.code.lowered) plan.runs = 0;  // at these sizes operators raise or warn: compiled code might not
  plan.runs++;
  if (segment.backend != 0) plan.code.executable = segment.code.executable;
  if (segment.backend != 0 || stress(kDynrunStressExtern) || !plan.code.as_expected || plan.code.untried || (plan.code.unproven && operators->undoes())) return;
  constexpr int kRunsBefore = 2, kRefinedEvery = 2;
  const bool refine = plan.code.guessed && plan.runs > kRefinedEvery * plan.refined_at;
  if (plan.code.lowered && !refine) return refresh_folded(plan.code, *plan.graph, inputs, &shared_of(segment));
  trace::PlanPace& pace = segment.shapes->pace;
  const bool at_once = plan.runs < kRunsBefore && !plan.code.failed && !plan.code.unproven && pace.is_known(plan.small) && is_on_cpu(*segment.graph) &&
                       (stress(kDynrunStressFirst) || pace.pays_at_once()) && sizes_are_sure(segment, plan, inputs);
  if (plan.runs >= kRunsBefore || at_once) lower_plan(segment, plan, inputs, at_once);
}

void Engine::lower_plan(trace::Segment& segment, trace::ShapePlan& plan, const std::vector<at::Tensor>& inputs, bool guess) {
  const auto start = std::chrono::steady_clock::now();
  if (!plan.graph) plan.graph = segment.shapes->concrete(segment, inputs);
  if (!plan.graph) return;
  plan.code.expected.clear();
  plan.refined_at = plan.runs;
  const bool is_first = !plan.code.lowered;
  lower(plan.code, *plan.graph, inputs, &shared_of(segment), guess);
  if (is_first) segment.shapes->note_lowered(plan);
  if (guess) segment.shapes->pace.note_lowering(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

}  // namespace dynrun::engine
