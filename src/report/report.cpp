#include "report/report.h"
#include "report/source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace dynrun::report {

namespace {

/// Most frequent first; the order of first sight among equals.
template <typename Entry>
std::vector<Entry> by_count(std::vector<Entry> entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.count > b.count; });
  return entries;
}

std::string plural(std::uint64_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

constexpr const char* kBlanks = " \t\r\f";

/// How many blanks the line at `place` begins with.
std::size_t indent_of(const Place& place) {
  const std::string line = raw_line(place.file, place.line).value_or("");
  return std::min(line.find_first_not_of(kBlanks), line.size());
}

void write_place(std::string& text, const Place& place) {
  if (place.file.empty()) return;
  text += fmt::format("      at {}:{}", place.file, place.line);
  if (!place.function.empty()) text += fmt::format(" in {}", place.function);
  text += '\n';
  const std::string source = source_line(place.file, place.line);
  if (!source.empty()) text += fmt::format("        {}\n", source);
}

std::string duration(double microseconds) {
  if (microseconds < 1e3) return fmt::format("{:.1f} us", microseconds);
  return microseconds < 1e6 ? fmt::format("{:.1f} ms", microseconds / 1e3) : fmt::format("{:.2f} s", microseconds / 1e6);
}

/// What breaks cost first, where it was measured; then the most frequent.
std::vector<GraphBreak> by_cost(std::vector<GraphBreak> breaks) {
  std::stable_sort(breaks.begin(), breaks.end(), [](const GraphBreak& a, const GraphBreak& b) {
    return a.microseconds != b.microseconds ? a.microseconds > b.microseconds : a.count > b.count;
  });
  return breaks;
}

/// A caret under each character of what was met. `line` without its `indent` leading blanks.
std::string carets(const std::string& line, std::size_t indent, const GraphBreak& entry) {
  const auto first = static_cast<std::size_t>(entry.column), last = static_cast<std::size_t>(entry.end_column);
  if (entry.column < 0 || first < indent || last <= first || last - indent > line.size()) return {};
  std::string marks;
  for (std::size_t at = 0; at < last - indent; at++) {
    const auto columns = static_cast<std::size_t>(columns_of(line, at));
    marks += std::string(columns, at < first - indent ? (line[at] == '\t' ? '\t' : ' ') : '^');
  }
  return marks;
}

/// A frame between a module's call and its forward, which is in every stack.
bool is_module_call(const Place& place) { return place.function == "Module._call_impl" || place.function == "Module._wrapped_call_impl"; }

void write_break(std::string& text, const GraphBreak& entry) {
  text += fmt::format("    {}x {}: {}\n", entry.count, entry.id, entry.reason);
  write_place(text, entry.place);
  const std::string marks = carets(source_line(entry.place.file, entry.place.line), indent_of(entry.place), entry);
  if (!marks.empty()) text += fmt::format("        {}\n", marks);
  constexpr int kMostCallers = 3;
  int shown = 0;
  for (const Place& caller : entry.callers) {
    if (is_module_call(caller)) continue;
    if (shown++ == kMostCallers) break;
    text += fmt::format("      called at {}:{} in {}\n", caller.file, caller.line, caller.function);
  }
  if (entry.replays > 0) {
    text += fmt::format("      cost: {} of {}, {} each\n", duration(entry.microseconds), plural(entry.replays, "time"), duration(entry.microseconds / double(entry.replays)));
  }
  if (!entry.cure.empty()) text += fmt::format("      cure: {}\n", entry.cure);
}

/// At how many places, and what they cost together.
void write_breaks_together(std::string& text, const std::vector<GraphBreak>& breaks) {
  if (breaks.empty()) {
    text += "  graph breaks: none\n";
    return;
  }
  double cost = 0;
  for (const GraphBreak& entry : breaks) cost += entry.microseconds;
  text += fmt::format("  graph breaks at {}, {} in all; as often as each was recorded, what costs most first:\n", plural(breaks.size(), "place"), duration(cost));
}

/// Guards of one name and place that failed: what differed each time.
struct MissGroup {
  const GuardMiss* first;
  std::size_t pairs = 0;
  std::uint64_t count = 0;
};

std::vector<MissGroup> grouped(const std::vector<GuardMiss>& misses) {
  std::vector<MissGroup> groups;
  for (const GuardMiss& miss : misses) {
    auto same = [&](const MissGroup& group) { return group.first->guard == miss.guard && group.first->place.is_line_of(miss.place); };
    auto known = std::find_if(groups.begin(), groups.end(), same);
    if (known == groups.end()) known = groups.insert(known, {&miss});
    known->pairs++;
    known->count += miss.count;
  }
  std::stable_sort(groups.begin(), groups.end(), [](const MissGroup& a, const MissGroup& b) { return a.count > b.count; });
  return groups;
}

void write_misses(std::string& text, const std::vector<GuardMiss>& misses) {
  constexpr std::size_t kMany = 3;  // values of one guard: it is another one on most calls
  text += misses.empty() ? "  guard misses: none\n" : "  guard misses:\n";
  for (const MissGroup& group : grouped(misses)) {
    text += fmt::format("    {}x {}: was {}, is {}", group.count, group.first->guard, group.first->was, group.first->now);
    text += group.pairs > 1 ? fmt::format(", and {}\n", plural(group.pairs - 1, "other change")) : "\n";
    write_place(text, group.first->place);
    if (group.pairs >= kMany) text += "      cure: it is another one on most calls: keep it out of conditions, sizes and keys, or keep it in a tensor\n";
  }
}

void write_given_up(std::string& text, const std::vector<GivenUp>& entries) {
  if (!entries.empty()) text += "  recorded no more, as it was another one on most calls (the guard misses say in what):\n";
  for (const GivenUp& entry : entries) text += fmt::format("    {}:{} in {}, recorded {}\n", entry.place.file, entry.place.line, entry.place.function, plural(std::uint64_t(entry.recordings), "time"));
}

/// Where what was not captured ran, if it is more than the first calls before anything is hot.
void write_outside(std::string& text, const Report& report) {
  constexpr double kFew = 0.05;
  constexpr std::size_t kMost = 10;
  if (double(report.operators_total - report.operators_captured) < kFew * double(report.operators_total) || report.outside_operators.empty()) return;
  text += "  operators outside segments, by the line of your code that led to them:\n";
  const std::vector<OutsideLine>& lines = report.outside_operators;
  for (std::size_t i = 0; i < std::min(lines.size(), kMost); i++) {
    text += fmt::format("    {} at {}:{} in {}{}\n", plural(lines[i].count, "operator"), lines[i].place.file, lines[i].place.line, lines[i].place.function, lines[i].backward ? ", in the backward pass, which libtorch runs" : "");
    const std::string source = source_line(lines[i].place.file, lines[i].place.line);
    if (!source.empty()) text += fmt::format("        {}\n", source);
  }
  if (lines.size() > kMost) text += fmt::format("    and {} more\n", plural(lines.size() - kMost, "line"));
}

/// A line for each place where segments begin: those that took the most time first.
void write_functions(std::string& text, std::vector<SegmentPlace> places) {
  std::erase_if(places, [](const SegmentPlace& place) { return place.operators == 0 && place.replays == 0; });
  if (places.empty()) return;
  std::stable_sort(places.begin(), places.end(), [](const SegmentPlace& a, const SegmentPlace& b) { return a.microseconds > b.microseconds; });
  constexpr std::size_t kMost = 30;
  text += "  segments:\n";
  for (std::size_t i = 0; i < std::min(places.size(), kMost); i++) {
    const SegmentPlace& at = places[i];
    text += fmt::format("    {}:{} in {}: {}", at.place.file, at.place.line, at.place.function, plural(at.operators, "operator"));
    if (at.count > 1) text += fmt::format(", {}", plural(at.count, "segment"));
    if (at.kernels + at.library_calls > 0) text += fmt::format(", {}, {}", plural(std::uint64_t(at.kernels), "fused kernel"), plural(std::uint64_t(at.library_calls), "library call"));
    text += at.replays == 0 ? ", not replayed\n" : fmt::format("; {}, {} each, {} of it in kernels and library calls\n", plural(at.replays, "replay"),
                                                              duration(at.microseconds / double(at.replays)), duration(at.code_microseconds / double(at.replays)));
  }
  if (places.size() > kMost) text += fmt::format("    and {} more\n", places.size() - kMost);
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

std::string to_text(const Report& report) {
  if (report.operators_total == 0 && report.segments_compiled == 0 && report.graph_breaks.empty()) return "dynrun: nothing was recorded: no operator of torch ran\n";
  std::string text = "dynrun: what was recorded\n";
  const double share =
      report.operators_total == 0 ? 0.0 : 100.0 * double(report.operators_captured) / double(report.operators_total);
  text += fmt::format("  {} compiled in {:.2f} s, replayed {}\n", plural(report.segments_compiled, "segment"),
                      report.compile_seconds, plural(report.segment_replays, "time"));
  text += fmt::format("  operators: {} captured of {} ({:.1f} %)\n", report.operators_captured, report.operators_total, share);
  if (report.operators_assumed > 0) text += fmt::format("    {} of these were not counted: their functions had run as many each time before\n", report.operators_assumed);
  if (report.seconds > 0) {
    text += fmt::format("  time: {} in replays of {:.2f} s ({:.1f} %)\n", duration(report.replay_microseconds), report.seconds, report.replay_microseconds / report.seconds / 1e4);
  }
  text += fmt::format("  frames: {} in the VM, {} in CPython, {} replayed\n", report.frames_vm, report.frames_cpython,
                      report.frames_replayed);
  write_functions(text, report.segments);
  write_breaks_together(text, report.graph_breaks);
  for (const GraphBreak& entry : by_cost(report.graph_breaks)) write_break(text, entry);
  write_misses(text, report.guard_misses);
  write_given_up(text, report.given_up);
  write_outside(text, report);
  if (!report.foreign_frames.empty()) text += "  frames the VM could not run:\n";
  for (const ForeignFrame& frame : by_count(report.foreign_frames)) {
    text += fmt::format("    {}x {}\n", frame.count, frame.reason);
    write_place(text, frame.place);
  }
  if (!report.left_functions.empty()) text += "  functions left to CPython, by the time of their calls:\n";
  for (const LeftFunction& left : report.left_functions) {
    text += fmt::format("    {}:{} {}{}: {}, {} here\n", left.place.file, left.place.line, left.place.function, left.with_calls ? " and what it calls" : "",
                        duration(left.microseconds), duration(left.microseconds_here));
  }
  return text;
}

bool is_library(const std::string& path) {
  return path.empty() || path.front() == '<' || path.find("/site-packages/") != path.npos || path.find("/dist-packages/") != path.npos || path.find("/lib/python3") != path.npos;
}

std::string source_line(const std::string& file, int line) {
  const std::string text = raw_line(file, line).value_or("");
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
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
