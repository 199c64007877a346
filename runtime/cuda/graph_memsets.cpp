#include "runtime/cuda/graph_memsets.h"

#include "runtime/cuda/module.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace dynrun::runtime::cuda {

const char* const kFillPtx = R"(
.version 7.0
.target sm_80
.address_size 64

.visible .entry fill(.param .u64 to, .param .u64 count, .param .u64 value, .param .u64 shift)
{
  .reg .pred %done, %wide;
  .reg .b32 %block, %threads, %thread, %blocks, %word, %shift;
  .reg .b64 %base, %count, %value, %at, %step, %offset, %address, %given;
  ld.param.u64 %base, [to];
  ld.param.u64 %count, [count];
  ld.param.u64 %value, [value];
  ld.param.u64 %given, [shift];
  cvta.to.global.u64 %base, %base;
  cvt.u32.u64 %word, %value;
  cvt.u32.u64 %shift, %given;
  setp.eq.u32 %wide, %shift, 4;
  mov.u32 %block, %ctaid.x;
  mov.u32 %threads, %ntid.x;
  mov.u32 %thread, %tid.x;
  mov.u32 %blocks, %nctaid.x;
  cvt.u64.u32 %at, %thread;
  mad.wide.u32 %at, %block, %threads, %at;
  mul.wide.u32 %step, %blocks, %threads;
next:
  setp.ge.u64 %done, %at, %count;
  @%done bra end;
  shl.b64 %offset, %at, %shift;
  add.s64 %address, %base, %offset;
  @%wide st.global.v4.u32 [%address], {%word, %word, %word, %word};
  @!%wide st.global.u32 [%address], %word;
  add.s64 %at, %at, %step;
  bra next;
end:
  ret;
}
)";

namespace {

constexpr std::uint64_t kThreads = 256;
constexpr std::uint64_t kMostBlocks = 1024;

/// One memset as a launch of the kernel: `count` parts of 1 << shift bytes.
struct Fill {
  std::uint64_t to, count, value, shift;
};

/// None where whole words cannot do it.
std::optional<Fill> fill_of(const cudaMemsetParams& memset) {
  const auto to = reinterpret_cast<std::uint64_t>(memset.dst);
  const std::uint64_t bytes = memset.width * memset.elementSize;
  if (memset.height != 1 || bytes == 0 || bytes % 4 != 0 || to % 4 != 0) return std::nullopt;
  std::uint64_t value = memset.value;
  if (memset.elementSize == 1) value = (value & 0xff) * 0x01010101U;
  if (memset.elementSize == 2) value = (value & 0xffff) * 0x00010001U;
  const std::uint64_t shift = bytes % 16 == 0 && to % 16 == 0 ? 4 : 2;
  return Fill{to, bytes >> shift, value, shift};
}

using Nodes = std::vector<cudaGraphNode_t>;

/// The nodes that `ask` names. None where an edge is of a special kind.
template <typename Ask>
std::optional<Nodes> neighbours(cudaGraphNode_t node, Ask ask) {
  std::size_t count = 0;
  if (ask(node, nullptr, nullptr, &count) != cudaSuccess) return std::nullopt;
  Nodes nodes(count);
  std::vector<cudaGraphEdgeData> edges(count);
  if (count > 0 && ask(node, nodes.data(), edges.data(), &count) != cudaSuccess) return std::nullopt;
  const bool plain = std::all_of(edges.begin(), edges.end(), [](const cudaGraphEdgeData& edge) { return edge.type == 0 && edge.from_port == 0 && edge.to_port == 0; });
  return plain ? std::optional(std::move(nodes)) : std::nullopt;
}

CUfunction fill_kernel(int device) {
  static auto* module = new Module(kFillPtx);  // its kernel may be under way at exit
  return module->function(device, "fill");
}

/// False where nothing was changed.
bool replace(cudaGraph_t graph, cudaGraphNode_t node, int device) {
  cudaMemsetParams memset{};
  if (cudaGraphMemsetNodeGetParams(node, &memset) != cudaSuccess) return false;
  std::optional<Fill> fill = fill_of(memset);
  const std::optional<Nodes> before = neighbours(node, cudaGraphNodeGetDependencies), behind = neighbours(node, cudaGraphNodeGetDependentNodes);
  if (!fill || !before || !behind) return false;
  void* parameters[] = {&fill->to, &fill->count, &fill->value, &fill->shift};
  CUDA_KERNEL_NODE_PARAMS launch{};
  launch.func = fill_kernel(device);
  launch.gridDimX = static_cast<unsigned>(std::min(kMostBlocks, (fill->count + kThreads - 1) / kThreads));
  launch.blockDimX = static_cast<unsigned>(kThreads);
  launch.gridDimY = launch.gridDimZ = launch.blockDimY = launch.blockDimZ = 1;
  launch.kernelParams = parameters;
  CUgraphNode made = nullptr;
  check(Driver::instance().add_kernel(&made, graph, before->data(), before->size(), &launch), "adding a kernel to a graph");
  const Nodes from(behind->size(), made);
  const bool linked = behind->empty() || cudaGraphAddDependencies(graph, from.data(), behind->data(), nullptr, behind->size()) == cudaSuccess;
  cudaGraphDestroyNode(linked ? node : made);
  return linked;
}

}  // namespace

void replace_memsets(CUgraph graph, int device) {
  std::size_t count = 0;
  if (cudaGraphGetNodes(graph, nullptr, &count) != cudaSuccess) return;
  Nodes nodes(count);
  if (cudaGraphGetNodes(graph, nodes.data(), &count) != cudaSuccess) return;
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
    if (cudaGraphNodeGetType(node, &type) == cudaSuccess && type == cudaGraphNodeTypeMemset && !replace(graph, node, device)) cudaGetLastError();
  }
}

}  // namespace dynrun::runtime::cuda
