#include "lowering/cpu/kernel_step.h"

#include "runtime/plan.h"

namespace dynrun::lowering::cpu {
namespace {

class KernelStep final : public runtime::Step {
 public:
  KernelStep(const Kernel& kernel, KernelFunction function, std::vector<std::int64_t> arguments, std::vector<runtime::SlotId> slots)
      : function_(function), arguments_(std::move(arguments)), slots_(std::move(slots)), text_(print(kernel)) {
    for (const LoopBuffer& buffer : kernel.buffers) written_.push_back(buffer.written);
    UnitShape shape = unit_shape(kernel, host_target());
    units_ = shape.units;
    grain_ = grain_of(kernel, shape.elements);
  }

  void run(runtime::Slots& slots) const override {
    std::array<void*, 16> few;
    std::vector<void*> many;
    void** buffers = few.data();
    if (slots_.size() > few.size()) {
      many.resize(slots_.size());
      buffers = many.data();
    }
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      const at::Tensor& tensor = slots[slots_[i]];
      buffers[i] = written_[i] ? tensor.mutable_data_ptr() : const_cast<void*>(tensor.const_data_ptr());
    }
    if (units_ <= grain_) {
      function_(buffers, 0, units_, arguments_.data());
    } else {
      runtime::parallel_for(units_, grain_, [&](std::int64_t begin, std::int64_t end) { function_(buffers, begin, end, arguments_.data()); });
    }
  }

  runtime::StepKind kind() const override { return runtime::StepKind::kKernel; }
  std::string describe() const override { return text_; }

 private:
  KernelFunction function_;
  std::vector<std::int64_t> arguments_;
  std::vector<runtime::SlotId> slots_;
  std::vector<bool> written_;
  std::int64_t units_ = 1, grain_ = 1;
  std::string text_;
};

}  // namespace

std::unique_ptr<runtime::Step> make_kernel_step(const Kernel& kernel, KernelFunction function, std::vector<std::int64_t> arguments,
                                                std::vector<runtime::SlotId> slots) {
  return std::make_unique<KernelStep>(kernel, function, std::move(arguments), std::move(slots));
}

}  // namespace dynrun::lowering::cpu
