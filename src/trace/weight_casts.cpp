#include "trace/weight_casts.h"

#include "trace/autocast.h"
#include "trace/operator_keys.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/generated/Functions.h>

#include <algorithm>

namespace dynrun::trace {
namespace {

/// Another number whenever torch has forgotten its casts since the last call: a tensor of our own is cast anew then. Has the GIL.
std::uint64_t region() {
  static const at::Tensor& probe = *new at::Tensor(at::ones({1}, at::kFloat).set_requires_grad(true));  // libtorch may be gone first
  static at::Tensor& last = *new at::Tensor();
  static std::uint64_t number = 0;
  at::Tensor cast = at::autocast::cached_cast(at::autocast::get_autocast_dtype(at::kCPU), probe, at::kCPU);
  if (!last.defined() || !last.is_same(cast)) {
    last = std::move(cast);
    number++;
  }
  return number;
}

at::Tensor kept_cast(const at::Tensor& weight, c10::ScalarType dtype) { return at::autocast::cached_cast(dtype, weight, weight.device().type()); }

/// A tensor of the same numbers, as `weight.to(dtype)` would give it here.
at::Tensor as_cast_of(const at::Tensor& weight, const at::Tensor& numbers) {
  if (c10::InferenceMode::is_enabled()) {
    at::Tensor cast = at::empty({0}, numbers.options());
    return cast.set_(numbers.storage(), numbers.storage_offset(), numbers.sizes(), numbers.strides());
  }
  at::Tensor cast = numbers.detach();
  // ToCopyBackward0 of torch's derivatives.yaml.
  const std::shared_ptr<torch::autograd::generated::ToCopyBackward0> gradient(new torch::autograd::generated::ToCopyBackward0(), torch::autograd::deleteNode);
  gradient->set_next_edges(torch::autograd::collect_next_edges(weight));
  gradient->self_options = weight.options();
  torch::autograd::set_history(cast, gradient);
  return cast;
}

}  // namespace

WeightCasts::WeightCasts(const graph::Graph& graph) {
  for (const graph::Node& node : graph.nodes) {
    if (node.op_name() != "dynrun::cached_cast") continue;
    const auto input = std::find_if(graph.inputs.begin(), graph.inputs.end(), [&](const graph::Input& known) { return known.value == node.arguments[0].value(); });
    if (input == graph.inputs.end()) continue;  // made by the segment: torch had no cast of it
    inputs_.push_back(static_cast<int>(input - graph.inputs.begin()));
    dtypes_.push_back(node.arguments[1].constant().toScalarType());
  }
}

WeightCasts::State WeightCasts::look(const std::vector<at::Tensor>& inputs) {
  if (inputs_.empty()) return State::kFresh;
  std::vector<Weight> now;
  for (std::size_t i = 0; i < inputs_.size(); i++) {
    const at::Tensor& one = weight(inputs, i);
    if (!keeps_cast(one, dtypes_[i]) || one.is_inference()) return State::kUnknown;
    now.push_back({one.unsafeGetTensorImpl(), one.storage().data(), static_cast<std::uint32_t>(one._version())});
  }
  const std::uint64_t region_now = region();
  const bool unchanged = now == seen_, elsewhere = region_now != region_;
  seen_ = std::move(now);
  region_ = region_now;
  if (!unchanged) {
    casts_.clear();
    fresh_ = compared_ = false;
    return State::kUnknown;
  }
  if (elsewhere) {  // nothing was written since an earlier region
    fresh_ = !casts_.empty();
    if (!fresh_) return State::kLearning;
    give(inputs);
  }
  if (!fresh_ && !compared_) {
    compared_ = true;
    if (equal_kept(inputs)) learn(inputs);
  }
  return fresh_ ? State::kFresh : State::kUnknown;
}

void WeightCasts::learn(const std::vector<at::Tensor>& inputs) {
  casts_.clear();
  for (std::size_t i = 0; i < inputs_.size(); i++) {
    const at::Tensor cast = kept_cast(weight(inputs, i), dtypes_[i]);
    casts_.push_back(cast.is_inference() ? cast : cast.detach());
  }
  fresh_ = true;
}

bool WeightCasts::equal_kept(const std::vector<at::Tensor>& inputs) const {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < inputs_.size(); i++) {
    const at::Tensor& one = weight(inputs, i);
    if (!at::equal(kept_cast(one, dtypes_[i]), one.to(dtypes_[i]))) return false;
  }
  return true;
}

/// Torch's cache gets the casts that it would have made, without their being made.
void WeightCasts::give(const std::vector<at::Tensor>& inputs) const {
  for (std::size_t i = 0; i < inputs_.size(); i++) {
    const at::Tensor& one = weight(inputs, i);
    const GivenCast given([&] { return as_cast_of(one, casts_[i]); });
    kept_cast(one, dtypes_[i]);
  }
}

}  // namespace dynrun::trace
