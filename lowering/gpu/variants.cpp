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
    const std::size_t odd = kOdd.find(kept->at(1));
    return Variant{kept->at(0) == 'y', odd == kOdd.npos ? OddLinear::kWhole : static_cast<OddLinear>(odd)};
  }

  void keep(const Variant& best) const {
    const std::string text = {best.channels_last ? 'y' : 'n', kOdd[static_cast<std::size_t>(best.odd_linear)]};
    runtime::DiskCache::instance().keep(kKind, key_, text);
  }

 private:
  static constexpr const char* kKind = "choice";
  static constexpr std::string_view kOdd = "nyr";  // a letter each of OddLinear
  std::string key_;
};

std::string describe(const Variant& variant) {
  constexpr const char* kOdd[] = {"", ", linear in two parts", ", linear by rows apart"};
  return std::string(variant.channels_last ? "channels last" : "layouts as they are") + kOdd[static_cast<std::size_t>(variant.odd_linear)];
}

bool has_half_linear(const graph::Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node& node) {
    if (node.op.operator_name().name != "aten::linear" || node.outputs.size() != 1 || node.outputs[0] == graph::kNoValue) return false;
    const c10::ScalarType dtype = graph.type_of(node.outputs[0]).dtype;
    return dtype == c10::ScalarType::Half || dtype == c10::ScalarType::BFloat16;
  });
}

}  // namespace

Lowered compile_fastest(const graph::Graph& graph, int device, c10::ArrayRef<at::Tensor> examples, const Options& options, const std::function<Lowered(Variant)>& compile) {
  auto has = [&](const char* name) {
    return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node& node) { return node.op.operator_name().name == name; });
  };
  Variant best{has("aten::conv2d")};
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
  if (best.channels_last) try_another({});
  if (has("aten::linear")) {
    const bool channels_last = best.channels_last;
    for (OddLinear odd : {OddLinear::kTwoParts, OddLinear::kRowsApart}) try_another({channels_last, odd});
  }
  if (time && choice) choice->keep(best);
  return chosen;
}

}  // namespace dynrun::lowering::gpu
