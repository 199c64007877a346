// Which code runs with the weights at hand: what lowering has read of weights holds for these alone.
//
// A segment serves all instances of a class whose weights are alike in type. Code made of the weights of each is kept: of the first
// ones at once, of later ones when they are met again. Until then, and for weights that never come again, code runs that was
// made of none.

#include "engine/engine.h"
#include "guards/storage_watch.h"

#include <algorithm>
#include <utility>

namespace dynrun::engine {

namespace {

constexpr int kAtOnce = 2;  // of other weights: how often code is made when they are first met
constexpr std::size_t kMostOthers = 63;
constexpr std::size_t kMostMet = 64;     // weights that are remembered
constexpr std::uint32_t kPaying = 200;   // runs, for which it is worth to make code
constexpr int kMostShortLived = 3;
constexpr std::uint32_t kLookEvery = 256;  // runs, for code of weights that are gone

enum class Weights : std::uint8_t { kSame, kWritten, kOthers };

Weights compare(const trace::MadeCode& made, std::uint64_t aliases, const std::vector<at::Tensor>& inputs) {
  for (const auto& folded : made.folded) {
    const at::Tensor& tensor = inputs[static_cast<std::size_t>(folded.input)];
    const c10::Storage& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
    if (folded.storage._unsafe_get_target() != storage.unsafeGetStorageImpl()) return Weights::kOthers;
    const bool same = tensor.const_data_ptr() == folded.data && tensor.unsafeGetTensorImpl()->version_counter().current_version() == folded.version &&
                      guards::has_one_owner(storage) && (aliases == made.folded_at || guards::alias_epoch(tensor) == folded.alias_epoch);
    if (!same) return Weights::kWritten;
  }
  return Weights::kSame;
}

trace::MadeCode& made(trace::Code& code) { return code; }

bool any_dead(const trace::MadeCode& made) {
  return std::any_of(made.folded.begin(), made.folded.end(), [](const auto& folded) { return folded.storage.expired(); });
}

/// Code of weights that are gone.
void drop_dead(trace::Code& code) {
  std::erase_if(code.others, [&](const trace::MadeCode& made) {
    const bool dead = any_dead(made);
    code.short_lived += dead && made.runs < kPaying ? 1 : 0;
    return dead;
  });
}

/// Puts the code in use aside.
void put_aside(trace::Code& code) {
  if (code.is_plain) {
    code.plain = std::make_unique<trace::MadeCode>(std::move(made(code)));
  } else if (!code.folded.empty()) {
    code.others.push_back(std::move(made(code)));
    drop_dead(code);
  }
  made(code) = {};
  code.is_plain = false;
}

/// Takes code that was made of these weights, if there is any.
bool take_other(trace::Code& code, std::uint64_t aliases, const std::vector<at::Tensor>& inputs) {
  drop_dead(code);
  for (std::size_t i = 0; i < code.others.size(); ++i) {
    const Weights weights = compare(code.others[i], aliases, inputs);
    if (weights == Weights::kOthers) continue;
    trace::MadeCode found = std::move(code.others[i]);
    code.others.erase(code.others.begin() + static_cast<std::ptrdiff_t>(i));
    if (weights == Weights::kWritten) {
      ++code.refolds;
      return false;
    }
    found.folded_at = aliases;
    ++found.runs;
    put_aside(code);
    made(code) = std::move(found);
    return true;
  }
  return false;
}

/// Whether these weights have been met before. `input`: one that tells instances apart.
bool is_met_again(trace::Code& code, const at::Tensor& weight) {
  c10::StorageImpl* storage = weight.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  std::erase_if(code.met, [](const auto& known) { return known.expired(); });
  if (std::any_of(code.met.begin(), code.met.end(), [&](const auto& known) { return known._unsafe_get_target() == storage; })) return true;
  if (code.met.size() >= kMostMet) code.met.erase(code.met.begin());
  code.met.emplace_back(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage));
  return false;
}

}  // namespace

/// Of weights that no code here was made of.
void Engine::lower_for_others(trace::Code& code, const graph::Graph& recorded, const std::vector<at::Tensor>& inputs) {
  if (!code.folded.empty()) code.told_by = code.folded.front().input;
  const bool at_once = !code.is_plain && code.made_at_once < kAtOnce;
  const bool again = !at_once && is_met_again(code, inputs[static_cast<std::size_t>(code.told_by)]);
  if (at_once || (again && code.others.size() < kMostOthers && code.refolds < kMaxRefolds && code.short_lived < kMostShortLived)) {
    if (at_once) ++code.made_at_once;
    put_aside(code);
    lower(code, recorded, inputs, nullptr);
    if (!code.folded.empty()) return;
    ++code.refolds;
    code.is_plain = true;
    return;
  }
  if (code.is_plain) return;
  put_aside(code);
  code.is_plain = true;
  if (code.plain) made(code) = std::move(*std::exchange(code.plain, nullptr));
  else lower(code, recorded, inputs, nullptr);
}

void Engine::refresh_folded(trace::Code& code, const graph::Graph& recorded, const std::vector<at::Tensor>& inputs, lowering::Shared* shared) {
  const std::uint64_t aliases = guards::alias_count();
  const Weights weights = code.is_plain ? Weights::kOthers : compare(code, aliases, inputs);
  if (weights == Weights::kSame) {
    code.folded_at = aliases;
    if (++code.runs % kLookEvery == 0 && !code.others.empty()) drop_dead(code);
    return;
  }
  if (weights == Weights::kWritten || shared != nullptr) {
    code.refolds++;
    lower(code, recorded, inputs, shared);
    code.is_plain = code.folded.empty() && !code.others.empty();
    return;
  }
  if (!take_other(code, aliases, inputs)) lower_for_others(code, recorded, inputs);
}

}  // namespace dynrun::engine
