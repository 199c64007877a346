#pragma once
// Operators that ran outside of segments, by the line of the program that led to them; for reports.

#include "report/report.h"

#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace dynrun::engine {

class OutsideOperators {
 public:
  /// An operator runs on this thread, with the GIL or without: what is read of the thread's own frames does not change meanwhile.
  void count();
  void reset();
  /// Most frequent first.
  std::vector<report::OutsideLine> lines() const;

  /// Operators of this thread that are not the program's are not counted while it is set.
  static bool& ignored();

 private:
  struct Key {
    const void* code;
    std::ptrdiff_t unit;
    bool backward;
    auto operator<=>(const Key&) const = default;
  };
  struct Row {
    const void* name;  // of the function: another code object may come to lie at the address
    report::OutsideLine line;
  };

  mutable std::mutex mutex_;
  std::map<Key, std::size_t> index_;
  std::vector<Row> rows_;
  std::unordered_map<const void*, bool> library_;  // by the address of a file's name
};

}  // namespace dynrun::engine
