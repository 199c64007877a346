#pragma once
// Operators that ran outside of segments, by the line of the program that led to them; for reports.

#include "python/frame.h"
#include "report/report.h"

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace dynrun::engine {

class OutsideOperators {
 public:
  /// An operator runs on this thread, with the GIL or without: what is read of the thread's own frames does not change meanwhile. It
  /// stands for as many as that. Gives how many of the thread's next ones need not be looked at.
  std::uint32_t count(std::uint32_t operators);
  void reset();
  /// Most frequent first.
  std::vector<report::OutsideLine> lines() const;

  /// Operators of this thread that are not the program's are not counted while it is set.
  static bool& ignored();
  /// Grows with each operator that a thread without Python code runs.
  static std::uint64_t elsewhere();

  struct Row;
  struct Share {
    Row* row;
    std::uint32_t count;
  };
  /// Which lines lead to the operators of a run.
  using Shares = std::vector<Share>;
  /// While it is set each operator of this thread is looked at and written down there.
  static Shares*& shares();
  /// Another run that leads to them.
  static void add(const Shares& shares);
  /// Whether `code` is none of the program's own.
  bool is_library(PyCodeObject* code);

 private:
  struct Key {
    const void* code;
    std::ptrdiff_t unit;
    bool backward;
    auto operator<=>(const Key&) const = default;
  };
  /// What is known of a code object, until another one comes to lie at its address.
  struct Function {
    const void *code = nullptr, *file = nullptr, *name = nullptr;
    bool is_library = false, runs_backward = false;
  };
  struct Chain;
  struct Found;  // what a thread has found last

  Row& find(const python::Frame* innermost, Found& found, Chain& chain);

  Function function_of(const PyCodeObject* code);
  const Function& known(Found& found, const PyCodeObject* code);
  Row& row_of(const Key& key, const python::Frame& frame);

  mutable std::mutex mutex_;
  std::map<Key, Row*> index_;
  std::deque<Row> rows_;  // stay: threads know where they are
  std::unordered_map<const void*, bool> library_;  // by the address of a file's name
};

struct OutsideOperators::Row {
  const void* name;  // of the function: another code object may come to lie at the address
  report::OutsideLine line;
  std::atomic<std::uint64_t> count{0};
};

}  // namespace dynrun::engine
