#include "lowering/extern/packed_weights.h"

#include "lowering/extern/convolution_parts.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <mutex>

namespace dynrun::lowering {
namespace {

using Sizes = std::vector<std::int64_t>;

/// The layouts that oneDNN was seen to want for a kind of weight, by sizes of inputs: to ask it is to pack.
class SeenLayouts {
 public:
  static SeenLayouts& instance() {
    static SeenLayouts seen;
    return seen;
  }

  void note(const std::string& kind, const Sizes& sizes, const std::string& layout) {
    std::lock_guard lock(mutex_);
    seen_[kind].insert_or_assign(sizes, layout);
  }

  std::optional<std::string> at(const std::string& kind, const Sizes& sizes) {
    std::lock_guard lock(mutex_);
    const auto& layouts = seen_[kind];
    const auto found = layouts.find(sizes);
    return found == layouts.end() ? std::nullopt : std::optional(found->second);
  }

  /// The same of one size, where those seen next to it on both sides agree.
  std::optional<std::string> around(const std::string& kind, std::int64_t size) {
    std::lock_guard lock(mutex_);
    const auto& layouts = seen_[kind];
    const auto above = layouts.lower_bound({size});
    if (above == layouts.end()) return std::nullopt;
    if (above->first[0] == size) return above->second;
    if (above == layouts.begin() || std::prev(above)->second != above->second) return std::nullopt;
    return above->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::map<Sizes, std::string>> seen_;
};

/// `kind`: all that a layout hangs on but the sizes. `part`: which of the weight's parts it is.
at::Tensor share(const ClaimContext& context, ValueId result, const std::string& kind, const Sizes& sizes, std::int64_t part,
                 const std::optional<std::string>& layout, const std::function<at::Tensor()>& pack) {
  auto key = [&](const std::string& of) { return part == 0 ? of : fmt::format("part {}: {}", part, of); };
  if (layout) {
    if (at::Tensor known = context.known_packed(result, key(*layout)); known.defined()) return known;
  }
  const at::Tensor packed = pack();
  const std::string made = onednn::layout_of(packed);
  SeenLayouts::instance().note(kind, sizes, made);
  return context.packed(result, key(made), [&] { return packed; });
}

}  // namespace

std::vector<at::Tensor> packed_convolution(const ClaimContext& context, ValueId result, const at::Tensor& weight, const onednn::ConvolutionGeometry& geometry,
                                           const Sizes& sizes) {
  const std::int64_t parts = convolution_parts(weight.sizes(), geometry.groups);
  const Sizes part_sizes = channel_part_sizes(sizes, parts);
  std::vector<at::Tensor> packed;
  for (std::int64_t part = 0; part < parts; ++part) {
    const at::Tensor own = channel_part(weight, part, parts);
    const std::string kind = fmt::format("convolution {} stride {} padding {} dilation {} groups {} [{} threads]", fmt::join(own.sizes(), "x"),
                                         fmt::join(geometry.stride, "x"), fmt::join(geometry.padding, "x"), fmt::join(geometry.dilation, "x"),
                                         geometry.groups, at::get_num_threads());
    packed.push_back(share(context, result, kind, part_sizes, part, SeenLayouts::instance().at(kind, part_sizes),
                           [&] { return onednn::pack_convolution_weight(own, geometry, part_sizes); }));
  }
  return packed;
}

at::Tensor packed_linear(const ClaimContext& context, ValueId result, const at::Tensor& weight, std::int64_t rows) {
  const std::string kind = fmt::format("linear {} [{} threads]", fmt::join(weight.sizes(), "x"), at::get_num_threads());
  return share(context, result, kind, {rows}, 0, SeenLayouts::instance().around(kind, rows), [&] { return onednn::pack_linear_weight(weight, rows); });
}

}  // namespace dynrun::lowering
