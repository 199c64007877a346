#include "runtime/dispatch.h"
#include "runtime/plan.h"

#include "graph/text.h"
#include "graph/visit.h"

#include <ATen/ATen.h>

#include <optional>
#include <unordered_set>

namespace dynrun::runtime {
namespace {

using graph::kNoValue;
using graph::ValueId;

bool same_elements(const at::Tensor& tensor, const graph::TensorType& type) {
  if (tensor.scalar_type() != type.dtype || tensor.sizes() != type.sizes) return false;
  if (tensor.numel() == 0) return true;
  for (std::size_t i = 0; i < type.sizes.size(); ++i) {
    if (type.sizes[i] > 1 && tensor.stride(static_cast<std::int64_t>(i)) != type.strides[i]) return false;
  }
  return true;
}

class DispatchStep final : public Step {
 public:
  DispatchStep(const graph::Graph& graph, const graph::Node& node, const std::function<SlotId(ValueId)>& slot_of)
      : node_(node), text_(graph::print_node(graph, node)) {
    for (ValueId id : node.outputs) {
      if (id != kNoValue) types_.emplace(id, graph.type_of(id));
    }
    visit_values(node, [&](ValueId id) { slot_of_.emplace(id, slot_of(id)); });
    for (ValueId id : node.outputs) {
      if (id != kNoValue) slot_of_.emplace(id, slot_of(id));
    }
  }

  void run(Slots& slots) const override {
    std::optional<ModeGuard> mode;
    if (node_.mode.autocast) mode.emplace(node_.mode);
    torch::jit::Stack stack;
    c10::IValue scratch;
    push_arguments(
        node_, [&](ValueId id) -> const c10::IValue& { return scratch = slots[slot(id)]; }, stack);
    call(node_, stack);
    take_results(node_, stack, [&](ValueId id, c10::IValue result) { put(slots, id, std::move(result)); });
  }

  StepKind kind() const override { return StepKind::kDispatch; }
  /// Schemas do not tell of all that may give back an argument: products never do.
  bool makes_own_memory() const override {
    static const std::unordered_set<std::string> products = {"aten::linear", "aten::mm", "aten::addmm", "aten::bmm"};
    return products.count(node_.op_name()) != 0;
  }
  std::string describe() const override { return text_; }

 private:
  SlotId slot(ValueId id) const { return slot_of_.at(id); }

  void put(Slots& slots, ValueId id, c10::IValue result) const {
    at::Tensor& target = slots[slot(id)];
    at::Tensor tensor = std::move(result).toTensor();
    if (target.defined() && target.is_same(tensor)) return;  // written in place
    const graph::TensorType& type = types_.at(id);
    if (type.unsized) {
      const bool in_arena = tensor.defined() && tensor.has_storage() && tensor.storage().unsafeGetStorageImpl() == slots.arena();
      target = in_arena ? tensor.clone() : std::move(tensor);  // of a size that the operator decides
      return;
    }
    // An operator whose schema hides that it may return its argument, or a tensor that only looks conjugated or negated:
    // kernels read plain memory, and the arena's memory is soon another value's.
    bool unsafe = tensor.defined() && (tensor.is_neg() || tensor.is_conj() || !tensor.has_storage() ||
                                       tensor.storage().unsafeGetStorageImpl() == slots.arena());
    if (unsafe) tensor = at::empty_strided(type.sizes, type.strides, tensor.options().dtype(type.dtype)).copy_(tensor);
    if (tensor.defined() && !same_elements(tensor, type)) {
      TORCH_CHECK(tensor.sizes() == type.sizes, node_.op_name(), " gave ", tensor.sizes(), ", recorded ",
                  c10::IntArrayRef(type.sizes));
      at::Tensor copy = at::empty_strided(type.sizes, type.strides, tensor.options().dtype(type.dtype));
      copy.copy_(tensor);
      tensor = std::move(copy);
    }
    // Strides of dimensions without a second element are free, but Python sees them.
    if (tensor.defined() && tensor.strides() != type.strides) {
      tensor = tensor.as_strided(type.sizes, type.strides, tensor.storage_offset());
    }
    target = std::move(tensor);
  }

  graph::Node node_;
  std::string text_;
  std::unordered_map<ValueId, graph::TensorType> types_;
  std::unordered_map<ValueId, SlotId> slot_of_;
};

}  // namespace

std::unique_ptr<Step> make_dispatch_step(const graph::Graph& graph, const graph::Node& node,
                                         const std::function<SlotId(ValueId)>& slot_of) {
  return std::make_unique<DispatchStep>(graph, node, slot_of);
}

}  // namespace dynrun::runtime
