// A file: the magic word, the sizes of key and content, a checksum of both, the key, the content.

#include "runtime/disk_cache.h"

#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

namespace dynrun::runtime {
namespace {

namespace files = std::filesystem;

constexpr std::uint64_t kMagic = 0x31636e7572796e64;             // "dynrunc1"
constexpr std::uintmax_t kMostBytes = std::uintmax_t{512} << 20;  // of all builds together
constexpr auto kBetweenSweeps = std::chrono::minutes(10);
constexpr const char* kSweepMark = "swept";
constexpr std::size_t kHashDigits = 16;

struct Header {
  std::uint64_t magic, key_bytes, content_bytes, checksum;
};

std::string hexadecimal(std::uint64_t number) {
  std::array<char, kHashDigits + 1> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(number));
  return text.data();
}

std::uint64_t hash_of(std::string_view text) { return std::hash<std::string_view>()(text); }

std::uint64_t checksum_of(std::string_view key, std::string_view content) { return hash_of(key) * 31 + hash_of(content); }

struct Search {
  std::uintptr_t address;
  std::string id;
};

std::string note_in(const char* at, std::size_t bytes) {
  constexpr std::size_t kAlignment = 4;
  auto aligned = [](std::size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; };
  while (bytes >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, at, sizeof note);
    const std::size_t name = aligned(note.n_namesz), all = sizeof note + name + aligned(note.n_descsz);
    if (all > bytes) break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof "GNU" && std::memcmp(at + sizeof note, "GNU", sizeof "GNU") == 0) {
      return {at + sizeof note + name, note.n_descsz};
    }
    at += all;
    bytes -= all;
  }
  return {};
}

int look_at_object(dl_phdr_info* info, std::size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  bool here = false;
  std::string id;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    const std::uintptr_t begin = info->dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD && search.address >= begin && search.address < begin + part.p_memsz) here = true;
    if (part.p_type == PT_NOTE && id.empty()) id = note_in(reinterpret_cast<const char*>(begin), part.p_memsz);
  }
  if (here) search.id = id;
  return here ? 1 : 0;
}

/// What the linker made of all that is in this program or library; empty where it made none.
std::string build_id() {
  Search search{reinterpret_cast<std::uintptr_t>(&look_at_object), {}};
  dl_iterate_phdr(look_at_object, &search);
  return search.id;
}

/// Why code must not be taken from the folder: others could put theirs there. Empty where they cannot.
std::string danger_of(const std::string& folder) {
  struct stat status{};
  if (stat(folder.c_str(), &status) != 0) return std::strerror(errno);
  if (!S_ISDIR(status.st_mode)) return "it is no folder";
  if (status.st_uid != geteuid()) return "it belongs to another user";
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "other users may write to it (chmod go-w)";
  return {};
}

std::unique_ptr<DiskCache>& the_cache() {
  static auto* cache = new std::unique_ptr<DiskCache>(std::make_unique<DiskCache>(""));  // outlives threads that still compile at exit
  return *cache;
}

/// What this cache may have put into a folder: the user's own files are never touched.
std::vector<files::path> named_by_hash(const files::path& folder) {
  std::vector<files::path> found;
  std::error_code error;
  for (auto at = files::directory_iterator(folder, error); !error && at != files::directory_iterator(); at.increment(error)) {
    const std::string name = at->path().stem().string();  // without the kind, or what mkostemp added to it
    if (name.substr(0, kHashDigits).find_first_not_of("0123456789abcdef") == name.npos && name.size() >= kHashDigits) found.push_back(at->path());
  }
  return found;
}

bool is_full(int error) { return error == ENOSPC || error == EDQUOT; }

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

DiskCache::DiskCache(std::string folder, std::function<void(const std::string&)> notice) : root_(std::move(folder)), notice_(std::move(notice)) {
  if (root_.empty()) return;
  const std::string id = build_id();
  if (!id.empty()) folder_ = root_ + "/" + hexadecimal(hash_of(id));
}

DiskCache& DiskCache::instance() { return *the_cache(); }

void DiskCache::place(const std::string& folder, std::function<void(const std::string&)> notice) {
  const std::string where = folder == "off" ? "" : folder.empty() ? default_folder() : folder;
  the_cache() = std::make_unique<DiskCache>(where, std::move(notice));
  the_cache()->asked_for_ = !folder.empty();
}

std::string DiskCache::default_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::string(cache) + "/dynrun/kernels";
  const char* home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? std::string(home) + "/.cache/dynrun/kernels" : "";
}

std::string DiskCache::path_of(std::string_view kind, std::string_view key) const {
  return folder_ + "/" + hexadecimal(hash_of(key)) + "." + std::string(kind);
}

std::optional<std::string> DiskCache::find(std::string_view kind, std::string_view key) {
  if (!is_ready()) return std::nullopt;
  const std::string path = path_of(kind, key);
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  Header header{};
  std::string content;
  bool whole = false;
  if (file.read(reinterpret_cast<char*>(&header), sizeof header) && header.magic == kMagic) {
    std::error_code error;
    const std::uintmax_t size = files::file_size(path, error);
    whole = !error && header.key_bytes < size && header.content_bytes < size && size == sizeof header + header.key_bytes + header.content_bytes;
    if (whole && header.key_bytes != key.size()) return std::nullopt;  // another key of the same hash
    if (whole) {
      std::string kept(header.key_bytes, '\0');
      content.resize(header.content_bytes);
      whole = file.read(kept.data(), static_cast<std::streamsize>(kept.size())) && file.read(content.data(), static_cast<std::streamsize>(content.size())) &&
              checksum_of(kept, content) == header.checksum;
      if (whole && kept != key) return std::nullopt;
    }
  }
  if (!whole) {
    unlink(path.c_str());
    return std::nullopt;
  }
  utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // the least recently used go first
  return content;
}

void DiskCache::keep(std::string_view kind, std::string_view key, std::string_view content) {
  if (!is_ready()) return;
  const std::string path = path_of(kind, key);
  std::string beside = path + ".XXXXXX";
  const int file = mkostemp(beside.data(), O_CLOEXEC);
  if (file < 0) return give_up(std::strerror(errno), is_full(errno));
  const Header header{kMagic, key.size(), content.size(), checksum_of(key, content)};
  const bool written = write_all(file, {reinterpret_cast<const char*>(&header), sizeof header}) && write_all(file, key) && write_all(file, content);
  int error = written ? 0 : errno;
  if (close(file) != 0 && error == 0) error = errno;
  if (error == 0 && rename(beside.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return;
  unlink(beside.c_str());
  give_up(std::strerror(error), is_full(error));
}

bool DiskCache::is_ready() {
  std::lock_guard lock(mutex_);
  if (given_up_ || folder_.empty()) return false;
  if (prepared_) return true;
  std::error_code error;
  files::create_directories(files::path(root_).parent_path(), error);
  for (const std::string& folder : {root_, folder_}) {
    mkdir(folder.c_str(), S_IRWXU);
    const std::string danger = danger_of(folder);
    if (danger.empty()) continue;
    given_up_ = true;
    tell(danger, false);
    return false;
  }
  make_room();
  prepared_ = true;
  return true;
}

void DiskCache::give_up(const std::string& why, bool is_news) {
  std::lock_guard lock(mutex_);
  if (!given_up_) tell(why, is_news);
  given_up_ = true;
}

/// A home that cannot be written to is no news.
void DiskCache::tell(const std::string& why, bool is_news) const {
  if (notice_ && (is_news || asked_for_)) notice_("compiled code cannot be kept in " + root_ + ": " + why + "; choose another folder with --cache=DIR, or --cache=off");
}

/// Now and then, by the process that comes by: the least recently used files go until the rest fits.
void DiskCache::make_room() const {
  const files::path mark = files::path(root_) / kSweepMark;
  std::error_code error;
  const auto last = files::last_write_time(mark, error);
  if (!error && files::file_time_type::clock::now() - last < kBetweenSweeps) return;
  std::ofstream(mark).put('\n');
  struct Kept {
    files::file_time_type used;
    std::uintmax_t bytes;
    files::path path;
  };
  std::vector<Kept> all;
  std::uintmax_t total = 0;
  for (const files::path& build : named_by_hash(root_)) {
    for (const files::path& path : named_by_hash(build)) {
      Kept kept{files::last_write_time(path, error), 0, path};
      if (!error) kept.bytes = files::file_size(path, error);
      if (error) continue;  // a folder, or removed by another process just now
      total += kept.bytes;
      all.push_back(std::move(kept));
    }
  }
  if (total <= kMostBytes) return;
  std::sort(all.begin(), all.end(), [](const Kept& a, const Kept& b) { return a.used < b.used; });
  for (const Kept& kept : all) {
    if (total <= kMostBytes / 2) break;
    files::remove(kept.path, error);
    total -= kept.bytes;
  }
}

}  // namespace dynrun::runtime
