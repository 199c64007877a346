#include "lowering/cpu/jit.h"

#include "graph/visit.h"
#include "lowering/cpu/emit.h"
#include "lowering/emit/math.h"

#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/PassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/DCE.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include <fmt/format.h>

#include <cstdlib>
#include <mutex>
#include <string_view>

namespace dynrun::lowering::cpu {
namespace {

template <typename T>
T check(llvm::Expected<T> value) {
  if (!value) throw std::runtime_error("the JIT failed: " + llvm::toString(value.takeError()));
  return std::move(*value);
}

void check(llvm::Error error) {
  if (error) throw std::runtime_error("the JIT failed: " + llvm::toString(std::move(error)));
}

/// For tests: kernels for a lesser processor than the one at hand, "haswell" (AVX2) or "x86-64" (SSE2). Null: the host's.
const char* lesser_processor() { return std::getenv("DYNRUN_CPU"); }

class Jit {
 public:
  static Jit& instance() {
    static Jit* jit = new Jit;  // outlives every thread that may still run a kernel at exit
    return *jit;
  }

  std::vector<KernelFunction> compile(const std::vector<Compilation>& kernels,
                                      const std::function<void(const std::string&, const std::string&)>& dump) {
    std::lock_guard lock(mutex_);
    std::vector<std::string> texts;
    for (const Compilation& kernel : kernels) texts.push_back(print(kernel.shape) + print(*kernel.form));
    auto context = std::make_unique<llvm::LLVMContext>();
    auto module = std::make_unique<llvm::Module>("kernels", *context);
    module->setDataLayout(jit_->getDataLayout());
    std::vector<std::pair<std::string, std::string>> added;  // text, name
    Forget forget{known_, added};
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      if (known_.count(texts[i]) != 0) continue;
      std::string name = "dynrun_kernel_" + std::to_string(next_name_++);
      emit_kernel(kernels[i], host_target(), *module, name);
      known_.emplace(texts[i], nullptr);
      added.emplace_back(texts[i], name);
    }
    if (!added.empty()) {
      optimise(*module);
      if (dump) {
        std::string text;
        llvm::raw_string_ostream out(text);
        module->print(out, nullptr);
        dump("llvm", text);
        dump("asm", assembly(*module));
      }
      check(jit_->addIRModule(llvm::orc::ThreadSafeModule(std::move(module), std::move(context))));
      for (const auto& [text, name] : added) known_[text] = check(jit_->lookup(name)).toPtr<KernelFunction>();
    }
    forget.armed = false;
    std::vector<KernelFunction> functions;
    for (const std::string& text : texts) functions.push_back(known_.at(text));
    return functions;
  }

 private:
  /// Kernels that did not get compiled must not stay known.
  struct Forget {
    std::unordered_map<std::string, KernelFunction>& known;
    std::vector<std::pair<std::string, std::string>>& added;
    bool armed = true;
    ~Forget() {
      if (!armed) return;
      for (const auto& [text, name] : added) known.erase(text);
    }
  };

  Jit() {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    auto builder = check(llvm::orc::JITTargetMachineBuilder::detectHost());
    if (const char* processor = lesser_processor()) {
      builder = llvm::orc::JITTargetMachineBuilder(builder.getTargetTriple());
      builder.setCPU(processor);
    }
    // With instructions for float16 the optimiser would compute in it, and fuse a product with a sum without the rounding between.
    builder.addFeatures({"-avx512fp16"});
    builder.setCodeGenOptLevel(llvm::CodeGenOptLevel::Default);
    builder.getOptions().AllowFPOpFusion = llvm::FPOpFusion::Standard;
    machine_ = check(builder.createTargetMachine());
    jit_ = check(llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(builder).create());
    llvm::orc::SymbolMap symbols;
    for (const auto& [name, address] : emit::Math::libm_functions()) {
      symbols[jit_->mangleAndIntern(name)] = {llvm::orc::ExecutorAddr::fromPtr(address), llvm::JITSymbolFlags::Exported};
    }
    static const std::pair<const char*, void*> kMemory[] = {{"memcpy", reinterpret_cast<void*>(std::memcpy)},
                                                            {"memset", reinterpret_cast<void*>(std::memset)},
                                                            {"memmove", reinterpret_cast<void*>(std::memmove)}};
    for (const auto& [name, address] : kMemory) {
      symbols[jit_->mangleAndIntern(name)] = {llvm::orc::ExecutorAddr::fromPtr(address), llvm::JITSymbolFlags::Exported};
    }
    check(jit_->getMainJITDylib().define(llvm::orc::absoluteSymbols(std::move(symbols))));
  }

  std::string assembly(const llvm::Module& module) {
    std::unique_ptr<llvm::Module> copy = llvm::CloneModule(module);
    llvm::SmallString<0> text;
    llvm::raw_svector_ostream out(text);
    llvm::legacy::PassManager passes;
    if (machine_->addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::AssemblyFile)) return "";
    passes.run(*copy);
    return std::string(text);
  }

  /// The emitter writes loops and vectors itself: what is left is to promote accumulators, share and hoist.
  void optimise(llvm::Module& module) {
    std::string problem;
    llvm::raw_string_ostream out(problem);
    if (llvm::verifyModule(module, &out)) throw std::logic_error("bad LLVM IR: " + problem);
    llvm::LoopAnalysisManager loops;
    llvm::FunctionAnalysisManager functions;
    llvm::CGSCCAnalysisManager components;
    llvm::ModuleAnalysisManager modules;
    llvm::PassBuilder passes(machine_.get());
    passes.registerModuleAnalyses(modules);
    passes.registerCGSCCAnalyses(components);
    passes.registerFunctionAnalyses(functions);
    passes.registerLoopAnalyses(loops);
    passes.crossRegisterProxies(loops, functions, components, modules);
    llvm::FunctionPassManager pipeline;
    pipeline.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
    pipeline.addPass(llvm::EarlyCSEPass(true));
    pipeline.addPass(llvm::InstCombinePass());
    pipeline.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), true));
    pipeline.addPass(llvm::EarlyCSEPass(true));
    pipeline.addPass(llvm::SimplifyCFGPass());
    pipeline.addPass(llvm::DCEPass());
    for (llvm::Function& function : module) {
      if (!function.isDeclaration()) pipeline.run(function, functions);
    }
  }

  std::mutex mutex_;
  int next_name_ = 0;
  std::unique_ptr<llvm::TargetMachine> machine_;
  std::unique_ptr<llvm::orc::LLJIT> jit_;
  std::unordered_map<std::string, KernelFunction> known_;
};

}  // namespace

const Target& host_target() {
  static const Target target = [] {
    Target found;
    llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
    if (const char* processor = lesser_processor()) {
      for (const char* name : {"avx512f", "avx512bw", "avx512vl", "avx512dq"}) features[name] = false;
      if (std::string_view(processor) != "haswell") features["avx2"] = features["fma"] = features["f16c"] = false;
    }
    if (features.lookup("avx2") && features.lookup("fma")) found.vector_bits = 256;
    if (found.vector_bits == 256 && features.lookup("avx512f") && features.lookup("avx512bw") && features.lookup("avx512vl") &&
        features.lookup("avx512dq")) {
      found.vector_bits = 512;
    }
    found.half_conversion = features.lookup("f16c");
    return found;
  }();
  return target;
}

bool host_has_types(const graph::Graph& graph, const graph::Node& node) {
  if (host_target().half_conversion) return true;
  bool half = false;
  auto look = [&](graph::ValueId id) {
    const graph::Value& value = graph.values[static_cast<std::size_t>(id)];
    half |= value.is_tensor() && value.tensor().dtype == c10::ScalarType::Half;
  };
  graph::visit_values(node, look);
  for (graph::ValueId id : node.outputs) {
    if (id != graph::kNoValue) look(id);
  }
  return !half;
}

UnitShape unit_shape(const Kernel& kernel, const Target& target) {
  UnitShape shape;
  std::int64_t inside = kernel.row_elements();
  if (kernel.vector_rows) {
    std::int64_t lanes = target.float_lanes(), last = kernel.dims[static_cast<std::size_t>(kernel.outer) - 1];
    shape.units = kernel.rows() / last * ((last + lanes - 1) / lanes);
    shape.elements = inside * lanes;
    return shape;
  }
  std::int64_t innermost = kernel.dims.back();
  bool plain = !kernel.has_reduction() && kernel.dims.size() == static_cast<std::size_t>(kernel.outer) + 1;
  if (plain && innermost >= 2 * kBlock) shape.blocks = (innermost + kBlock - 1) / kBlock;
  shape.units = kernel.rows() * shape.blocks;
  shape.elements = inside / shape.blocks;
  return shape;
}

CodeShape code_shape(const Kernel& kernel, const Target& target) {
  CodeShape shape;
  const std::int64_t lanes = target.float_lanes();
  if (!kernel.vector_rows && kernel.has_reduction()) {
    const std::int64_t turns = kernel.dims.back() / lanes;
    shape.unroll = turns >= 8 ? 4 : turns >= 4 ? 2 : 1;
  }
  const bool one_inner_loop = kernel.dims.size() == static_cast<std::size_t>(kernel.outer) + 1;
  shape.keeps_values = one_inner_loop && kernel.row_elements() * (kernel.vector_rows ? lanes : 1) <= kLongestKeptRow;
  shape.has_blocks = unit_shape(kernel, target).blocks > 1;
  return shape;
}

std::string print(const CodeShape& shape) {
  return fmt::format("unroll {}{}{}\n", shape.unroll, shape.keeps_values ? " keep" : "", shape.has_blocks ? " blocks" : "");
}

std::int64_t grain_of(const Kernel& kernel, std::int64_t unit_elements) {
  // libtorch's grain is 32768 elements of one operator; a fused kernel does the work of several.
  constexpr std::int64_t kGrain = 32768;
  const auto work = static_cast<std::int64_t>(1 + kernel.ops.size() / 4);
  return std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, unit_elements * work));
}

std::vector<KernelFunction> compile(const std::vector<Compilation>& kernels,
                                    const std::function<void(const std::string&, const std::string&)>& dump) {
  return Jit::instance().compile(kernels, dump);
}

}  // namespace dynrun::lowering::cpu
