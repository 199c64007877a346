#include "lowering/cpu/jit.h"

#include "graph/visit.h"
#include "lowering/cpu/emit.h"
#include "lowering/emit/math.h"
#include "runtime/disk_cache.h"
#include "runtime/threads.h"

#include <ATen/Parallel.h>

#include <llvm/ExecutionEngine/Orc/CompileUtils.h>
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
#include <set>
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

  std::vector<KernelFunction> compile(const std::vector<Compilation>& kernels, const Dump& dump) {
    std::lock_guard lock(mutex_);
    std::vector<std::string> texts;
    std::vector<std::size_t> fresh;  // the first of each text that is not known
    std::set<std::string_view> met;
    texts.reserve(kernels.size());
    for (const Compilation& kernel : kernels) {
      texts.push_back(print(kernel.shape) + print(*kernel.form));
      if (known_.count(texts.back()) == 0 && met.insert(texts.back()).second) fresh.push_back(texts.size() - 1);
    }
    std::vector<std::unique_ptr<llvm::MemoryBuffer>> objects(fresh.size());
    // What is dumped is made anew, in order.
    runtime::in_threads(fresh.size(), dump ? 1 : static_cast<std::size_t>(at::get_num_threads()),
                        [&](std::size_t i) { objects[i] = object_of(kernels[fresh[i]], texts[fresh[i]], dump); });
    for (std::unique_ptr<llvm::MemoryBuffer>& object : objects) check(jit_->addObjectFile(std::move(object)));
    for (std::size_t at : fresh) known_[texts[at]] = check(jit_->lookup(name_of(texts[at]))).toPtr<KernelFunction>();
    std::vector<KernelFunction> functions;
    for (const std::string& text : texts) functions.push_back(known_.at(text));
    return functions;
  }

 private:
  /// The same in every process: the object on disk has it.
  static std::string name_of(const std::string& text) { return fmt::format("dynrun_kernel_{:016x}", std::hash<std::string>()(text)); }

  /// From the disk, else compiled and kept there. For several threads at once.
  std::unique_ptr<llvm::MemoryBuffer> object_of(const Compilation& kernel, const std::string& text, const Dump& dump) {
    constexpr const char* kKind = "o";
    const std::string key = host_ + text;
    if (!dump) {
      if (const auto kept = runtime::DiskCache::instance().find(kKind, key)) return llvm::MemoryBuffer::getMemBufferCopy(*kept);
    }
    llvm::LLVMContext context;
    llvm::Module module("kernels", context);
    module.setDataLayout(jit_->getDataLayout());
    const std::unique_ptr<llvm::TargetMachine> machine = check(builder_->createTargetMachine());
    emit_kernel(kernel, host_target(), module, name_of(text));
    optimise(module, *machine);
    if (dump) {
      dump("llvm", text_of(module));
      dump("asm", assembly(module, *machine));
    }
    std::unique_ptr<llvm::MemoryBuffer> object = check(llvm::orc::SimpleCompiler(*machine)(module));
    runtime::DiskCache::instance().keep(kKind, key, {object->getBufferStart(), object->getBufferSize()});
    return object;
  }

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
    host_ = fmt::format("{} {} {}\n", builder.getTargetTriple().str(), builder.getCPU(), builder.getFeatures().getString());
    builder_ = std::make_unique<llvm::orc::JITTargetMachineBuilder>(builder);
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

  static std::string text_of(const llvm::Module& module) {
    std::string text;
    llvm::raw_string_ostream out(text);
    module.print(out, nullptr);
    return text;
  }

  static std::string assembly(const llvm::Module& module, llvm::TargetMachine& machine) {
    std::unique_ptr<llvm::Module> copy = llvm::CloneModule(module);
    llvm::SmallString<0> text;
    llvm::raw_svector_ostream out(text);
    llvm::legacy::PassManager passes;
    if (machine.addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::AssemblyFile)) return "";
    passes.run(*copy);
    return std::string(text);
  }

  /// The emitter writes loops and vectors itself: what is left is to promote accumulators, share and hoist.
  static void optimise(llvm::Module& module, llvm::TargetMachine& machine) {
    std::string problem;
    llvm::raw_string_ostream out(problem);
    if (llvm::verifyModule(module, &out)) throw std::logic_error("bad LLVM IR: " + problem);
    llvm::LoopAnalysisManager loops;
    llvm::FunctionAnalysisManager functions;
    llvm::CGSCCAnalysisManager components;
    llvm::ModuleAnalysisManager modules;
    llvm::PassBuilder passes(&machine);
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
  std::string host_;  // what the code is for
  std::unique_ptr<llvm::orc::JITTargetMachineBuilder> builder_;
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

std::vector<KernelFunction> compile(const std::vector<Compilation>& kernels, const Dump& dump) {
  return Jit::instance().compile(kernels, dump);
}

}  // namespace dynrun::lowering::cpu
