#include "report/breaks.h"

#include <fmt/format.h>

namespace dynrun::report {

namespace {

constexpr BreakInfo kInfos[] = {
#define X(name, id, what, cure) {id, what, cure},
    DYNRUN_BREAKS(X)
#undef X
};

struct Special {
  BreakId id;
  std::string_view detail;  // its last words
  const char *what, *cure;  // a null `what`: the usual one
};

/// Whether the last words of `text` are `words`.
bool ends_with(std::string_view text, std::string_view words) {
  if (text.size() < words.size() || text.substr(text.size() - words.size()) != words) return false;
  return text.size() == words.size() || text[text.size() - words.size() - 1] == ' ';
}

constexpr const char* kAsNumber = "a tensor's value taken as a Python number";
constexpr Special kSpecials[] = {
    {BreakId::k_data_dependent_bool, "int", kAsNumber, "round in the tensor, int(t.long()), or take t.item()"},
    {BreakId::k_data_dependent_bool, "bool", kAsNumber, "use torch.where, or compute the condition outside"},
    {BreakId::k_data_dependent_bool, "max", "tensors compared by Python", "use torch.maximum"},
    {BreakId::k_data_dependent_bool, "min", "tensors compared by Python", "use torch.minimum"},
    {BreakId::k_data_dependent_bool, "any", "tensors compared by Python", "use torch.any of a tensor"},
    {BreakId::k_data_dependent_bool, "all", "tensors compared by Python", "use torch.all of a tensor"},
    {BreakId::k_data_dependent_bool, "sorted", "tensors compared by Python", "use torch.sort"},
    {BreakId::k_opaque_call, "behind a store of a new value into a global or an object", nullptr, "put a script's own loop into a function, or print before such values are stored"},
    {BreakId::k_data_dependent_operator, "BINARY_SLICE", nullptr, "slice tensors whose size does not depend on data, or choose by an index tensor or a mask"},
    {BreakId::k_unknown_object, "Tensor", nullptr, "make it inside the function (outside, where it is made with requires_grad=True), or pass it in"},
};

}  // namespace

BreakInfo break_info(BreakId id, std::string_view detail) {
  BreakInfo info = kInfos[static_cast<int>(id)];
  for (const Special& special : kSpecials) {
    if (special.id != id || !ends_with(detail, special.detail)) continue;
    if (special.what) info.what = special.what;
    info.cure = special.cure;
  }
  return info;
}

std::string ids_text() {
  std::string text = "Why a recorded graph ends before the code does (dynrun --explain names each place):\n";
  for (const BreakInfo& info : kInfos) text += fmt::format("  {:<24} {}\n  {:<24}   cure: {}\n", info.id, info.what, "", info.cure);
  return text;
}

}  // namespace dynrun::report
