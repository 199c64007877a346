// How views are found: the recorded operator is run on meta tensors that have the recorded layout over a stand-in storage. If
// the result has that storage, it is a view, and its sizes, strides and offset are what torch itself computed. So no operator's
// view rule is written down here, and composite operators that sometimes return their argument (contiguous, to, reshape,
// dropout) are seen for what they do.

#include "lowering/passes/passes.h"

#include "graph/operators.h"
#include "graph/visit.h"
#include "runtime/dispatch.h"

#include <ATen/ATen.h>

#include <array>
#include <unordered_set>

namespace dynrun::lowering {
namespace {

using graph::Argument;
using graph::kNoValue;
using graph::Node;
using graph::TensorType;
using graph::ValueId;

class Functionaliser {
 public:
  Functionaliser(const graph::Graph& source, c10::ArrayRef<at::Tensor> examples, const Options& options) : source_(source) {
    program_.graph.values = source.values;
    program_.graph.inputs = source.inputs;
    program_.graph.sources = source.sources;
    program_.examples = examples.vec();
    program_.folded.assign(source.inputs.size(), false);
    program_.options = &options;
    for (ValueId id : source.outputs) program_.output_types.push_back(id == kNoValue ? TensorType() : source.type_of(id));
    defined_.assign(source.values.size(), false);
    for (const graph::Input& input : source.inputs) {
      defined_[index(input.value)] = true;
      outside_.insert(input.value);
    }
  }

  Program run() {
    for (const Node& node : source_.nodes) {
      Node renamed = rename(node);
      if (!writes_argument(node)) drop_earlier(node, renamed);
      if (!take_identity(node, renamed) && !take_view(renamed) && !take_write(renamed)) append(std::move(renamed));
      for (ValueId id : node.outputs) {
        if (id != kNoValue) defined_[index(id)] = true;
      }
    }
    for (ValueId id : source_.outputs) program_.graph.outputs.push_back(id == kNoValue ? kNoValue : current(id));
    choose_mode();
    unlearn_written();
    return std::move(program_);
  }

 private:
  static std::size_t index(ValueId id) { return static_cast<std::size_t>(id); }

  /// Autograd remembers the modes under which a view was made, and refuses writes by them. One run makes all of its views under one mode.
  void choose_mode() {
    if (!source_.nodes.empty()) program_.mode = source_.nodes.front().mode;
    std::optional<graph::Mode> mode;
    for (ValueId id : program_.graph.outputs) {
      auto view = id == kNoValue ? program_.views.end() : program_.views.find(id);
      if (view == program_.views.end() || view->second.origin.detach == runtime::Detach::kLast) continue;
      const ViewOrigin& origin = view->second.origin;
      program_.hidden_alias |= origin.mixed || origin.several || (mode && origin.mode && !same_mode(*mode, *origin.mode));
      if (!mode) mode = origin.mode;
    }
    if (mode) program_.mode = *mode;
  }

  static bool same_mode(const graph::Mode& a, const graph::Mode& b) { return a.grad_enabled == b.grad_enabled && a.inference == b.inference; }

  ViewOrigin origin_of(const Node& node) const {
    ViewOrigin origin;
    if (!node.arguments.empty() && node.arguments[0].is_value()) {
      if (auto of = program_.views.find(node.arguments[0].value()); of != program_.views.end()) origin = of->second.origin;
    }
    const std::string_view name = graph::base_name(node.op);
    if (name == "detach" || name == "data") {
      origin = {};
      origin.detach = runtime::Detach::kLast;
      return origin;
    }
    if (origin.detach == runtime::Detach::kLast) origin.detach = runtime::Detach::kEarlier;
    origin.mixed = origin.mixed || (origin.mode && !same_mode(*origin.mode, node.mode));
    origin.mode = node.mode;
    origin.several = origin.several || ((node.outputs.size() > 1 || node.return_lengths[0] >= 0) && node.mode.grad_enabled && !node.mode.inference);
    return origin;
  }

  /// A parameter that is written has no content that could be read at compile time.
  void unlearn_written() {
    std::unordered_set<ValueId> written;
    for (std::size_t i = 0; i < program_.graph.nodes.size(); ++i) {
      if (!program_.writes(static_cast<std::int32_t>(i))) continue;
      visit_values(program_.graph.nodes[i], [&](ValueId id) { written.insert(program_.root(id)); });
    }
    for (graph::Input& input : program_.graph.inputs) {
      if (written.count(input.value) != 0) input.kind = graph::InputKind::kActivation;
    }
  }

  /// The value that now holds what `id` stands for: writes give a buffer's root a successor, and its views follow it.
  ValueId current(ValueId id) {
    auto view = program_.views.find(id);
    if (view == program_.views.end()) {
      auto found = latest_.find(id);
      return found == latest_.end() ? id : found->second;
    }
    auto found = latest_.find(view->second.root);
    if (found == latest_.end() || found->second == view->second.root) return id;
    ValueId root = found->second;
    auto key = std::make_pair(id, root);
    for (const auto& [known, moved] : moved_views_) {
      if (known == key) return moved;
    }
    View one = view->second;
    one.root = root;
    ValueId moved = program_.add_value(program_.graph.type_of(id), program_.graph.values[index(id)].name);
    program_.views.emplace(moved, one);
    moved_views_.emplace_back(key, moved);
    return moved;
  }

  Argument rename(const Argument& argument) {
    if (argument.is_value()) return argument.value() == kNoValue ? argument : Argument::reference(current(argument.value()));
    if (!argument.is_list()) return argument;
    std::vector<Argument> items;
    for (const Argument& item : argument.items()) items.push_back(rename(item));
    return Argument::list(std::move(items));
  }

  /// Compiled code casts weights itself: who runs it knows when it may (trace/autocast.h).
  static Node with_own_cast(const Node& node) {
    if (node.op_name() != "dynrun::cached_cast") return node;
    static const auto convert = c10::Dispatcher::singleton().findSchemaOrThrow("aten::to", "dtype");
    Node out = node;
    out.op = convert;
    for (const c10::IValue& rest : {c10::IValue(false), c10::IValue(false), c10::IValue()}) out.arguments.push_back(Argument::constant(rest));
    return out;
  }

  Node rename(const Node& node) {
    Node out = with_own_cast(node);
    for (Argument& argument : out.arguments) argument = rename(argument);
    return out;
  }

  /// A result of a write that is an earlier value is what that value is by now.
  void append(Node node) {
    for (ValueId& id : node.outputs) {
      if (id != kNoValue && index(id) < defined_.size() && defined_[index(id)]) id = current(id);
    }
    program_.graph.nodes.push_back(std::move(node));
  }

  static bool writes_argument(const Node& node) {
    for (const c10::Argument& formal : node.op.schema().arguments()) {
      if (formal.alias_info() != nullptr && formal.alias_info()->isWrite()) return true;
    }
    return false;
  }

  /// A pure operator all of whose results are tensors that existed before (`x.contiguous()` of a contiguous x) did nothing.
  bool take_identity(const Node& node, const Node& renamed) const {
    if (node.outputs.empty() || writes_argument(renamed)) return false;
    return std::all_of(node.outputs.begin(), node.outputs.end(),
                       [&](ValueId id) { return id != kNoValue && defined_[index(id)]; });
  }

  /// Of the results of an operator that writes nothing, some may be its arguments themselves (`broadcast_tensors`): nobody makes these.
  void drop_earlier(const Node& node, Node& renamed) const {
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != kNoValue && defined_[index(node.outputs[i])]) renamed.outputs[i] = kNoValue;
    }
  }

  static bool may_alias(const Node& node) {
    if (node.op.operator_name().name == "aten::to") return false;  // its argument itself, see take_identity, or a copy
    return !writes_argument(node) && graph::may_give_argument(node.op);
  }

  at::Tensor meta_tensor(ValueId id, std::unordered_map<ValueId, at::Tensor>& roots) {
    ValueId root = program_.root(id);
    const TensorType& type = program_.graph.type_of(id);
    const TensorType& base = program_.graph.type_of(root);
    at::Tensor& storage = roots[root];
    if (!storage.defined()) {
      storage = at::empty_strided(base.sizes, base.strides, at::TensorOptions().dtype(base.dtype).device(at::kMeta));
    }
    if (id == root) return storage;
    if (base.dtype != type.dtype) throw std::runtime_error("a view of another dtype");
    return storage.as_strided(type.sizes, type.strides, program_.views.at(id).offset);
  }

  /// Runs the node on meta tensors; gives its results, or nothing where torch cannot.
  bool run_on_meta(const Node& node, std::unordered_map<ValueId, at::Tensor>& roots,
                   std::unordered_map<ValueId, at::Tensor>& results) {
    try {
      at::NoGradGuard no_grad;
      torch::jit::Stack stack;
      c10::IValue scratch;
      runtime::push_arguments(
          node, [&](ValueId id) -> const c10::IValue& { return scratch = meta_tensor(id, roots); }, stack);
      node.op.callBoxed(stack);
      runtime::take_results(node, stack, [&](ValueId id, c10::IValue result) { results[id] = result.toTensor(); });
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  /// as_strided with an offset counts from the storage's start. Where an outside tensor lies in its storage is known to the
  /// replay alone, so the operator itself has to find the place.
  bool has_unknown_offset(const Node& node) const {
    return node.op.operator_name().name == "aten::as_strided" && node.arguments[0].is_value() && !(node.arguments[3].is_constant() && node.arguments[3].constant().isNone()) &&
           outside_.count(program_.root(node.arguments[0].value())) != 0;
  }

  static bool shares_memory(const std::unordered_map<ValueId, at::Tensor>& roots, const std::unordered_map<ValueId, at::Tensor>& results) {
    for (const auto& [id, result] : results) {
      for (const auto& [root, storage] : roots) {
        if (result.defined() && result.is_alias_of(storage)) return true;
      }
    }
    return false;
  }

  bool take_view(const Node& node) {
    // Views of tensors whose sizes depend on data are made by the operator itself; what they show is not written (the recorder sees to it).
    if (!may_alias(node) || node.outputs.empty() || graph::touches_unsized(program_.graph, node)) return false;
    if (has_unknown_offset(node)) {
      program_.hidden_alias = true;  // of an input, in a place that no view tells
      return false;
    }
    std::unordered_map<ValueId, at::Tensor> roots, results;
    if (!run_on_meta(node, roots, results)) {
      program_.hidden_alias = true;
      return false;
    }
    std::unordered_map<ValueId, View> found;
    const ViewOrigin origin = origin_of(node);
    auto no_view = [&] {
      program_.hidden_alias |= shares_memory(roots, results);
      return false;
    };
    for (const auto& [id, result] : results) {
      const TensorType& type = program_.graph.type_of(id);
      if (!result.defined() || result.dim() != static_cast<std::int64_t>(type.sizes.size()) || result.sizes() != type.sizes ||
          result.strides() != type.strides || result.scalar_type() != type.dtype || result.is_conj() || result.is_neg()) {
        return no_view();
      }
      for (const auto& [root, storage] : roots) {
        if (result.is_alias_of(storage) && storage.scalar_type() == type.dtype) found[id] = {root, result.storage_offset(), origin};
      }
    }
    if (found.size() != static_cast<std::size_t>(std::count_if(node.outputs.begin(), node.outputs.end(), [](ValueId id) { return id != kNoValue; }))) return no_view();
    for (const auto& [id, view] : found) {
      if (outside_.count(view.root) != 0) outside_.insert(id);
      program_.views[id] = view;
    }
    return true;
  }

  /// True when writing all of `id` writes every element of its root's buffer, in the same order.
  bool is_whole(ValueId id) const {
    auto view = program_.views.find(id);
    if (view == program_.views.end()) return true;
    return view->second.offset == 0 && program_.graph.type_of(id) == program_.graph.type_of(view->second.root);
  }

  std::optional<c10::OperatorHandle> functional_variant(const Node& node) const {
    const c10::OperatorName& name = node.op.operator_name();
    if (name.name.size() < 2 || name.name.back() != '_' || name.name.substr(0, 6) != "aten::" ||
        name.name.find("_foreach") != std::string::npos) {
      return std::nullopt;
    }
    if (node.op.hasTag(at::Tag::nondeterministic_seeded) && name.name != "aten::dropout_") return std::nullopt;
    auto found = c10::Dispatcher::singleton().findSchema({name.name.substr(0, name.name.size() - 1), name.overload_name});
    if (!found || found->schema().arguments().size() != node.op.schema().arguments().size() ||
        found->schema().returns().size() != 1) {
      return std::nullopt;
    }
    for (const c10::Argument& formal : found->schema().arguments()) {
      if (formal.alias_info() != nullptr) return std::nullopt;
    }
    return *found;
  }

  /// Dropout outside of training.
  static bool does_nothing(const Node& node) {
    return node.op.operator_name().name == "aten::dropout_" && node.arguments[2].is_constant() && !node.arguments[2].constant().toBool();
  }

  bool take_write(Node& node) {
    if (!writes_argument(node)) return false;
    if (node.outputs.size() != 1 || node.outputs[0] == kNoValue || node.arguments.empty() || !node.arguments[0].is_value())
      return false;
    const auto& formals = node.op.schema().arguments();
    for (std::size_t i = 1; i < formals.size(); ++i) {
      if (formals[i].alias_info() != nullptr && formals[i].alias_info()->isWrite()) return false;
    }
    if (formals[0].alias_info() == nullptr || !formals[0].alias_info()->isWrite()) return false;
    if (does_nothing(node)) return true;
    ValueId written = node.arguments[0].value();
    ValueId root = program_.root(written);
    if (program_.root(current(node.outputs[0])) != root || !is_whole(written) || outside_.count(root) != 0)
      return keep_write(node);
    auto variant = functional_variant(node);
    if (!variant) return keep_write(node);
    ValueId next = program_.add_value(program_.graph.type_of(root), program_.graph.values[index(root)].name);
    node.op = *variant;
    node.outputs = {next};
    append(std::move(node));
    for (auto& [first, last] : latest_) {
      if (last == root) last = next;
    }
    latest_[root] = next;
    return true;
  }

  bool keep_write(Node& node) {
    node.outputs[0] = node.arguments[0].value();
    append(std::move(node));
    return true;
  }

  const graph::Graph& source_;
  Program program_;
  std::vector<bool> defined_;
  std::unordered_set<ValueId> outside_;          // inputs and views of them
  std::unordered_map<ValueId, ValueId> latest_;  // a written root, and the value that took its place
  std::vector<std::pair<std::pair<ValueId, ValueId>, ValueId>> moved_views_;
};

}  // namespace

Program functionalise(const graph::Graph& graph, c10::ArrayRef<at::Tensor> examples, const Options& options) {
  return Functionaliser(graph, examples, options).run();
}

}  // namespace dynrun::lowering
