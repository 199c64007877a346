#include "runtime/require_truth.h"

#include <ATen/Functions.h>
#include <torch/library.h>

#include <atomic>
#include <mutex>
#include <unordered_map>

namespace dynrun::runtime {
namespace {

constexpr int kMostRefutations = 3;  // of one place

struct Refuted {
  std::mutex mutex;
  std::unordered_map<std::int64_t, int> places;  // how often each
  std::atomic<std::uint64_t> count{0};

  static Refuted& instance() {
    static auto* refuted = new Refuted;  // outlives what still runs at exit
    return *refuted;
  }
};

/// Tensor.__bool__ on a tensor with one element.
void require_truth(const at::Tensor& of, bool truth, std::int64_t place) {
  if (at::is_nonzero(of) == truth) return;
  Refuted& refuted = Refuted::instance();
  const std::lock_guard lock(refuted.mutex);
  if (++refuted.places[place] >= kMostRefutations) refuted.count++;
  TORCH_CHECK(false, "a branch goes the other way");
}

TORCH_LIBRARY_FRAGMENT(dynrun, library) { library.def("require_truth(Tensor of, bool truth, int place) -> ()"); }
TORCH_LIBRARY_IMPL(dynrun, CompositeExplicitAutograd, library) { library.impl("require_truth", require_truth); }
TORCH_LIBRARY_IMPL(dynrun, Meta, library) {
  library.impl("require_truth", [](const at::Tensor&, bool, std::int64_t) {});
}

}  // namespace

bool is_refuted(std::int64_t place) {
  Refuted& refuted = Refuted::instance();
  const std::lock_guard lock(refuted.mutex);
  const auto found = refuted.places.find(place);
  return found != refuted.places.end() && found->second >= kMostRefutations;
}

std::uint64_t refuted_again() { return Refuted::instance().count.load(std::memory_order_relaxed); }

}  // namespace dynrun::runtime
