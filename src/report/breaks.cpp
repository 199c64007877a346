#include "report/breaks.h"

#include <fmt/format.h>

namespace dynrun::report {

namespace {

constexpr BreakInfo kInfos[] = {
#define X(name, id, what, cure) {id, what, cure},
    DYNRUN_BREAKS(X)
#undef X
};

}  // namespace

const BreakInfo& break_info(BreakId id) { return kInfos[static_cast<int>(id)]; }

std::string ids_text() {
  std::string text = "Why a recorded graph ends before the code does (dynrun --explain names each place):\n";
  for (const BreakInfo& info : kInfos) text += fmt::format("  {:<24} {}\n  {:<24}   cure: {}\n", info.id, info.what, "", info.cure);
  return text;
}

}  // namespace dynrun::report
