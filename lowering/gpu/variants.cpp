#include "lowering/gpu/variants.h"

#include "graph/text.h"
#include "runtime/cuda/measure.h"
#include "runtime/disk_cache.h"

#include <algorithm>
#include <optional>

namespace dynrun::lowering::gpu {
namespace {

/// What was measured for a graph on devices of one kind, on disk.
class KeptChoice {
 public:
  KeptChoice(const graph::Graph& graph, int device) : key_(runtime::cuda::name_of(device) + "\n" + graph::print(graph)) {}

  std::optional<Variant> find() const {
    const std::optional<std::string> kept = runtime::DiskCache::instance().find(kKind, key_);
    if (!kept || kept->size() != 2) return std::nullopt;
    const std::size_t layout = kLayouts.find(kept->at(0)), odd = kOdd.find(kept->at(1));
    if (layout == kLayouts.npos || odd == kOdd.npos) return std::nullopt;
    return Variant{static_cast<GpuLayout>(layout), static_cast<OddLinear>(odd)};
  }

  void keep(const Variant& best) const {
    const std::string text = {kLayouts[static_cast<std::size_t>(best.layout)], kOdd[static_cast<std::size_t>(best.odd_linear)]};
    runtime::DiskCache::instance().keep(kKind, key_, text);
  }

 private:
  static constexpr const char* kKind = "choice";
  static constexpr std::string_view kLayouts = "nyf", kOdd = "nyr";  // a letter each of GpuLayout, OddLinear
  std::string key_;
};

std::string describe(const Variant& variant) {
  constexpr const char* kOdd[] = {"", ", linear in two parts", ", linear by rows apart"};
  constexpr const char* kLayouts[] = {"layouts as they are", "channels last", "channels last behind the first convolution"};
  return std::string(kLayouts[static_cast<std::size_t>(variant.layout)]) + kOdd[static_cast<std::size_t>(variant.odd_linear)];
}

bool is_half(const graph::Graph& graph, const graph::Node& node, const char* name) {
  if (node.op.operator_name().name != name || node.outputs.size() != 1 || node.outputs[0] == graph::kNoValue) return false;
  const c10::ScalarType dtype = graph.type_of(node.outputs[0]).dtype;
  return dtype == c10::ScalarType::Half || dtype == c10::ScalarType::BFloat16;
}

bool has_half_linear(const graph::Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node& node) { return is_half(graph, node, "aten::linear"); });
}

bool has_half_convolution_of_few_channels(const graph::Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node& node) { return is_half(graph, node, "aten::conv2d") && reads_few_channels(graph, node); });
}

}  // namespace

Lowered compile_fastest(const graph::Graph& graph, int device, c10::ArrayRef<at::Tensor> examples, const Options& options, const std::function<Lowered(Variant)>& compile) {
  auto has = [&](const char* name) {
    return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node& node) { return node.op.operator_name().name == name; });
  };
  Variant best{has("aten::conv2d") ? GpuLayout::kChannelsLast : GpuLayout::kAsIs};
  // Code for many sizes is not measured; two parts of a half type take a third of the whole's time or less at any number of rows.
  if (options.shared != nullptr && has_half_linear(graph)) best.odd_linear = OddLinear::kTwoParts;
  std::optional<KeptChoice> choice;
  if (options.shared == nullptr && !options.dump && !options.check) choice.emplace(graph, device);
  const std::optional<Variant> kept = choice ? choice->find() : std::nullopt;
  Lowered chosen = compile(kept.value_or(best));
  if (chosen.executable && kept) return chosen;
  if (!chosen.executable) {
    best.odd_linear = OddLinear::kWhole;
    chosen = compile(best);
  }
  if (options.shared != nullptr || !chosen.repeatable || !runtime::cuda::can_measure()) return chosen;
  if (options.check) options.check(*chosen.executable, describe(best));
  std::optional<double> time;
  auto try_another = [&](Variant variant) {
    Lowered other = compile(variant);
    if (!other.executable) return;
    if (options.check) options.check(*other.executable, describe(variant));
    if (!time) time = runtime::cuda::seconds_of(*chosen.executable, examples, device);
    const double other_time = runtime::cuda::seconds_of(*other.executable, examples, device);
    if (other_time >= *time) return;
    time = other_time, best = variant, chosen = std::move(other);
  };
  if (best.layout == GpuLayout::kChannelsLast) {
    try_another({});
    if (has_half_convolution_of_few_channels(graph)) try_another({GpuLayout::kBehindFirst});
  }
  if (has("aten::linear")) {
    const GpuLayout layout = best.layout;
    for (OddLinear odd : {OddLinear::kTwoParts, OddLinear::kRowsApart}) try_another({layout, odd});
  }
  if (time && choice) choice->keep(best);
  return chosen;
}

}  // namespace dynrun::lowering::gpu
