#include "runtime/random_state.h"

#include "graph/operators.h"
#include "graph/visit.h"

#include <ATen/Context.h>

#include <algorithm>
#include <mutex>

namespace dynrun::runtime {

std::vector<c10::Device> drawn_from(const graph::Graph& graph, const graph::Node& node) {
  if (!graph::draws_random(node)) return {};
  std::vector<c10::Device> devices;
  auto add = [&](graph::ValueId id) {
    if (id == graph::kNoValue || !graph.values[static_cast<std::size_t>(id)].is_tensor()) return;
    const c10::Device device = graph.type_of(id).device;
    if (std::find(devices.begin(), devices.end(), device) == devices.end()) devices.push_back(device);
  };
  graph::visit_values(node, add);
  std::for_each(node.outputs.begin(), node.outputs.end(), add);
  return devices;
}

std::vector<c10::Device> drawn_from(const graph::Graph& graph) {
  std::vector<c10::Device> devices;
  for (const graph::Node& node : graph.nodes) {
    for (const c10::Device device : drawn_from(graph, node)) {
      if (std::find(devices.begin(), devices.end(), device) == devices.end()) devices.push_back(device);
    }
  }
  return devices;
}

RandomState::RandomState(const std::vector<c10::Device>& devices) {
  for (const c10::Device device : devices) {
    if (!device.is_cpu() && !device.is_cuda()) continue;
    at::Generator generator = at::globalContext().defaultGenerator(device);
    const std::lock_guard<std::mutex> lock(generator.mutex());
    saved_.emplace_back(generator, generator.get_state());
  }
}

void RandomState::restore() const {
  for (const auto& [kept, state] : saved_) {
    at::Generator generator = kept;
    const std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_state(state);
  }
}

}  // namespace dynrun::runtime
