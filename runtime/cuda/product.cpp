#include "runtime/cuda/product.h"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace dynrun::runtime::cuda {
namespace {

constexpr std::uintptr_t kBytesAtOnce = 16;
constexpr std::size_t kMostWorkspace = std::size_t{32} << 20;  // bytes
constexpr std::int64_t kManyElements = 528 * 128 * 128;  // of a result: so many blocks that a large GPU is busy to the last of them
constexpr std::uint32_t kExactSums = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

void check(cublasStatus_t status, const char* what) { TORCH_CHECK(status == CUBLAS_STATUS_SUCCESS, "cuBLASLt: ", what, ": status ", static_cast<int>(status)); }

template <typename T>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t name, const T& value) {
  check(cublasLtMatmulDescSetAttribute(operation, name, &value, sizeof(value)), "an attribute of a product");
}

/// cuBLASLt counts along columns: what it is given is the transposed product, result^T = right^T @ left^T.
void describe_matrix(cublasLtMatrixLayoutOpaque_t& layout, std::int64_t rows, std::int64_t columns, bool transposed, std::int64_t step) {
  const auto [across, down] = transposed ? std::pair(rows, columns) : std::pair(columns, rows);
  check(cublasLtMatrixLayoutInit(&layout, CUDA_R_32F, static_cast<std::uint64_t>(across), static_cast<std::uint64_t>(down), step), "a layout");
}

}  // namespace

std::string ProductShape::text() const {
  return fmt::format("float32 {}x{}x{} left {}{} right {}{}{}", rows, depth, columns, left_step, left_transposed ? " transposed" : "", right_step,
                     right_transposed ? " transposed" : "", bias ? " bias" : "");
}

Product::Product(const ProductShape& shape) {
  check(cublasLtMatmulDescInit(&description_.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "a product");
  set(&description_.operation, CUBLASLT_MATMUL_DESC_TRANSA, shape.right_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(&description_.operation, CUBLASLT_MATMUL_DESC_TRANSB, shape.left_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (shape.bias) set(&description_.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  describe_matrix(description_.left, shape.rows, shape.depth, shape.left_transposed, shape.left_step);
  describe_matrix(description_.right, shape.depth, shape.columns, shape.right_transposed, shape.right_step);
  describe_matrix(description_.result, shape.rows, shape.columns, false, shape.columns);
  fills_device_ = shape.rows * shape.columns > kManyElements;
}

void multiply(at::Tensor result, const at::Tensor& left, const at::Tensor& right, const at::Tensor& bias) {
  if (bias.defined()) {
    at::addmm_out(result, bias, left, right);
  } else {
    at::mm_out(result, left, right);
  }
}

bool Product::is_aligned(const ProductOperands& operands) {
  auto address = [](const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); };
  return (address(operands.left) | address(operands.right) | address(operands.bias) | address(operands.result)) % kBytesAtOnce == 0;
}

void Product::run(const ProductOperands& operands) const {
  Description of = description_;
  if (operands.bias != nullptr) set(&of.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
  c10::DataPtr workspace;
  if (kernel_.workspace != 0) workspace = c10::cuda::CUDACachingAllocator::get()->allocate(kernel_.workspace);
  const float one = 1, zero = 0;
  check(cublasLtMatmul(at::cuda::getCurrentCUDABlasLtHandle(), &of.operation, &one, operands.right, &of.right, operands.left, &of.left, &zero, operands.result, &of.result, operands.result,
                       &of.result, &kernel_.algorithm, workspace.get(), kernel_.workspace, at::cuda::getCurrentCUDAStream()),
        "a product");
}

std::vector<Product::Kernel> Product::suggested() const {
  constexpr int kMost = 16;
  cublasLtMatmulPreferenceOpaque_t preference;
  check(cublasLtMatmulPreferenceInit(&preference), "a preference");
  auto prefer = [&](cublasLtMatmulPreferenceAttributes_t name, auto value) {
    check(cublasLtMatmulPreferenceSetAttribute(&preference, name, &value, sizeof(value)), "a preference");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace);
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kExactSums);
  for (auto name : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    prefer(name, static_cast<std::uint32_t>(kBytesAtOnce));
  }
  std::array<cublasLtMatmulHeuristicResult_t, kMost> found{};
  int count = 0;
  Description of = description_;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(at::cuda::getCurrentCUDABlasLtHandle(), &of.operation, &of.right, &of.left, &of.result, &of.result, &preference, kMost, found.data(), &count);
  std::vector<Kernel> kernels;
  for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < count; i++) {
    const cublasLtMatmulHeuristicResult_t& one = found[static_cast<std::size_t>(i)];
    if (one.state == CUBLAS_STATUS_SUCCESS) kernels.push_back({one.algo, one.workspaceSize});
  }
  return kernels;
}

/// The kernel with its depth cut in so many parts, whose sums are added up in float32; nothing where it cannot.
std::optional<Product::Kernel> Product::cut(Kernel kernel, std::int32_t parts) const {
  auto configure = [&](cublasLtMatmulAlgoConfigAttributes_t name, auto value) {
    return cublasLtMatmulAlgoConfigSetAttribute(&kernel.algorithm, name, &value, sizeof(value)) == CUBLAS_STATUS_SUCCESS;
  };
  if (!configure(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, parts) || !configure(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, kExactSums)) return std::nullopt;
  Description of = description_;
  cublasLtMatmulHeuristicResult_t checked{};
  const cublasStatus_t status = cublasLtMatmulAlgoCheck(at::cuda::getCurrentCUDABlasLtHandle(), &of.operation, &of.right, &of.left, &of.result, &of.result, &kernel.algorithm, &checked);
  if (status != CUBLAS_STATUS_SUCCESS || checked.state != CUBLAS_STATUS_SUCCESS || checked.workspaceSize > kMostWorkspace) return std::nullopt;
  kernel.workspace = checked.workspaceSize;
  return kernel;
}

std::vector<Product::Kernel> Product::kernels() const {
  constexpr std::size_t kCut = 8;  // of those suggested
  std::vector<Kernel> kernels = suggested();
  const std::size_t count = fills_device_ ? 0 : std::min(kernels.size(), kCut);
  for (std::size_t i = 0; i < count; i++) {
    for (std::int32_t parts : {2, 3, 4, 6, 8}) {
      if (auto one = cut(kernels[i], parts)) kernels.push_back(*one);
    }
  }
  return kernels;
}

}  // namespace dynrun::runtime::cuda
