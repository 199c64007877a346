#include "lowering/picture.h"

#include "graph/text.h"

#include <map>

namespace dynrun::lowering {
namespace {

using graph::ValueId;
using runtime::SlotKind;

std::string name_of(const Program& program, ValueId id) { return "%" + program.graph.values[static_cast<std::size_t>(id)].name; }

/// The operators of the nodes that define the group's values, in program order.
std::vector<std::string> operators_of(const Program& program, const Uses& uses, const FusionGroup& group) {
  std::vector<std::string> names;
  for (const Definition& definition : group.definitions) {
    const std::int32_t producer = uses.producer(definition.value);
    if (producer >= 0) names.push_back(program.graph.nodes[static_cast<std::size_t>(producer)].op_name());
  }
  return names;
}

Picture::Step step_of(const Program& program, const Uses& uses, const Unit& unit, int kernel) {
  Picture::Step step;
  if (unit.is_kernel()) {
    step.kind = "kernel";
    step.name = "kernel " + std::to_string(kernel);
    step.operators = operators_of(program, uses, std::get<FusionGroup>(unit.what));
    return step;
  }
  std::vector<std::int32_t> nodes;
  if (unit.is_library()) {
    nodes = std::get<LibraryKernel>(unit.what).nodes;
  } else {
    nodes = {std::get<std::int32_t>(unit.what)};
  }
  step.kind = unit.is_library() ? "library" : "dispatch";
  for (std::int32_t node : nodes) step.operators.push_back(program.graph.nodes[static_cast<std::size_t>(node)].op_name());
  return step;
}

std::vector<Picture::Buffer> buffers_of(const Program& program, const runtime::Plan& plan, const Lives& lives, const std::function<ValueId(ValueId)>& owner) {
  std::map<ValueId, Picture::Buffer> found;  // by owner
  for (std::size_t i = 0; i < plan.slots.size(); ++i) {
    const runtime::SlotPlan& slot = plan.slots[i];
    if ((slot.kind != SlotKind::kArena && slot.kind != SlotKind::kFresh) || slot.type.unsized || lives.first[i] < 0) continue;
    const auto id = static_cast<ValueId>(i);
    auto [place, added] = found.try_emplace(owner(id));
    Picture::Buffer& buffer = place->second;
    if (added) buffer = {"", 0, slot.kind == SlotKind::kArena ? slot.arena_offset : -1, lives.first[i], lives.last[i]};
    buffer.content += (added ? "" : ", then ") + name_of(program, id) + ": " + graph::print_type(slot.type);
    buffer.bytes = std::max(buffer.bytes, buffer_bytes(slot.type));
    buffer.first = std::min(buffer.first, lives.first[i]);
    buffer.last = std::max(buffer.last, lives.last[i]);
  }
  std::vector<Picture::Buffer> buffers;
  for (auto& [id, buffer] : found) buffers.push_back(std::move(buffer));
  return buffers;
}

}  // namespace

Picture picture_of(const Program& program, const std::vector<Unit>& units, const runtime::Plan& plan, const Lives& lives,
                   const std::function<ValueId(ValueId)>& owner) {
  Picture picture;
  const Uses uses(program);
  int kernels = 0;
  for (std::size_t i = 0; i < units.size(); ++i) {
    picture.steps.push_back(step_of(program, uses, units[i], kernels));
    if (units[i].is_kernel()) kernels++;
    if (!units[i].is_kernel()) picture.steps.back().name = plan.actions[i].step->describe();
  }
  picture.buffers = buffers_of(program, plan, lives, owner);
  picture.arena_bytes = plan.arena_bytes;
  return picture;
}

}  // namespace dynrun::lowering
