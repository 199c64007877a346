#include "engine/status.h"

#include <fmt/format.h>

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <utility>

namespace dynrun::engine {

namespace {

constexpr auto kLong = std::chrono::seconds(1);
bool is_allowed = true;

bool is_wanted() {
  static const bool terminal = isatty(STDERR_FILENO) == 1;
  return is_allowed && terminal;
}

void put(const std::string& text) {
  const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
  static_cast<void>(written);  // a terminal that is gone is nobody's loss
}

}  // namespace

void CompileStatus::allow(bool allowed) { is_allowed = allowed; }

CompileStatus::CompileStatus(std::string what) : what_(std::move(what)) {
  if (!is_wanted()) return;
  // Signals are for the program's own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { watch(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void CompileStatus::watch() {
  std::unique_lock lock(mutex_);
  if (done_.wait_for(lock, kLong, [this] { return is_done_; })) return;
  const char* plain = std::getenv("NO_COLOR");
  const bool colour = plain == nullptr || *plain == '\0';
  put(fmt::format("\r\033[K{}dynrun: compiling {} ...{}", colour ? "\033[2m" : "", what_, colour ? "\033[0m" : ""));
  shown_ = true;
}

CompileStatus::~CompileStatus() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_done_ = true;
  }
  done_.notify_all();
  thread_.join();
  if (shown_) put("\r\033[K");
}

}  // namespace dynrun::engine
