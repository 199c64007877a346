// Which kernel a product is made by: all that cuBLASLt offers are run, beside libtorch's own call.

#include "runtime/cuda/measure.h"
#include "runtime/cuda/product.h"
#include "runtime/disk_cache.h"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>

namespace dynrun::runtime::cuda {
namespace {

constexpr int kFewRuns = 4, kRuns = 24;
constexpr double kLong = 3e-4;  // seconds: then few runs tell enough
constexpr int kRunsOfLong = 6;
constexpr double kHopeless = 1.5;  // times libtorch's, in one run
constexpr std::size_t kFinalists = 4;
constexpr double kWorth = 0.97;                               // of libtorch's time
constexpr std::int64_t kColdBytes = std::int64_t{128} << 20;  // more than caches hold: in a model, weights come from memory
constexpr std::int64_t kMostCopies = 64;
constexpr double kRounding = 2e-5;  // of the result of one product and one addition: TF32 would differ by 5e-4

/// Steps of sequences that fill the interval evenly and have nothing to do with one another.
struct Steps {
  double down, across;
};
constexpr Steps kLeftSteps{0.8191725134, 0.6710436067}, kRightSteps{0.7548776662, 0.5698402910};

/// Numbers between -0.5 and 0.5 that look random, and are not: the program's random numbers stay what they are.
at::Tensor scattered(std::int64_t rows, std::int64_t columns, const Steps& steps, const at::TensorOptions& options) {
  const at::Tensor down = at::arange(rows, options).mul_(steps.down).frac_(), across = at::arange(columns, options).mul_(steps.across).frac_();
  return down.unsqueeze(1).add(across).frac_().sub_(0.5);
}

/// Operands for measuring, the right one many times over, as a model has many weights.
class Trial {
 public:
  Trial(const ProductShape& shape, int device) : shape_(shape), device_(device), product_(shape) {
    const auto options = at::TensorOptions().dtype(at::kFloat).device(at::kCUDA, static_cast<c10::DeviceIndex>(device));
    const auto [right_rows, right_columns] = shape.right_transposed ? std::pair(shape.columns, shape.depth) : std::pair(shape.depth, shape.columns);
    const auto [left_rows, left_columns] = shape.left_transposed ? std::pair(shape.depth, shape.rows) : std::pair(shape.rows, shape.depth);
    const std::int64_t bytes = right_rows * shape.right_step * static_cast<std::int64_t>(sizeof(float));
    const std::int64_t copies = std::clamp<std::int64_t>(kColdBytes / bytes, 1, kMostCopies);
    left_ = scattered(left_rows, shape.left_step, kLeftSteps, options).narrow(1, 0, left_columns);
    const at::Tensor all = scattered(right_rows, shape.right_step, kRightSteps, options).expand({copies, right_rows, shape.right_step}).contiguous();
    rights_ = all.narrow(2, 0, right_columns).unbind();
    bias_ = scattered(1, shape.columns, kRightSteps, options).view({shape.columns});
    result_ = at::empty({shape.rows, shape.columns}, options);
    run_libtorch(0);
    expected_ = result_.clone();
  }

  FastProduct run() {
    const auto libtorch = [this](int turn) { run_libtorch(turn); };
    const double once = seconds(libtorch, 1);
    const bool is_long = once > kLong;
    const int runs = is_long ? kRunsOfLong : kRuns;
    FastProduct best{nullptr, seconds(libtorch, runs)};
    const double limit = kWorth * best.seconds;
    std::vector<std::pair<double, Product::Kernel>> found;
    for (const Product::Kernel& kernel : product_.kernels()) {
      double time = seconds_of(kernel, 1);
      if (time > kHopeless * once) continue;
      if (!is_long) time = seconds_of(kernel, kFewRuns);
      found.emplace_back(time, kernel);
    }
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    found.resize(std::min(found.size(), kFinalists));
    for (const auto& [_, kernel] : found) {
      const double time = seconds_of(kernel, runs);
      if (time >= (best.product ? best.seconds : limit)) continue;
      product_.choose(kernel);
      if (!gives_the_same()) continue;
      best = {std::make_shared<Product>(product_), time};
    }
    return best;
  }

 private:
  double seconds(const std::function<void(int)>& work, int runs) const { return seconds_of_work(work, runs, device_); }

  double seconds_of(const Product::Kernel& kernel, int runs) {
    constexpr double kNever = 1e9;
    product_.choose(kernel);
    try {
      return seconds([this](int turn) { run_product(turn); }, runs);
    } catch (const c10::Error&) {
      return kNever;  // offered, but refused
    }
  }

  void run_product(int turn) { product_.run({left_.const_data_ptr(), right(turn).const_data_ptr(), shape_.bias ? bias_.const_data_ptr() : nullptr, result_.mutable_data_ptr()}); }

  /// As libtorch's, but for the order in which the products are added. They are of half a unit each at most.
  bool gives_the_same() {
    run_product(0);
    return result_.sub_(expected_).abs_().max().item<double>() <= kRounding * std::sqrt(static_cast<double>(shape_.depth));
  }

  const at::Tensor& right(int turn) const { return rights_[static_cast<std::size_t>(turn) % rights_.size()]; }

  void run_libtorch(int turn) {
    const at::Tensor& memory = right(turn);
    multiply(result_, shape_.left_transposed ? left_.t() : left_, shape_.right_transposed ? memory.t() : memory, shape_.bias ? bias_ : at::Tensor());
  }

  ProductShape shape_;
  int device_;
  Product product_;
  at::Tensor left_, bias_, result_, expected_;
  std::vector<at::Tensor> rights_;
};

constexpr const char* kKind = "product";

/// Seconds, then the kernel, unless it is libtorch's.
std::string packed(const FastProduct& found) {
  std::string text(sizeof(double) + (found.product ? sizeof(Product::Kernel) : 0), '\0');
  std::memcpy(text.data(), &found.seconds, sizeof(double));
  if (found.product) std::memcpy(text.data() + sizeof(double), &found.product->kernel(), sizeof(Product::Kernel));
  return text;
}

std::optional<FastProduct> unpacked(const std::string& text, const ProductShape& shape) {
  FastProduct found;
  if (text.size() != sizeof(double) && text.size() != sizeof(double) + sizeof(Product::Kernel)) return std::nullopt;
  std::memcpy(&found.seconds, text.data(), sizeof(double));
  if (text.size() == sizeof(double)) return found;
  Product::Kernel kernel;
  std::memcpy(&kernel, text.data() + sizeof(double), sizeof(kernel));
  auto product = std::make_shared<Product>(shape);
  product->choose(kernel);
  found.product = std::move(product);
  return found;
}

FastProduct find(const ProductShape& shape, const std::string& key, int device) {
  if (const auto kept = DiskCache::instance().find(kKind, key)) {
    if (auto found = unpacked(*kept, shape)) return *found;
  }
  FastProduct found = Trial(shape, device).run();
  DiskCache::instance().keep(kKind, key, packed(found));
  return found;
}

}  // namespace

FastProduct fastest_product(const ProductShape& shape, int device) {
  static std::mutex mutex;
  static auto* known = new std::map<std::string, FastProduct>;  // outlives programs that run at exit
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
  const std::string key = name_of(device) + "\ncuBLASLt " + std::to_string(cublasLtGetVersion()) + "\n" + shape.text();
  std::lock_guard lock(mutex);
  auto place = known->find(key);
  if (place == known->end()) place = known->emplace(key, find(shape, key, device)).first;
  return place->second;
}

}  // namespace dynrun::runtime::cuda
