#include "lowering/gpu/nvptx.h"

#include "lowering/gpu/emit.h"
#include "lowering/gpu/libdevice.h"
#include "runtime/disk_cache.h"
#include "runtime/threads.h"

#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Linker/Linker.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include <fmt/format.h>

#include <mutex>
#include <set>

namespace dynrun::lowering::gpu {
namespace {

constexpr const char* kTriple = "nvptx64-nvidia-cuda";
// What LLVM can aim at. A device that is newer runs the newest of them.
constexpr int kArchitectures[] = {90, 89, 87, 86, 80, 75, 70};

class Compiler {
 public:
  static Compiler& instance() {
    static Compiler* compiler = new Compiler;  // outlives every thread that may still compile at exit
    return *compiler;
  }

  std::vector<Function> compile(const std::vector<Compilation>& kernels, int architecture, const Dump& dump) {
    std::lock_guard lock(mutex_);
    const int target = target_for(architecture);
    std::vector<std::string> texts;
    std::vector<std::size_t> fresh;  // the first of each text that is not known
    std::set<std::string_view> met;
    texts.reserve(kernels.size());
    for (const Compilation& kernel : kernels) {
      texts.push_back(fmt::format("sm_{} {}{}", target, print(kernel.shape), print(*kernel.form)));
      if (known_.count(texts.back()) == 0 && met.insert(texts.back()).second) fresh.push_back(texts.size() - 1);
    }
    std::vector<std::string> ptx(fresh.size());
    // What is dumped is made anew, in order.
    std::vector<std::size_t> costs;
    for (std::size_t at : fresh) costs.push_back(dump ? 0 : texts[at].size());
    runtime::in_threads(costs, dump ? 1 : kMostThreads, [&](std::size_t i) { ptx[i] = ptx_of(kernels[fresh[i]], texts[fresh[i]], target, dump); });
    for (std::size_t i = 0; i < fresh.size(); ++i) {
      const std::string& text = texts[fresh[i]];
      known_.emplace(text, Function{std::make_shared<runtime::cuda::Module>(std::move(ptx[i])), name_of(kernels[fresh[i]], text)});
    }
    std::vector<Function> functions;
    for (const std::string& text : texts) functions.push_back(known_.at(text));
    return functions;
  }

 private:
  Compiler() {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  }

  /// The same in every process: what is on disk has it.
  static std::string name_of(const Compilation& kernel, const std::string& text) {
    return fmt::format("dynrun_{}_{:016x}", gpu::name_of(kernel.shape.form), std::hash<std::string>()(text));
  }

  /// From the disk, else compiled and kept there. For several threads at once.
  static std::string ptx_of(const Compilation& kernel, const std::string& text, int target, const Dump& dump) {
    constexpr const char* kKind = "ptx";
    if (!dump) {
      if (auto kept = runtime::DiskCache::instance().find(kKind, text)) return std::move(*kept);
    }
    llvm::LLVMContext context;
    llvm::Module module("kernels", context);
    const std::unique_ptr<llvm::TargetMachine> machine = machine_for(target);
    module.setTargetTriple(kTriple);
    module.setDataLayout(machine->createDataLayout());
    emit_kernel(*kernel.form, kernel.shape, target, module, name_of(kernel, text));
    check(module);
    link_mathematics(module);
    optimise(module, *machine);
    if (dump) dump("llvm", text_of(module));
    std::string ptx = assembly(module, *machine);
    if (dump) dump("asm", ptx);
    runtime::DiskCache::instance().keep(kKind, text, ptx);
    return ptx;
  }

  static int target_for(int architecture) {
    for (int known : kArchitectures) {
      if (known <= architecture) return known;
    }
    throw std::runtime_error(fmt::format("a GPU of compute capability {}.{} is too old", architecture / 10, architecture % 10));
  }

  static std::unique_ptr<llvm::TargetMachine> machine_for(int target) {
    std::string problem;
    const llvm::Target* found = llvm::TargetRegistry::lookupTarget(kTriple, problem);
    if (found == nullptr) throw std::logic_error("no NVPTX back end: " + problem);
    llvm::TargetOptions options;
    options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
    return std::unique_ptr<llvm::TargetMachine>(
        found->createTargetMachine(kTriple, fmt::format("sm_{}", target), "+ptx78", options, llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Aggressive));
  }

  static void check(const llvm::Module& module) {
    std::string problem;
    llvm::raw_string_ostream out(problem);
    if (llvm::verifyModule(module, &out)) throw std::logic_error("bad LLVM IR: " + problem);
  }

  /// What the kernels call of libdevice becomes part of the module.
  static void link_mathematics(llvm::Module& module) {
    bool needed = false;
    for (const llvm::Function& function : module) needed |= function.isDeclaration() && function.getName().starts_with("__nv_");
    if (!needed) return;
    auto library = llvm::getLazyBitcodeModule(llvm::MemoryBufferRef(libdevice(), "libdevice"), module.getContext());
    if (!library) throw std::runtime_error("libdevice cannot be read: " + llvm::toString(library.takeError()));
    (*library)->setTargetTriple(module.getTargetTriple());
    (*library)->setDataLayout(module.getDataLayout());
    if (llvm::Linker::linkModules(module, std::move(*library), llvm::Linker::LinkOnlyNeeded)) throw std::logic_error("libdevice does not link");
    for (llvm::Function& function : module) {
      if (!function.isDeclaration() && function.getName().starts_with("__nv_")) function.setLinkage(llvm::GlobalValue::InternalLinkage);
    }
  }

  static void optimise(llvm::Module& module, llvm::TargetMachine& machine) {
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
    passes.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
  }

  static std::string text_of(const llvm::Module& module) {
    std::string text;
    llvm::raw_string_ostream out(text);
    module.print(out, nullptr);
    return text;
  }

  static std::string assembly(llvm::Module& module, llvm::TargetMachine& machine) {
    llvm::SmallString<0> text;
    llvm::raw_svector_ostream out(text);
    llvm::legacy::PassManager passes;
    if (machine.addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::AssemblyFile)) throw std::logic_error("NVPTX writes no PTX");
    passes.run(module);
    return std::string(text);
  }

  std::mutex mutex_;
  std::unordered_map<std::string, Function> known_;
};

}  // namespace

std::vector<Function> compile(const std::vector<Compilation>& kernels, int architecture, const Dump& dump) {
  return Compiler::instance().compile(kernels, architecture, dump);
}

}  // namespace dynrun::lowering::gpu
