#pragma once
// What an operator does that its schema does not say, or says only of the arguments at hand.

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace dynrun::trace {

/// Adds to elements, by indices of which one may be out of range when others have been added to.
bool accumulates(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first);

/// Whether the tensor that is lifted was made by `torch.tensor` and its kind: no Python object has it yet. The operator may also be
/// called by name, for a tensor of the program's.
bool is_of_constructor(const at::Tensor& data);

/// Results of these lie in the argument's memory but are no views: their versions are their own, which a graph does not keep apart.
bool has_own_version(const c10::OperatorHandle& op);

/// Tensors that an operator is to write, in the sizes that they had before: given as `out=` they may be given others.
class WrittenSizes {
 public:
  WrittenSizes(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first);
  bool changed() const;

 private:
  void add(const at::Tensor& tensor);
  std::vector<std::pair<at::Tensor, std::vector<std::int64_t>>> before_;
};

}  // namespace dynrun::trace
