#include "lowering/gpu/kernel_step.h"

#include "lowering/gpu/nvptx.h"
#include "lowering/shared.h"
#include "runtime/cuda/launch.h"
#include "runtime/threads.h"

#include <set>

namespace dynrun::lowering::gpu {
namespace {

/// A function and how it is launched.
struct Variant {
  Function function;
  CodeShape shape;
  std::int64_t blocks = 0;
  mutable CUfunction loaded = nullptr;
};

class KernelStep final : public runtime::Step {
 public:
  KernelStep(Kernel kernel, GeneralKernel general, Variant variant, int device, int architecture)
      : kernel_(std::move(kernel)), arguments_(std::move(general.arguments)), general_(std::move(general.form)), device_(device), architecture_(architecture), vector_(std::move(variant)) {}

  void run(runtime::Slots& slots) const override {
    runtime::cuda::Launch launch;
    launch.aligned = true;
    for (const LoopBuffer& buffer : kernel_.buffers) {
      const at::Tensor& tensor = slots[buffer.value];
      launch.slots.push_back(buffer.value);
      launch.pointers.push_back(buffer.written ? tensor.mutable_data_ptr() : const_cast<void*>(tensor.const_data_ptr()));
      launch.aligned = launch.aligned && reinterpret_cast<std::uintptr_t>(launch.pointers.back()) % runtime::cuda::kAlignment == 0;
    }
    const Variant& variant = launch.aligned ? vector_ : scalar();
    launch.function = function_of(variant);
    launch.blocks = static_cast<unsigned>(variant.blocks);
    launch.behind = static_cast<unsigned>(threads_behind(variant.shape));
    launch.across = static_cast<unsigned>(variant.shape.threads) / launch.behind;
    launch.arguments = arguments_;
    runtime::cuda::launch(launch, device_);
  }

  runtime::StepKind kind() const override { return runtime::StepKind::kKernel; }
  std::string describe() const override { return print(vector_.shape) + print(kernel_); }

 private:
  CUfunction function_of(const Variant& variant) const {
    std::lock_guard lock(mutex_);
    if (variant.loaded == nullptr) variant.loaded = variant.function.module->function(device_, variant.function.name);
    return variant.loaded;
  }

  /// For buffers that begin anywhere.
  const Variant& scalar() const {
    std::lock_guard lock(mutex_);
    if (!scalar_) {
      scalar_ = Variant{{}, code_shape(kernel_, false), 0};
      scalar_->blocks = blocks_of(kernel_, scalar_->shape);
      scalar_->function = compile({{&general_, scalar_->shape}}, architecture_, nullptr)[0];
      scalar_->function.module->prepare(architecture_);
    }
    return *scalar_;
  }

  Kernel kernel_;
  std::vector<std::int64_t> arguments_;
  Kernel general_;
  int device_, architecture_;
  mutable std::mutex mutex_;  // of what a first launch adds
  Variant vector_;
  mutable std::optional<Variant> scalar_;
};

/// A thread computes one element; how many there are is the function's argument.
class Elements final : public ElementsFunction {
 public:
  Elements(Kernel kernel, int device, const Options& options) : device_(device) {
    kernel.dims = {argument(0)};
    kernel.outer = 0;
    shape_.wide = true;
    function_ = compile({{&kernel, shape_}}, runtime::cuda::architecture_of(device), options.dump).front();
  }

  void run(const std::vector<void*>& pointers, std::int64_t elements) const override {
    runtime::cuda::Launch launch;
    launch.function = function_.module->function(device_, function_.name);
    launch.pointers = pointers;
    launch.arguments = {elements};
    launch.across = static_cast<unsigned>(shape_.threads);
    launch.blocks = static_cast<unsigned>((elements + shape_.threads - 1) / shape_.threads);
    runtime::cuda::launch(launch, device_);
  }

 private:
  int device_;
  CodeShape shape_;
  Function function_;
};

}  // namespace

std::unique_ptr<ElementsFunction> make_elements_function(Kernel kernel, int device, const Options& options) {
  return std::make_unique<Elements>(std::move(kernel), device, options);
}

/// The oldest that is tested, whose code runs on newer ones, or what the environment asks for.
static int dumped_architecture() {
  constexpr int kOldest = 80;
  const char* asked = std::getenv("DYNRUN_PTX_TARGET");
  return asked != nullptr ? std::max(kOldest, std::atoi(asked)) : kOldest;
}

void dump_ptx(const std::vector<Kernel>& kernels, const std::function<void(const std::string&, const std::string&)>& dump) {
  const int architecture = dumped_architecture();
  std::vector<Compilation> compilations;
  for (const Kernel& kernel : kernels) compilations.push_back({&kernel, code_shape(kernel, true)});
  const std::vector<Function> functions = compile(compilations, architecture, nullptr);
  std::set<const runtime::cuda::Module*> told;
  for (const Function& function : functions) {
    if (told.insert(function.module.get()).second) dump("ptx", function.module->ptx());
  }
}

/// Each module once: those who want one that is on its way wait.
static void assemble(const std::vector<Function>& functions, int architecture) {
  std::vector<runtime::cuda::Module*> modules;
  std::set<const runtime::cuda::Module*> met;
  std::vector<std::size_t> costs;
  for (const Function& function : functions) {
    if (!met.insert(function.module.get()).second) continue;
    modules.push_back(function.module.get());
    costs.push_back(function.module->ptx().size());
  }
  runtime::in_threads(costs, kMostThreads, [&](std::size_t i) { modules[i]->prepare(architecture); });
}

std::vector<std::unique_ptr<runtime::Step>> make_kernel_steps(std::vector<Kernel> kernels, int device, const Options& options) {
  const int architecture = runtime::cuda::architecture_of(device);
  std::vector<GeneralKernel> forms;
  std::vector<Compilation> compilations;
  for (const Kernel& kernel : kernels) {
    const CodeShape shape = code_shape(kernel, true);
    forms.push_back(options.shared != nullptr ? options.shared->kernels().admit(kernel, "cuda " + print(shape)) : GeneralKernel{kernel, {}});
    compilations.push_back({nullptr, shape});
  }
  std::string text;
  for (std::size_t i = 0; i < forms.size(); ++i) {
    compilations[i].form = &forms[i].form;
    if (options.dump) text += print(compilations[i].shape) + print(forms[i].form) + "\n";
  }
  if (options.dump) options.dump("loops", text);
  std::vector<Function> functions = compile(compilations, architecture, options.dump);
  assemble(functions, architecture);
  std::vector<std::unique_ptr<runtime::Step>> steps;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const std::int64_t blocks = blocks_of(kernels[i], compilations[i].shape);
    steps.push_back(std::make_unique<KernelStep>(std::move(kernels[i]), std::move(forms[i]), Variant{functions[i], compilations[i].shape, blocks}, device, architecture));
  }
  return steps;
}

}  // namespace dynrun::lowering::gpu
