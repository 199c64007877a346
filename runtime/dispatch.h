#pragma once
// Calling one graph node through the dispatcher.

#include "graph/graph.h"

#include <ATen/core/stack.h>

#include <array>
#include <functional>

namespace dynrun::runtime {

/// Pushes the node's arguments, typed as its schema says; `value` gives the IValue of a graph value.
void push_arguments(const graph::Node& node, const std::function<const c10::IValue&(graph::ValueId)>& value,
                    torch::jit::Stack& stack);

/// Calls the node's operator as Python's binding for it does: one that takes no tensor, a factory, below autograd, so that what it does
/// to its own result counts as no version.
void call(const graph::Node& node, torch::jit::Stack& stack);

/// Calls `store(output, IValue)` for each entry of `node.outputs` that stands for a value.
void take_results(const graph::Node& node, torch::jit::Stack& stack,
                  const std::function<void(graph::ValueId, c10::IValue)>& store);

/// Sets the thread's grad, inference and autocast mode to a node's, until destroyed.
class ModeGuard {
 public:
  explicit ModeGuard(const graph::Mode& mode);
  ~ModeGuard();
  ModeGuard(const ModeGuard&) = delete;
  ModeGuard& operator=(const ModeGuard&) = delete;

 private:
  std::optional<c10::InferenceMode> inference_;
  bool old_grad_;
  struct Autocast {
    c10::DeviceType device;
    bool on;
    c10::ScalarType dtype;
  };
  static Autocast autocast_now(c10::DeviceType device);
  static void set_autocast(const Autocast& wanted);
  const std::array<Autocast, 2> old_autocast_;
};

}  // namespace dynrun::runtime
