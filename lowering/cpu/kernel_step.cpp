#include "lowering/cpu/kernel_step.h"

#include "lowering/shared.h"
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

std::vector<std::unique_ptr<runtime::Step>> make_kernel_steps(const std::vector<Kernel>& kernels, const Options& options) {
  std::vector<GeneralKernel> forms;
  std::vector<Compilation> compilations;
  for (const Kernel& kernel : kernels) {
    const CodeShape shape = code_shape(kernel, host_target());
    forms.push_back(options.shared != nullptr ? options.shared->kernels().admit(kernel, print(shape)) : GeneralKernel{kernel, {}});
    compilations.push_back({nullptr, shape});
  }
  for (std::size_t i = 0; i < forms.size(); ++i) compilations[i].form = &forms[i].form;
  if (options.dump) {
    std::string text;
    for (const GeneralKernel& kernel : forms) text += print(kernel.form) + "\n";
    options.dump("loops", text);
  }
  std::vector<KernelFunction> functions = compile(compilations, options.dump);
  std::vector<std::unique_ptr<runtime::Step>> steps;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    std::vector<runtime::SlotId> slots;
    for (const LoopBuffer& buffer : kernels[i].buffers) slots.push_back(buffer.value);
    steps.push_back(std::make_unique<KernelStep>(kernels[i], functions[i], std::move(forms[i].arguments), std::move(slots)));
  }
  return steps;
}

}  // namespace dynrun::lowering::cpu
