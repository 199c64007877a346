// Indices that are looked at early. An operator that takes a tensor of indices may find one out of range, and a segment that has
// written outside by then could not be taken back. Indices that were found by going through a dimension (`topk`, `argmax`) lie in
// range whatever the data is. Where others do not depend on what was written (positions in a cache, by a counter of each layer),
// they are checked in front of the first write, and the operator cannot raise any more.

#include "graph/operators.h"
#include "graph/visit.h"
#include "trace/operator_recorder.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <set>

namespace dynrun::trace {
namespace {

constexpr std::size_t kMostNodes = 64;

/// Raises IndexError where an index is not one of the dimension's.
void require_range(const at::Tensor& index, const at::Tensor& of, std::int64_t dimension) {
  const std::int64_t size = of.dim() == 0 ? 1 : of.size(dimension);
  const at::Tensor places = index.scalar_type() == at::kLong ? index.contiguous() : index.to(at::kLong).contiguous();
  const std::int64_t* from = places.const_data_ptr<std::int64_t>();
  const bool all = std::all_of(from, from + places.numel(), [&](std::int64_t place) { return place >= 0 && place < size; });
  TORCH_CHECK_INDEX(all, "an index is out of range of a dimension of ", size);
}

TORCH_LIBRARY_FRAGMENT(dynrun, library) { library.def("require_range(Tensor index, Tensor of, int dimension) -> ()"); }
TORCH_LIBRARY_IMPL(dynrun, CompositeExplicitAutograd, library) { library.impl("require_range", require_range); }

/// Where the operator takes the tensor that is indexed, the dimension (negative: it is always the first) and the indices.
struct Places {
  std::size_t of;
  int dimension;
  std::size_t index;
};

std::optional<Places> places_of(std::string_view name) {
  if (name == "index_copy" || name == "index_select" || name == "gather" || name == "scatter") return Places{0, 1, 2};
  if (name == "embedding") return Places{0, -1, 1};
  if (name == "take_along_dim") return Places{0, 2, 1};
  return std::nullopt;
}

/// Operators whose results follow from their arguments and that never raise for their data.
bool is_harmless(const graph::Node& node) {
  static const std::set<std::string_view> names = {"arange", "full", "zeros", "ones", "full_like", "zeros_like", "ones_like", "to", "expand", "unsqueeze", "squeeze", "view", "reshape", "alias",
                                                   "slice", "where", "rsub"};
  const std::string_view name = graph::base_name(node.op), overload = node.op.operator_name().overload_name;
  if (node.op.schema().is_mutable() || node.op.hasTag(at::Tag::nondeterministic_seeded)) return false;
  if (name == "div") return overload == "Tensor" || overload == "Scalar";  // of integers too a true division
  return names.count(name) != 0 || graph::is_elementwise(name) || ((name == "min" || name == "max") && overload == "other");
}

bool gives(const graph::Node& node, graph::ValueId id) { return std::find(node.outputs.begin(), node.outputs.end(), id) != node.outputs.end(); }

bool gives_its_arguments(const graph::Node& node) {
  std::set<graph::ValueId> arguments;
  graph::visit_values(node, [&](graph::ValueId id) { arguments.insert(id); });
  return std::all_of(node.outputs.begin(), node.outputs.end(), [&](graph::ValueId id) { return arguments.count(id) != 0; });
}

}  // namespace

graph::ValueId OperatorRecorder::value_of(const at::Tensor& tensor) {
  const graph::ValueId id = find(tensor);
  return id == graph::kNoValue && resolve_outside ? resolve_outside(tensor) : id;
}

bool OperatorRecorder::is_input(graph::ValueId id) const {
  return std::any_of(graph_->inputs.begin(), graph_->inputs.end(), [&](const graph::Input& input) { return input.value == id; });
}

/// The nodes that a value needs, in order, if all of them give before anything outside is written what they give where they stand.
std::optional<std::vector<std::size_t>> OperatorRecorder::nodes_before_writes(graph::ValueId wanted) const {
  std::set<graph::ValueId> needed = {wanted};
  std::vector<std::size_t> nodes;
  // `reader`: the last node that reads the value, which was not written before that.
  auto is_unwritten = [&](graph::ValueId id, std::size_t reader) {
    const at::Tensor live = tensor(id);
    if (!live.defined() || !live.has_storage()) return host_inputs_.count(id) != 0;
    auto written = written_at_.find(live.storage().unsafeGetStorageImpl());
    return written == written_at_.end() || written->second > reader;
  };
  auto is_written_inside = [&](graph::ValueId id) {
    auto storage = storage_of_.find(id);
    return storage != storage_of_.end() && written_inside_.count(storage->second) != 0;
  };
  if (is_input(wanted) && !is_unwritten(wanted, graph_->nodes.size())) return std::nullopt;
  for (std::size_t i = graph_->nodes.size(); i-- > 0;) {
    const graph::Node& node = graph_->nodes[i];
    if (std::none_of(needed.begin(), needed.end(), [&](graph::ValueId id) { return gives(node, id); })) continue;
    if (!node.op.schema().is_mutable() && gives_its_arguments(node)) continue;  // `to` of what is there already
    if (!is_harmless(node) || nodes.size() >= kMostNodes) return std::nullopt;
    if (std::any_of(node.outputs.begin(), node.outputs.end(), is_written_inside)) return std::nullopt;
    nodes.push_back(i);
    bool unwritten = true;
    // A view shows what is written later.
    const std::size_t read_until = graph::is_elementwise(graph::base_name(node.op)) ? i : graph_->nodes.size();
    graph::visit_values(node, [&](graph::ValueId id) {
      needed.insert(id);
      unwritten = unwritten && (!is_input(id) || is_unwritten(id, read_until));
    });
    if (!unwritten) return std::nullopt;
  }
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

/// Whether the operator raises for nothing but indices out of range, and these are always in range or are checked before anything
/// outside is written.
bool OperatorRecorder::is_checked_early(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first) {
  const auto places = places_of(graph::base_name(op));
  if (!places || !reshaped_.empty() || !host_arguments.empty()) return false;
  const c10::IValue &of = stack[first + places->of], &index = stack[first + places->index];
  const c10::IValue along = places->dimension < 0 ? c10::IValue(0) : stack[first + static_cast<std::size_t>(places->dimension)];
  if (!along.isInt()) return false;
  const std::int64_t dimension = along.toInt();
  if (!of.isTensor() || !index.isTensor() || !c10::isIntegralType(index.toTensor().scalar_type(), false) || !index.toTensor().device().is_cpu()) return false;
  const graph::ValueId of_id = value_of(of.toTensor()), index_id = value_of(index.toTensor());
  if (of_id == graph::kNoValue || index_id == graph::kNoValue || is_unsized(index_id)) return false;
  const graph::RangeProof proof{index_id, of_id, dimension};
  if (!is_unsized(of_id) && graph::holds(*graph_, proof)) {
    proofs_.push_back(proof);
    return true;
  }
  auto nodes = nodes_before_writes(index_id);
  auto indexed = is_input(of_id) ? std::optional(std::vector<std::size_t>()) : nodes_before_writes(of_id);  // an input's size stays
  if (!nodes || !indexed) return false;
  nodes->insert(nodes->end(), indexed->begin(), indexed->end());
  const bool known = std::any_of(checks_.begin(), checks_.end(), [&](const RangeCheck& one) { return one.index == index_id && one.of == of_id && one.dimension == dimension; });
  if (!known) checks_.push_back({index_id, of_id, dimension, std::move(*nodes)});
  return true;
}

void OperatorRecorder::hoist_checks() {
  if (checks_.empty()) return;
  static const auto require = c10::Dispatcher::singleton().findSchemaOrThrow("dynrun::require_range", "");
  auto earliest = std::min_element(written_at_.begin(), written_at_.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const std::size_t first = earliest->second;
  std::set<std::size_t> moved;
  for (const RangeCheck& check : checks_) {
    std::copy_if(check.nodes.begin(), check.nodes.end(), std::inserter(moved, moved.end()), [&](std::size_t node) { return node >= first; });
  }
  std::vector<graph::Node> nodes(std::make_move_iterator(graph_->nodes.begin()), std::make_move_iterator(graph_->nodes.begin() + static_cast<std::ptrdiff_t>(first)));
  for (std::size_t node : moved) nodes.push_back(graph_->nodes[node]);
  const graph::Node& write = graph_->nodes[first];
  for (const RangeCheck& check : checks_) {
    nodes.push_back({require, {graph::Argument::reference(check.index), graph::Argument::reference(check.of), graph::Argument::constant(check.dimension)}, {}, {}, write.mode, write.source});
  }
  for (std::size_t i = first; i < graph_->nodes.size(); i++) {
    if (moved.count(i) == 0) nodes.push_back(std::move(graph_->nodes[i]));
  }
  graph_->nodes = std::move(nodes);
}

}  // namespace dynrun::trace
