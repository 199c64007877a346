#pragma once
// A line on the terminal while a compile takes long.

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace dynrun::engine {

/// While it lives something is compiled. Should that take over a second, standard error shows `what` until it is done: where that is
/// a terminal and `allow` was not told otherwise. Colour by the rule of NO_COLOR.
class CompileStatus {
 public:
  explicit CompileStatus(std::string what);
  ~CompileStatus();
  CompileStatus(const CompileStatus&) = delete;
  CompileStatus& operator=(const CompileStatus&) = delete;

  static void allow(bool allowed);

 private:
  void watch();

  std::string what_;
  std::mutex mutex_;
  std::condition_variable done_;
  bool is_done_ = false, shown_ = false;
  std::thread thread_;
};

}  // namespace dynrun::engine
