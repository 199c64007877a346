#include "lowering/shared.h"

namespace dynrun::lowering {

std::vector<std::uint64_t> Shared::steady(std::vector<std::uint64_t> contents) {
  constexpr int kMostChanges = 2;
  changes_.resize(contents.size(), 0);
  for (std::size_t i = 0; i < contents.size(); ++i) {
    if (i < seen_.size() && seen_[i] != contents[i]) ++changes_[i];
  }
  seen_ = contents;
  for (std::size_t i = 0; i < contents.size(); ++i) {
    if (changes_[i] >= kMostChanges) contents[i] = 0;
  }
  return contents;
}

void Shared::start(std::vector<std::uint64_t> contents, c10::ArrayRef<at::Tensor> examples, std::size_t values) {
  if (contents != contents_) {
    constants_.clear();
    storages_.clear();
    for (std::size_t i = 0; i < contents.size(); ++i) {
      if (contents[i] == 0) continue;
      storages_.emplace_back(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(examples[i].storage().unsafeGetStorageImpl()));
    }
    contents_ = std::move(contents);
  }
  values_ = values;
  kernels_.start();
}

at::Tensor Shared::constant(graph::ValueId value, const std::string& form, const std::function<at::Tensor()>& make) {
  // Values that a pass adds are numbered as they come: the same number may be another value at other sizes.
  if (static_cast<std::size_t>(value) >= values_) return make();
  auto known = constants_.find({value, form});
  if (known == constants_.end()) known = constants_.emplace(std::pair(value, form), make()).first;
  return known->second;
}

at::Tensor Shared::known_constant(graph::ValueId value, const std::string& form) const {
  const auto known = constants_.find({value, form});
  return known == constants_.end() ? at::Tensor() : known->second;
}

}  // namespace dynrun::lowering
