// What is kept on disk, what becomes of it when it is damaged, in the way or not to be trusted.

#include "runtime/disk_cache.h"
#include "runtime/threads.h"

#include <catch2/catch.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <vector>

namespace {

namespace files = std::filesystem;
using dynrun::runtime::DiskCache;

struct Folder {
  Folder() {
    std::string name = (files::temp_directory_path() / "dynrun-cache-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() { files::remove_all(path); }
  /// The files that hold something.
  std::vector<files::path> kept() const {
    std::vector<files::path> found;
    for (const auto& entry : files::recursive_directory_iterator(path)) {
      if (entry.is_regular_file() && entry.path().extension() == ".o") found.push_back(entry.path());
    }
    return found;
  }
  std::string path;
};

}  // namespace

TEST_CASE("what one cache keeps, the next one finds, under its kind and its whole key", "[disk_cache]") {
  Folder folder;
  const std::string content("code\0with zeros", 15);
  DiskCache(folder.path).keep("o", "a key", content);
  DiskCache next(folder.path);
  CHECK(next.find("o", "a key") == content);
  CHECK_FALSE(next.find("o", "a kez"));
  CHECK_FALSE(next.find("ptx", "a key"));
  next.keep("o", "a key", "other");
  CHECK(DiskCache(folder.path).find("o", "a key") == "other");
  CHECK(folder.kept().size() == 1);
}

TEST_CASE("a damaged file is removed and made anew", "[disk_cache]") {
  Folder folder;
  DiskCache cache(folder.path);
  const std::string content(1000, 'x');
  auto damage = GENERATE(0, 1, 2, 3);
  cache.keep("o", "key", content);
  const files::path file = folder.kept().at(0);
  if (damage == 0) files::resize_file(file, 500);
  if (damage == 1) files::resize_file(file, 0);
  if (damage == 2) std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(700).put('y');
  if (damage == 3) std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(8).write("\xff\xff\xff\xff\xff\xff\xff\x7f", 8);
  CHECK_FALSE(cache.find("o", "key"));
  CHECK(folder.kept().empty());
  cache.keep("o", "key", content);
  CHECK(cache.find("o", "key") == content);
}

TEST_CASE("a folder that cannot be used is told once, and nothing is kept", "[disk_cache]") {
  Folder folder;
  std::vector<std::string> told;
  auto tell = [&](const std::string& line) { told.push_back(line); };
  SECTION("a file in its place") {
    std::ofstream(folder.path + "/file").put('x');
    DiskCache cache(folder.path + "/file", tell);
    cache.keep("o", "key", "content");
    CHECK_FALSE(cache.find("o", "key"));
  }
  SECTION("others may write to it") {
    chmod(folder.path.c_str(), 0777);
    DiskCache cache(folder.path, tell);
    cache.keep("o", "key", "content");
    CHECK_FALSE(cache.find("o", "key"));
    CHECK(folder.kept().empty());
  }
  REQUIRE(told.size() == 1);
  CHECK(told[0].find("--cache=") != std::string::npos);
}

TEST_CASE("without a folder nothing is kept", "[disk_cache]") {
  DiskCache cache("");
  cache.keep("o", "key", "content");
  CHECK_FALSE(cache.find("o", "key"));
}

TEST_CASE("several threads share a cache", "[disk_cache]") {
  Folder folder;
  DiskCache cache(folder.path);
  dynrun::runtime::in_threads(64, 8, [&](std::size_t i) {
    const std::string key = "key " + std::to_string(i % 4);
    cache.keep("o", key, key);
    if (cache.find("o", key).value_or(key) != key) throw std::runtime_error("another's");
  });
  CHECK(folder.kept().size() == 4);
}

TEST_CASE("work in threads is all done, and the first exception comes out after it", "[disk_cache]") {
  std::atomic<int> done = 0;
  CHECK_THROWS_AS(dynrun::runtime::in_threads(100, 4, [&](std::size_t i) {
    ++done;
    if (i == 10) throw std::invalid_argument("ten");
  }), std::invalid_argument);
  CHECK(done == 100);
}
