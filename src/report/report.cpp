#include "report/report.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace dynrun::report {

namespace {

using Json = nlohmann::ordered_json;

void add_place(Json& object, const Place& place) {
  object["file"] = place.file;
  object["line"] = place.line;
  object["function"] = place.function;
}

Json breaks_json(const std::vector<GraphBreak>& breaks) {
  Json list = Json::array();
  for (const GraphBreak& entry : breaks) {
    Json object{{"id", entry.id}, {"reason", entry.reason}};
    add_place(object, entry.place);
    object["count"] = entry.count;
    list.push_back(std::move(object));
  }
  return list;
}

Json misses_json(const std::vector<GuardMiss>& misses) {
  Json list = Json::array();
  for (const GuardMiss& miss : misses) {
    Json object{{"guard", miss.guard}, {"was", miss.was}, {"now", miss.now}};
    add_place(object, miss.place);
    object["count"] = miss.count;
    list.push_back(std::move(object));
  }
  return list;
}

Json segments_json(const std::vector<SegmentPlace>& segments) {
  Json list = Json::array();
  for (const SegmentPlace& entry : segments) {
    Json object{{"operators", entry.operators}, {"functions", entry.functions}};
    add_place(object, entry.place);
    object["count"] = entry.count;
    list.push_back(std::move(object));
  }
  return list;
}

Json foreign_json(const std::vector<ForeignFrame>& frames) {
  Json list = Json::array();
  for (const ForeignFrame& frame : frames) {
    Json object{{"reason", frame.reason}};
    add_place(object, frame.place);
    object["count"] = frame.count;
    list.push_back(std::move(object));
  }
  return list;
}

/// Most frequent first; the order of first sight among equals.
template <typename Entry>
std::vector<Entry> by_count(std::vector<Entry> entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.count > b.count; });
  return entries;
}

std::string plural(std::uint64_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

void write_place(std::string& text, const Place& place) {
  if (place.file.empty()) return;
  text += fmt::format("      at {}:{}", place.file, place.line);
  if (!place.function.empty()) text += fmt::format(" in {}", place.function);
  text += '\n';
  const std::string source = source_line(place.file, place.line);
  if (!source.empty()) text += fmt::format("        {}\n", source);
}

std::string system_error(int code) { return std::strerror(code); }

const char* cure_of(int code) {
  switch (code) {
    case ENOSPC:
    case EDQUOT:
      return "free some space or name a file on another disk";
    case ENOENT:
      return "make its folder first or name another file";
    case EISDIR:
      return "name a file, not a folder";
    default:
      return "name a file that you may write";
  }
}

std::string failure(const std::string& path, int code) {
  return fmt::format("cannot write '{}': {}; {}", path, system_error(code), cure_of(code));
}

}  // namespace

std::string to_json(const Report& report) {
  Json object{
      {"operators_total", report.operators_total},
      {"operators_captured", report.operators_captured},
      {"segments_compiled", report.segments_compiled},
      {"segment_replays", report.segment_replays},
      {"segments", segments_json(report.segments)},
      {"frames_vm", report.frames_vm},
      {"frames_cpython", report.frames_cpython},
      {"frames_skipped", report.frames_skipped},
      {"frames_handed_over", report.frames_handed_over},
      {"frames_traced", report.frames_traced},
      {"frames_replayed", report.frames_replayed},
      {"graph_breaks", breaks_json(report.graph_breaks)},
      {"guard_misses", misses_json(report.guard_misses)},
      {"compile_seconds", report.compile_seconds},
      {"foreign_frames", foreign_json(report.foreign_frames)},
  };
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_text(const Report& report) {
  std::string text = "dynrun: what was recorded\n";
  const double share =
      report.operators_total == 0 ? 0.0 : 100.0 * double(report.operators_captured) / double(report.operators_total);
  text += fmt::format("  {} compiled in {:.2f} s, replayed {}\n", plural(report.segments_compiled, "segment"),
                      report.compile_seconds, plural(report.segment_replays, "time"));
  text += fmt::format("  operators: {} captured of {} ({:.1f} %)\n", report.operators_captured, report.operators_total, share);
  text += fmt::format("  frames: {} in the VM, {} in CPython, {} replayed\n", report.frames_vm, report.frames_cpython,
                      report.frames_replayed);
  text += report.graph_breaks.empty() ? "  graph breaks: none\n" : "  graph breaks:\n";
  for (const GraphBreak& entry : by_count(report.graph_breaks)) {
    text += fmt::format("    {}x {}: {}\n", entry.count, entry.id, entry.reason);
    write_place(text, entry.place);
  }
  text += report.guard_misses.empty() ? "  guard misses: none\n" : "  guard misses:\n";
  for (const GuardMiss& miss : by_count(report.guard_misses)) {
    text += fmt::format("    {}x {}: was {}, is {}\n", miss.count, miss.guard, miss.was, miss.now);
    write_place(text, miss.place);
  }
  if (!report.foreign_frames.empty()) text += "  frames the VM could not run:\n";
  for (const ForeignFrame& frame : by_count(report.foreign_frames)) {
    text += fmt::format("    {}x {}\n", frame.count, frame.reason);
    write_place(text, frame.place);
  }
  return text;
}

std::string source_line(const std::string& file, int line) {
  if (line <= 0) return {};
  std::ifstream stream(file);
  std::string text;
  for (int at = 0; at < line; ++at) {
    if (!std::getline(stream, text)) return {};
  }
  const auto first = text.find_first_not_of(" \t\r\f");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\f") - first + 1);
}

std::optional<std::string> write_file(const std::string& path, const std::string& text) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return failure(path, errno);
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = write(file, text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int code = errno;
      close(file);
      return failure(path, code);
    }
    written += static_cast<std::size_t>(count);
  }
  if (close(file) != 0 && errno != EINTR) return failure(path, errno);
  return std::nullopt;
}

std::optional<std::string> check_writable(const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
  if (file < 0) return failure(path, errno);
  close(file);
  return std::nullopt;
}

}  // namespace dynrun::report
