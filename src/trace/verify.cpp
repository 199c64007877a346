#include "trace/verify.h"

#include "runtime/executable.h"
#include "trace/operator_keys.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <unordered_map>

namespace dynrun::trace {
namespace {

/// Memory that one or several storages lie in: two of them may share it behind torch's back, by way of numpy.
struct Memory {
  const char *begin, *end;
  at::Tensor copy;  // bytes
};

std::optional<Memory> memory_of(const at::Tensor& tensor) {
  auto* begin = static_cast<const char*>(tensor.storage().data());
  return tensor.is_cpu() && begin ? std::optional(Memory{begin, begin + tensor.storage().nbytes(), {}}) : std::nullopt;
}

std::vector<Memory> copy_memory(const std::vector<at::Tensor>& inputs, const std::vector<bool>& only_read) {
  std::vector<Memory> ranges, merged;
  for (std::size_t i = 0; i < inputs.size(); i++) {
    std::optional<Memory> range = memory_of(inputs[i]);
    if (range && !(i < only_read.size() && only_read[i])) ranges.push_back(*range);
  }
  std::sort(ranges.begin(), ranges.end(), [](const Memory& a, const Memory& b) { return a.begin < b.begin; });
  for (const Memory& range : ranges) {
    if (!merged.empty() && range.begin < merged.back().end) merged.back().end = std::max(merged.back().end, range.end);
    else if (range.begin != range.end) merged.push_back(range);
  }
  for (Memory& memory : merged) {
    memory.copy = at::empty({memory.end - memory.begin}, at::kByte);
    std::memcpy(memory.copy.data_ptr(), memory.begin, static_cast<std::size_t>(memory.end - memory.begin));
  }
  return merged;
}

/// A storage as `original` is, over the copy of its memory; without memory (meta tensors, no elements) one of its own.
c10::Storage copy_storage(const at::Tensor& original, const std::vector<Memory>& memories) {
  auto bytes = static_cast<std::int64_t>(original.storage().nbytes());
  auto* begin = static_cast<const char*>(original.storage().data());
  auto memory = std::find_if(memories.begin(), memories.end(), [&](const Memory& m) { return m.begin <= begin && begin < m.end; });
  if (!original.is_cpu() || !begin || memory == memories.end()) {
    at::Tensor whole = at::empty({bytes}, at::TensorOptions().dtype(at::kByte).device(original.device()));
    whole.copy_(at::empty({0}, whole.options()).set_(original.storage(), 0, {bytes}, {1}));
    return whole.storage();
  }
  char* place = static_cast<char*>(memory->copy.data_ptr()) + (begin - memory->begin);
  return at::from_blob(place, {bytes}, [kept = memory->copy](void*) {}, at::kByte).storage();
}

/// Whether a tensor that is only read may stand for its copy: none of its memory is written under another name either.
bool stands_for_itself(const at::Tensor& tensor, const std::vector<Memory>& memories) {
  const std::optional<Memory> own = memory_of(tensor);
  return own && tensor.is_contiguous() && std::none_of(memories.begin(), memories.end(), [&](const Memory& m) { return m.begin < own->end && own->begin < m.end; });
}

/// Memory that nobody has written: two runs need not find the same in it.
bool is_uninitialised(const graph::Graph& graph, graph::ValueId value) {
  int writers = 0;
  bool empty = false;
  for (const graph::Node& node : graph.nodes) {
    if (std::find(node.outputs.begin(), node.outputs.end(), value) == node.outputs.end()) continue;
    writers++;
    const std::string& name = node.op.schema().name();
    empty = name.rfind("aten::empty", 0) == 0 || name.rfind("aten::new_empty", 0) == 0;
  }
  return empty && writers == 1;
}

struct Tolerance {
  double relative, absolute;
};

Tolerance tolerance_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kBFloat16:
    case at::kHalf: return {1.6e-2, 1e-2};
    case at::kDouble: return {1e-7, 1e-7};
    default: return {1e-3, 1e-3};
  }
}

/// On a GPU libraries' own results are this far from the exact ones, now and then: convolutions that round to TF32, sums of half types
/// that are rounded as they grow. Not element by element, but as a whole.
bool is_near(const at::Tensor& got, const at::Tensor& want) {
  constexpr double kFar = 5e-3;
  if (!got.is_cuda() || !got.is_floating_point() || got.scalar_type() == at::kDouble || got.numel() == 0) return false;
  const at::Tensor expected = want.to(at::kDouble), difference = (got.to(at::kDouble) - expected).abs_();
  const bool finite = difference.isfinite().all().item<bool>();
  return finite && difference.norm().item<double>() <= kFar * expected.norm().item<double>() && difference.max().item<double>() <= 2 * kFar * expected.abs().max().item<double>();
}

bool is_same(const at::Tensor& got, const at::Tensor& want) {
  if (got.sizes() != want.sizes() || got.strides() != want.strides() || got.scalar_type() != want.scalar_type()) return false;
  if (got.is_meta()) return true;
  auto comparable = [](const at::Tensor& tensor) { return tensor.is_floating_point() || tensor.is_complex() ? tensor.detach() : tensor.detach().to(at::kDouble); };
  const Tolerance tolerance = tolerance_of(got);
  return at::allclose(comparable(got), comparable(want), tolerance.relative, tolerance.absolute, true) || is_near(got.detach(), want.detach());
}

}  // namespace

void end_program(const std::string& problem) {
  std::fprintf(stderr, "dynrun: --verify: %s\n", problem.c_str());
  std::abort();
}

std::vector<at::Tensor> snapshot(const std::vector<at::Tensor>& inputs, const std::vector<bool>& only_read) {
  std::unordered_map<const void*, c10::Storage> storages;
  std::vector<at::Tensor> copies;
  c10::impl::ExcludeDispatchKeyGuard uncounted(kRecordedKeys);
  at::AutoDispatchBelowADInplaceOrView below;
  const std::vector<Memory> memories = copy_memory(inputs, only_read);
  for (std::size_t i = 0; i < inputs.size(); i++) {
    const at::Tensor& input = inputs[i];
    if (i < only_read.size() && only_read[i] && stands_for_itself(input, memories)) {
      copies.push_back(input.requires_grad() ? input.detach() : input);
      continue;
    }
    c10::InferenceMode mode(input.is_inference());
    auto [at, fresh] = storages.try_emplace(input.storage().unsafeGetStorageImpl());
    if (fresh) at->second = copy_storage(input, memories);
    at::Tensor copy = at::empty({0}, input.options()).set_(at->second, input.storage_offset(), input.sizes(), input.strides());
    if (input.is_conj()) copy._set_conj(true);
    if (input.is_neg()) copy._set_neg(true);
    if (input.unsafeGetTensorImpl()->is_wrapped_number()) copy.unsafeGetTensorImpl()->set_wrapped_number(true);
    // `data` of an inference tensor, asked for outside of inference mode, counts its versions: it may be written there.
    if (input.is_inference() && input.unsafeGetTensorImpl()->version_counter().enabled()) {
      const c10::InferenceMode outside(false);
      copy = copy.variable_data();
    }
    copies.push_back(copy);
  }
  return copies;
}

void verify_outputs(const std::shared_ptr<const graph::Graph>& recorded, const std::vector<at::Tensor>& copies, const std::vector<at::Tensor>& outputs) {
  const graph::Graph& graph = *recorded;
  if (graph.any_grad_mode() && std::any_of(outputs.begin(), outputs.end(), [](const at::Tensor& t) { return t.requires_grad(); })) return;
  c10::NoGradGuard no_grad;
  std::vector<at::Tensor> expected;
  try {
    expected = runtime::make_replayer(recorded)->run(copies);
  } catch (const std::exception& error) {
    throw VerifyError(std::string("the operators raise where the segment did not: ") + error.what());
  }
  for (std::size_t i = 0; i < outputs.size(); i++) {
    if (is_uninitialised(graph, graph.outputs[i])) continue;
    const at::Tensor &got = outputs[i], &want = expected[i];
    if (is_same(got, want)) continue;
    auto form = [](const at::Tensor& tensor) { return fmt::format("{}[{}] strides [{}]", toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "), fmt::join(tensor.strides(), ", ")); };
    throw VerifyError(fmt::format("output {} ({}) of the segment, {}, differs from the operators' own result, {}", i,
                                  graph.values[static_cast<std::size_t>(graph.outputs[i])].name, form(got), form(want)));
  }
}

void verify_unwritten(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& copies) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < copies.size(); i++) {
    const at::Tensor now = inputs[i].resolve_conj().resolve_neg().contiguous(), before = copies[i].resolve_conj().resolve_neg().contiguous();
    if (now.nbytes() == before.nbytes() && std::memcmp(now.const_data_ptr(), before.const_data_ptr(), now.nbytes()) == 0) continue;
    end_program("a replay raised after it had written an outside tensor");
  }
}

}  // namespace dynrun::trace
