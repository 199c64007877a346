#pragma once
// Compiled code that is kept on disk, from one process to the next.
//
// The folder holds one folder for each build of dynrun, and in it one file for each thing that was made: what it was made from
// (the key, in full) and what came out. A file is written beside its place and moved there, so that several processes may read
// and write at once, and is read only where its key is the very one and its checksum right.

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace dynrun::runtime {

class DiskCache {
 public:
  /// `folder`: where the cache lies; empty for none. `notice` is told, once, why nothing can be kept, in one line.
  explicit DiskCache(std::string folder, std::function<void(const std::string&)> notice = {});
  DiskCache(const DiskCache&) = delete;
  DiskCache& operator=(const DiskCache&) = delete;

  /// The process's. Without a call of `place` it has no folder.
  static DiskCache& instance();
  /// Sets the process's, before anything is compiled: a folder, "off", or empty for the user's (`default_folder`).
  static void place(const std::string& folder, std::function<void(const std::string&)> notice);
  /// $XDG_CACHE_HOME/dynrun/kernels, or the same in ~/.cache; empty where there is neither.
  static std::string default_folder();

  /// What was kept for the key; nothing where there is none, or where the file is damaged: that one is removed.
  std::optional<std::string> find(std::string_view kind, std::string_view key);
  /// Keeps it, unless the folder is no good or the disk full: that is told once, and nothing is kept any more.
  void keep(std::string_view kind, std::string_view key, std::string_view content);

 private:
  bool is_ready();
  std::string path_of(std::string_view kind, std::string_view key) const;
  void give_up(const std::string& why, bool is_news);
  void tell(const std::string& why, bool is_news) const;
  void make_room() const;

  std::mutex mutex_;
  std::string root_;    // the folder of all builds
  std::string folder_;  // this build's; empty: off
  bool prepared_ = false, given_up_ = false, asked_for_ = true;
  std::function<void(const std::string&)> notice_;
};

}  // namespace dynrun::runtime
