#include "trace/weight_casts.h"

#include "guards/storage_watch.h"
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
  at::Tensor cast = kept_cast(probe, at::kBFloat16);
  if (!last.defined() || !last.is_same(cast)) {
    last = std::move(cast);
    number++;
  }
  return number;
}

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
    if (one.is_inference() || !one.is_leaf() || !guards::is_foldable(one)) return State::kUnknown;
    now.push_back({one.unsafeGetTensorImpl(), one.storage().unsafeGetStorageImpl(), one.const_data_ptr(), static_cast<std::uint32_t>(one._version()), guards::alias_epoch(one)});
  }
  const std::uint64_t region_now = region();
  const bool unchanged = now == seen_, elsewhere = region_now != region_;
  region_ = region_now;
  if (!unchanged) {
    see(inputs, std::move(now));
    return State::kUnknown;
  }
  if (elsewhere) {  // nothing was written since an earlier region
    compared_ = fresh_ = false;
    if (casts_.empty()) return State::kLearning;
    fresh_ = give(inputs);
    compared_ = true;
  }
  if (!fresh_ && !compared_) {
    compared_ = true;
    learn(inputs);
  }
  return fresh_ ? State::kFresh : State::kUnknown;
}

void WeightCasts::see(const std::vector<at::Tensor>& inputs, std::vector<Weight> now) {
  casts_.clear();
  pins_.clear();
  fresh_ = compared_ = false;
  for (std::size_t i = 0; i < inputs_.size(); i++) {
    const at::Tensor& one = weight(inputs, i);
    guards::watch_storage(one);
    now[i].alias_epoch = guards::alias_epoch(one);
    pins_.emplace_back(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(one.storage().unsafeGetStorageImpl()));
  }
  seen_ = std::move(now);
}

void WeightCasts::learn(const std::vector<at::Tensor>& inputs) {
  casts_.clear();
  fresh_ = false;
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < inputs_.size(); i++) {
    const at::Tensor& one = weight(inputs, i);
    const at::Tensor cast = kept_cast(one, dtypes_[i]);
    if (cast.is_inference() != c10::InferenceMode::is_enabled() || cast.scalar_type() != dtypes_[i]) return casts_.clear();
    if (!at::equal(cast, one.to(dtypes_[i]))) return casts_.clear();  // of other numbers: the weight was not always this
    casts_.push_back(cast.is_inference() ? cast : cast.detach());
  }
  fresh_ = true;
}

/// Torch's cache gets the casts that it would have made, without their being made. False where it has others.
bool WeightCasts::give(const std::vector<at::Tensor>& inputs) const {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < inputs_.size(); i++) {
    const at::Tensor& one = weight(inputs, i);
    bool made = false;
    at::Tensor kept;
    {
      const GivenCast given([&] {
        made = true;
        return as_cast_of(one, casts_[i]);
      });
      kept = kept_cast(one, dtypes_[i]);
    }
    if (made || kept.is_alias_of(casts_[i])) continue;
    if (kept.scalar_type() != dtypes_[i] || kept.is_inference() != casts_[i].is_inference() || !at::equal(kept, casts_[i])) return false;
  }
  return true;
}

void CastsLeft::leave(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs) const {
  if (clears) at::autocast::clear_cache();
  for (const Cast& left : casts) {
    const at::Tensor &weight = inputs[left.input], &cast = outputs[left.output];
    const GivenCast given([&] { return cast.requires_grad() ? cast : as_cast_of(weight, cast); });
    kept_cast(weight, cast.scalar_type());
  }
}

}  // namespace dynrun::trace
