// Every tensor of a chain lies in memory as the one it starts from does, so the order of elements does not matter; where that is
// not so (no second element in a dimension), the operators run one by one.

#include "lowering/unsized_step.h"

#include "lowering/cpu/jit.h"
#include "runtime/plan.h"

#include <ATen/ATen.h>

#include <cstring>

namespace dynrun::lowering {
namespace {

constexpr std::int64_t kMostRows = std::int64_t{1} << 40;

class UnsizedStep final : public runtime::Step {
 public:
  UnsizedStep(std::unique_ptr<ElementsFunction> function, std::vector<UnsizedBuffer> buffers, runtime::SlotId like, UnsizedOperators operators, std::string text)
      : function_(std::move(function)), buffers_(std::move(buffers)), like_(like), operators_(std::move(operators)), text_(std::move(text)) {}

  void run(runtime::Slots& slots) const override {
    if (!keeps_layout(slots[like_])) {
      for (const auto& step : operators_) step->run(slots);
      return;
    }
    std::vector<void*> pointers;
    pointers.reserve(buffers_.size());
    for (const UnsizedBuffer& buffer : buffers_) pointers.push_back(place(slots, buffer));
    function_->run(pointers, slots[like_].numel());
  }

  runtime::StepKind kind() const override { return runtime::StepKind::kKernel; }
  std::string describe() const override { return text_; }

 private:
  /// Whether every elementwise operator gives its result this layout. Where dimensions have no second element, each has its way.
  static bool keeps_layout(const at::Tensor& like) {
    const auto sizes = like.sizes();
    if (std::any_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size < 2; })) return false;
    return like.is_non_overlapping_and_dense();
  }

  void* place(runtime::Slots& slots, const UnsizedBuffer& buffer) const {
    at::Tensor& tensor = slots[buffer.slot];
    if (!buffer.written) return const_cast<void*>(tensor.const_data_ptr());
    const at::Tensor& like = slots[like_];
    tensor = at::empty_like(like, like.options().dtype(buffer.dtype));
    return tensor.mutable_data_ptr();
  }

  std::unique_ptr<ElementsFunction> function_;
  std::vector<UnsizedBuffer> buffers_;
  runtime::SlotId like_;
  UnsizedOperators operators_;
  std::string text_;
};

/// Compiled for rows of kElementsOfRow elements without knowing how many there are. A run counts its whole rows; what is left is
/// computed in a row of scratch memory.
class CpuElements final : public ElementsFunction {
 public:
  CpuElements(Kernel kernel, const Options& options) : buffers_(kernel.buffers) {
    repeat(kernel);
    function_ = cpu::compile({{&kernel, cpu::code_shape(kernel, cpu::host_target())}}, options.dump).front();
    grain_ = cpu::grain_of(kernel, kElementsOfRow);
  }

  void run(const std::vector<void*>& given, std::int64_t elements) const override {
    Pointers pointers{};
    std::copy(given.begin(), given.end(), pointers.begin());
    const std::int64_t rows = elements / kElementsOfRow;
    if (rows <= grain_) {
      function_(pointers.data(), 0, rows, nullptr);
    } else {
      runtime::parallel_for(rows, grain_, [&](std::int64_t begin, std::int64_t end) { function_(pointers.data(), begin, end, nullptr); });
    }
    if (elements % kElementsOfRow != 0) finish(pointers, rows * kElementsOfRow, elements % kElementsOfRow);
  }

 private:
  using Pointers = std::array<void*, kMostUnsizedBuffers>;

  /// Rows, one behind the other.
  static void repeat(Kernel& kernel) {
    auto widen = [](Access& access) { access.strides.insert(access.strides.begin(), access.strides.back() * kElementsOfRow); };
    for (LoopOp& op : kernel.ops) {
      if (op.kind == ExpressionKind::kLoad) widen(op.access);
    }
    for (LoopStore& store : kernel.stores) widen(store.access);
    kernel.dims.insert(kernel.dims.begin(), kMostRows);
    kernel.outer = 1;
  }

  void finish(const Pointers& pointers, std::int64_t from, std::int64_t count) const {
    alignas(64) std::array<std::array<char, kElementsOfRow * sizeof(double)>, kMostUnsizedBuffers> rows;
    Pointers scratch = pointers;
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      scratch[i] = rows[i].data();
      if (buffers_[i].written) continue;
      const std::size_t width = c10::elementSize(buffers_[i].dtype), bytes = static_cast<std::size_t>(count) * width;
      std::memcpy(rows[i].data(), static_cast<char*>(pointers[i]) + static_cast<std::size_t>(from) * width, bytes);
      std::memset(rows[i].data() + bytes, 0, kElementsOfRow * width - bytes);
    }
    function_(scratch.data(), 0, 1, nullptr);
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      if (!buffers_[i].written) continue;
      const std::size_t width = c10::elementSize(buffers_[i].dtype);
      std::memcpy(static_cast<char*>(pointers[i]) + static_cast<std::size_t>(from) * width, rows[i].data(), static_cast<std::size_t>(count) * width);
    }
  }

  std::vector<LoopBuffer> buffers_;
  cpu::KernelFunction function_ = nullptr;
  std::int64_t grain_ = 1;  // rows that are not worth a second thread
};

}  // namespace

std::unique_ptr<runtime::Step> make_unsized_step(std::unique_ptr<ElementsFunction> function, std::vector<UnsizedBuffer> buffers, runtime::SlotId like, UnsizedOperators operators,
                                                 std::string text) {
  return std::make_unique<UnsizedStep>(std::move(function), std::move(buffers), like, std::move(operators), std::move(text));
}

std::unique_ptr<ElementsFunction> cpu_elements_function(const Kernel& kernel, const Options& options) { return std::make_unique<CpuElements>(kernel, options); }

}  // namespace dynrun::lowering
