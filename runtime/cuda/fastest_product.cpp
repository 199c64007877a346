// Which kernel a product is made by: all that cuBLASLt offers are run, beside libtorch's own call.

#include "runtime/cuda/measure.h"
#include "runtime/cuda/product.h"
#include "runtime/disk_cache.h"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

namespace dynrun::runtime::cuda {
namespace {

constexpr int kFewRuns = 4, kRuns = 24;
constexpr std::size_t kFinalists = 4;
constexpr double kWorth = 0.97;                               // of libtorch's time
constexpr std::int64_t kColdBytes = std::int64_t{128} << 20;  // more than caches hold: in a model, weights come from memory
constexpr std::int64_t kMostCopies = 64;

/// Operands for measuring, the right one many times over, as a model has many weights.
class Trial {
 public:
  Trial(const ProductShape& shape, int device) : shape_(shape), device_(device), product_(shape) {
    const auto options = at::TensorOptions().dtype(at::kFloat).device(at::kCUDA, static_cast<c10::DeviceIndex>(device));
    const auto [right_rows, right_columns] = shape.right_transposed ? std::pair(shape.columns, shape.depth) : std::pair(shape.depth, shape.columns);
    const auto [left_rows, left_columns] = shape.left_transposed ? std::pair(shape.depth, shape.rows) : std::pair(shape.rows, shape.depth);
    const std::int64_t bytes = right_rows * shape.right_step * static_cast<std::int64_t>(sizeof(float));
    const std::int64_t copies = std::clamp<std::int64_t>(kColdBytes / bytes, 1, kMostCopies);
    left_ = at::full({left_rows, shape.left_step}, 0.125, options).narrow(1, 0, left_columns);
    const at::Tensor all = at::full({copies, right_rows, shape.right_step}, 0.125, options).narrow(2, 0, right_columns);
    rights_ = all.unbind();
    bias_ = at::full({shape.columns}, 0.125, options);
    result_ = at::empty({shape.rows, shape.columns}, options);
  }

  FastProduct run() {
    FastProduct best{nullptr, seconds([this](int turn) { run_libtorch(turn); }, kRuns)};
    const double limit = kWorth * best.seconds;
    std::vector<std::pair<double, Product::Kernel>> found;
    for (const Product::Kernel& kernel : product_.kernels()) found.emplace_back(seconds_of(kernel, kFewRuns), kernel);
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    found.resize(std::min(found.size(), kFinalists));
    for (const auto& [_, kernel] : found) {
      const double time = seconds_of(kernel, kRuns);
      if (time >= (best.product ? best.seconds : limit)) continue;
      product_.choose(kernel);
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
      return seconds([this](int turn) { product_.run({left_.const_data_ptr(), right(turn).const_data_ptr(), shape_.bias ? bias_.const_data_ptr() : nullptr, result_.mutable_data_ptr()}); }, runs);
    } catch (const c10::Error&) {
      return kNever;  // offered, but refused
    }
  }

  const at::Tensor& right(int turn) const { return rights_[static_cast<std::size_t>(turn) % rights_.size()]; }

  void run_libtorch(int turn) {
    const at::Tensor& memory = right(turn);
    multiply(result_, shape_.left_transposed ? left_.t() : left_, shape_.right_transposed ? memory.t() : memory, shape_.bias ? bias_ : at::Tensor());
  }

  ProductShape shape_;
  int device_;
  Product product_;
  at::Tensor left_, bias_, result_;
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
