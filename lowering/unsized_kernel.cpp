// Which nodes make a chain. A slot is a graph value, for what runs them one by one too.

#include "lowering/unsized_kernel.h"

#include "graph/operators.h"
#include "graph/visit.h"
#include "lowering/cpu/jit.h"
#include "lowering/loops/decompose.h"
#include "lowering/unsized_step.h"
#include "runtime/plan.h"
#ifdef DYNRUN_CUDA
#include "lowering/gpu/kernel_step.h"
#endif

#include <map>
#include <set>

namespace dynrun::lowering {
namespace {

using graph::kNoValue;
using graph::ValueId;

bool is_unsized(const Program& program, ValueId id) {
  const graph::Value& value = program.graph.values[static_cast<std::size_t>(id)];
  return value.is_tensor() && value.tensor().unsized;
}

/// What the loop rules may see: every unsized value as one row.
Program as_rows(const Program& program) {
  Program rows;
  rows.options = program.options;
  rows.device = program.device;
  rows.pretended = program.pretended;
  rows.graph.values = program.graph.values;
  for (graph::Value& value : rows.graph.values) {
    auto* type = std::get_if<graph::TensorType>(&value.type);
    if (type == nullptr || !type->unsized) continue;
    type->sizes = {kElementsOfRow};
    type->strides = {1};
    type->unsized = false;
  }
  return rows;
}

/// Elementwise nodes on tensors of one size, in program order.
struct Chain {
  std::vector<std::int32_t> nodes;
  std::vector<Definition> definitions;
  std::set<ValueId> defined;
};

class Claimer {
 public:
  Claimer(const Program& program, std::vector<LibraryKernel>& claims)
      : program_(program), rows_(as_rows(program)), uses_(program), claims_(claims) {
    for (const LibraryKernel& claim : claims) claimed_.insert(claim.nodes.begin(), claim.nodes.end());
  }

  void run() {
    for (std::size_t i = 0; i < program_.graph.nodes.size(); ++i) {
      const auto node = static_cast<std::int32_t>(i);
      const ValueId source = claimed_.count(node) == 0 ? source_of(node) : kNoValue;
      auto definition = source == kNoValue ? std::nullopt : define(node);
      if (!definition) {
        close_readers(node, kNoValue);
        continue;
      }
      const ValueId family = family_of(source);
      families_[definition->value] = family;
      close_readers(node, family);
      add(family, node, std::move(*definition));
    }
    while (!open_.empty()) close(open_.begin()->first);
  }

 private:
  static std::vector<ValueId> reads(const graph::Node& node) {
    std::vector<ValueId> out;
    graph::visit_values(node, [&](ValueId id) { out.push_back(id); });
    return out;
  }

  ValueId family_of(ValueId value) const {
    auto known = families_.find(value);
    return known == families_.end() ? value : known->second;
  }

  /// An unsized tensor that the node reads, where it reads tensors of one size only and gives one more; kNoValue otherwise.
  ValueId source_of(std::int32_t index) const {
    const graph::Node& node = program_.graph.nodes[static_cast<std::size_t>(index)];
    if (program_.has_effect(index) || node.outputs.size() != 1 || node.outputs[0] == kNoValue || !is_unsized(program_, node.outputs[0])) return kNoValue;
    if (!graph::is_elementwise(graph::base_name(node.op)) || node.op.schema().name() == "aten::clone") return kNoValue;  // a clone keeps strides that the others make anew
    ValueId source = kNoValue;
    for (ValueId value : reads(node)) {
      if (!is_unsized(program_, value) || program_.is_elsewhere(value) || program_.graph.type_of(value).number || program_.is_view(value) || (source != kNoValue && family_of(source) != family_of(value))) return kNoValue;
      source = value;
    }
    return source;
  }

  std::optional<Definition> define(std::int32_t index) const {
    const graph::Node& node = program_.graph.nodes[static_cast<std::size_t>(index)];
    if (program_.device.is_cpu() && !cpu::host_has_types(program_.graph, node)) return std::nullopt;
    auto definitions = decompose(rows_, node);
    if (!definitions || definitions->size() != 1) return std::nullopt;
    Definition& definition = definitions->front();
    if (!definition.natural || !is_pointwise(definition.expression)) return std::nullopt;
    return std::move(definition);
  }

  static bool is_pointwise(const Expr& expression) {
    if (expression->kind == ExpressionKind::kReduce || expression->kind == ExpressionKind::kIndex) return false;
    if (expression->kind == ExpressionKind::kLoad && !expression->natural) return false;
    return std::all_of(expression->arguments.begin(), expression->arguments.end(), is_pointwise);
  }

  /// A chain ends before a node outside that reads one of its values.
  void close_readers(std::int32_t index, ValueId but) {
    for (ValueId value : reads(program_.graph.nodes[static_cast<std::size_t>(index)])) {
      const ValueId family = family_of(value);
      auto open = open_.find(family);
      if (family != but && open != open_.end() && open->second.defined.count(value) != 0) close(family);
    }
  }

  void add(ValueId family, std::int32_t node, Definition definition) {
    if (auto open = open_.find(family); open != open_.end()) {
      const Chain& chain = open->second;
      if (chain.definitions.size() >= kMostDefinitions || !program_.can_sink(chain.nodes.front(), node)) close(family);
    }
    Chain& chain = open_[family];
    chain.nodes.push_back(node);
    chain.defined.insert(definition.value);
    chain.definitions.push_back(std::move(definition));
  }

  bool is_seen(const Chain& chain, ValueId value) const {
    if (uses_.is_output(value) || uses_.has_views(value)) return true;
    const std::vector<std::int32_t>& readers = uses_.readers(value);
    return std::any_of(readers.begin(), readers.end(), [&](std::int32_t reader) { return std::find(chain.nodes.begin(), chain.nodes.end(), reader) == chain.nodes.end(); });
  }

  void close(ValueId family) {
    const Chain chain = std::move(open_.at(family));
    open_.erase(family);
    if (chain.nodes.size() < 2) return;
    FusionGroup group;
    group.space = {kElementsOfRow};
    group.definitions = chain.definitions;
    for (const Definition& definition : group.definitions) group.stored.push_back(is_seen(chain, definition.value));
    if (std::none_of(group.stored.begin(), group.stored.end(), [](bool stored) { return stored; })) return;  // they run to raise, if they do
    Kernel kernel = build_kernel(rows_, group);
    if (kernel.dims.size() != 1 || kernel.buffers.size() > kMostUnsizedBuffers) return;
    if (program_.options->dump) program_.options->dump("loops", print(kernel) + "\n");
    claims_.push_back(claim(chain, std::move(kernel)));
  }

  LibraryKernel claim(const Chain& chain, Kernel kernel) const {
    LibraryKernel out;
    out.nodes = chain.nodes;
    out.makes_outputs = true;
    std::vector<UnsizedBuffer> buffers;
    for (const LoopBuffer& buffer : kernel.buffers) {
      buffers.push_back({-1, buffer.dtype, buffer.written});
      (buffer.written ? out.outputs : out.inputs).push_back(buffer.value);
    }
    out.make = [kernel = std::move(kernel), buffers, nodes = chain.nodes, &program = program_](std::vector<runtime::SlotId> inputs, std::vector<runtime::SlotId> outputs) mutable {
      std::size_t input = 0, output = 0;
      for (UnsizedBuffer& buffer : buffers) buffer.slot = buffer.written ? outputs[output++] : inputs[input++];
      UnsizedOperators operators;
      for (std::int32_t node : nodes) {
        operators.push_back(runtime::make_dispatch_step(program.graph, program.graph.nodes[static_cast<std::size_t>(node)], [](ValueId id) { return id; }));
      }
      return make_unsized_step(elements_function(kernel, program), buffers, inputs.front(), std::move(operators), print(kernel));
    };
    return out;
  }

  static std::unique_ptr<ElementsFunction> elements_function(const Kernel& kernel, const Program& program) {
#ifdef DYNRUN_CUDA
    if (program.device.is_cuda()) return gpu::make_elements_function(kernel, program.device.index(), *program.options);
#endif
    return cpu_elements_function(kernel, *program.options);
  }

  const Program& program_;
  const Program rows_;
  const Uses uses_;
  std::vector<LibraryKernel>& claims_;
  std::set<std::int32_t> claimed_;
  std::map<ValueId, ValueId> families_;  // of results: whose size they have
  std::map<ValueId, Chain> open_;        // by family
};

}  // namespace

void claim_unsized_chains(const Program& program, std::vector<LibraryKernel>& claims) {
  const std::vector<graph::Value>& values = program.graph.values;
  bool any = std::any_of(values.begin(), values.end(), [](const graph::Value& value) { return value.is_tensor() && value.tensor().unsized; });
  if (any) Claimer(program, claims).run();
}

}  // namespace dynrun::lowering
