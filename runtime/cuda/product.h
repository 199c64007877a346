#pragma once
// Products of matrices by cuBLASLt, by whichever of its kernels takes the least time on the device: that is measured.
//
// Library heuristics know no device by heart: for 128 rows in float32 the kernel that adds a bias takes twice the time of one that
// does not, and a product cut along its depth half the time of one that is not.

#include <ATen/core/Tensor.h>
#include <cublasLt.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dynrun::runtime::cuda {

/// result[rows, columns] = left[rows, depth] @ right[depth, columns] (+ bias[columns]) in float32; the rows of the result lie side by side.
struct ProductShape {
  std::int64_t rows = 0, columns = 0, depth = 0;
  bool left_transposed = false, right_transposed = false;  // memory holds [depth, rows], [columns, depth]
  std::int64_t left_step = 0, right_step = 0;              // elements from a row of memory to the next
  bool bias = false;

  std::string text() const;
};

/// Addresses on the device.
struct ProductOperands {
  const void *left = nullptr, *right = nullptr, *bias = nullptr;
  void* result = nullptr;
};

/// One product by one of cuBLASLt's kernels.
class Product {
 public:
  struct Kernel {
    cublasLtMatmulAlgo_t algorithm{};
    std::uint64_t workspace = 0;  // bytes
  };

  explicit Product(const ProductShape& shape);
  /// Those that can do it, likely ones first; also cut along the depth in several ways, where the result alone is too small for a GPU.
  std::vector<Kernel> kernels() const;
  void choose(const Kernel& kernel) { kernel_ = kernel; }
  const Kernel& kernel() const { return kernel_; }

  /// On the current stream of the current device. Throws c10::Error where cuBLASLt refuses.
  void run(const ProductOperands& operands) const;
  /// Whether the kernels may read and write at these addresses: they move 16 bytes at once.
  static bool is_aligned(const ProductOperands& operands);

 private:
  std::vector<Kernel> suggested() const;
  std::optional<Kernel> cut(Kernel kernel, std::int32_t parts) const;

  /// Copied for each call: cuBLASLt takes none that is constant, and a bias is part of it.
  struct Description {
    cublasLtMatmulDescOpaque_t operation;
    cublasLtMatrixLayoutOpaque_t left, right, result;
  };

  Description description_;
  Kernel kernel_;
  bool fills_device_ = false;
};

/// The same by libtorch: result = left @ right, and `bias` unless it is undefined.
void multiply(at::Tensor result, const at::Tensor& left, const at::Tensor& right, const at::Tensor& bias);

/// The fastest way that was found.
struct FastProduct {
  std::shared_ptr<const Product> product;  // null: libtorch's own call is
  double seconds = 0;
};

/// Measures on the current stream, once for each shape and kind of device in a process, and keeps what was found on disk.
FastProduct fastest_product(const ProductShape& shape, int device);

}  // namespace dynrun::runtime::cuda
