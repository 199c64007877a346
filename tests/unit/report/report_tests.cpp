#include "report/breaks.h"
#include "report/report.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <cstdio>
#include <fstream>

using namespace dynrun::report;

namespace {

std::string temporary_file(const std::string& text) {
  char path[] = "/tmp/dynrun-report-XXXXXX";
  const int file = mkstemp(path);
  REQUIRE(file >= 0);
  close(file);
  std::ofstream(path) << text;
  return path;
}

}  // namespace

TEST_CASE("the JSON has every key, also when nothing happened") {
  const auto json = nlohmann::json::parse(to_json(Report{}));
  for (const char* key : {"operators_total", "operators_captured", "segments_compiled", "segments_dropped", "segment_replays", "frames_vm",
                          "frames_cpython", "frames_replayed", "compile_seconds"}) {
    CHECK(json.at(key) == 0);
  }
  CHECK(json.at("graph_breaks").empty());
  CHECK(json.at("guard_misses").is_array());
}

TEST_CASE("the JSON holds breaks and misses with their places") {
  Report report;
  report.operators_total = 12;
  report.graph_breaks.push_back({"opaque-call", "a call of numpy.array", {"model.py", 7, "forward"}, 3});
  report.guard_misses.push_back({"arg 0 . shape[1]", "8", "16", {"model.py", 2, "f"}, 1});
  const auto json = nlohmann::json::parse(to_json(report));
  CHECK(json["operators_total"] == 12);
  const auto& entry = json["graph_breaks"][0];
  CHECK(entry["id"] == "opaque-call");
  CHECK(entry["file"] == "model.py");
  CHECK(entry["line"] == 7);
  CHECK(entry["function"] == "forward");
  CHECK(entry["count"] == 3);
  CHECK(json["guard_misses"][0]["was"] == "8");
  CHECK(json["guard_misses"][0]["now"] == "16");
}

TEST_CASE("text that is not UTF-8 does not stop the JSON") {
  Report report;
  report.guard_misses.push_back({"global s", "'\xff'", "'a'", {}, 1});
  CHECK_NOTHROW(nlohmann::json::parse(to_json(report)));
}

TEST_CASE("the text shows the source line, most frequent first") {
  const std::string file = temporary_file("x = 1\n    y = numpy.array(x)  \n");
  Report report;
  report.operators_total = 4;
  report.operators_captured = 3;
  report.graph_breaks.push_back({"rare", "seldom", {"missing.py", 1, ""}, 1});
  report.graph_breaks.push_back({"opaque-call", "a call of numpy.array", {file, 2, "forward"}, 5});
  const std::string text = to_text(report);
  CHECK(text.find("3 captured of 4 (75.0 %)") != std::string::npos);
  CHECK(text.find("5x opaque-call") < text.find("1x rare"));
  CHECK(text.find("y = numpy.array(x)\n") != std::string::npos);
  CHECK(text.find(file + ":2 in forward") != std::string::npos);
  std::remove(file.c_str());
}

TEST_CASE("carets stand under wide characters; Latin-1 is read as such") {
  const std::string wide = temporary_file("日本 = g(x)\n"), latin = temporary_file("x = '\xe9' + g(y)\n");
  Report report;
  report.operators_total = 1;
  report.graph_breaks.push_back({"opaque-call", "a call", {wide, 1, "f"}, 1, "", 9, 13});
  report.graph_breaks.push_back({"opaque-call", "a call", {latin, 1, "f"}, 1, "", 11, 15});
  const std::string text = to_text(report);
  CHECK(text.find("日本 = g(x)\n               ^^^^\n") != std::string::npos);
  CHECK(text.find("x = 'é' + g(y)\n                  ^^^^\n") != std::string::npos);
  CHECK(to_text(Report()).find("nothing was recorded") != std::string::npos);
  std::remove(wide.c_str());
  std::remove(latin.c_str());
}

TEST_CASE("a break shows carets, callers, cost and cure; what costs most comes first") {
  const std::string file = temporary_file("def f(x):\n    é = g(x) + 1\n");
  Report report;
  report.graph_breaks.push_back({"opaque-call", "a call", {"other.py", 1, "h"}, 9});
  report.graph_breaks.push_back({"opaque-call", "a call", {file, 2, "f"}, 1, "move it", 9, 13, {{"main.py", 7, "<module>"}}, 4, 10.0});
  const std::string text = to_text(report);
  CHECK(text.find("é = g(x) + 1\n            ^^^^\n") != std::string::npos);
  CHECK(text.find("called at main.py:7 in <module>") != std::string::npos);
  CHECK(text.find("cost: 10.0 us of 4 times, 2.5 us each") != std::string::npos);
  CHECK(text.find("cure: move it") != std::string::npos);
  CHECK(text.find(file) < text.find("other.py"));
  std::remove(file.c_str());
}

TEST_CASE("the table of breaks has an id, a meaning and a cure a break") {
  const std::string text = ids_text();
  CHECK(text.find("  data-dependent-bool      a branch on a tensor's value\n                             cure: use torch.where") != std::string::npos);
  CHECK(std::string(break_info(BreakId::k_opaque_call, "").id) == "opaque-call");
  CHECK(std::string(break_info(BreakId::k_data_dependent_bool, "max").cure) == "use torch.maximum");
  CHECK(std::string(break_info(BreakId::k_opaque_call, "print, behind a store of a new value into a global or an object").cure).find("function") != std::string::npos);
  CHECK(std::string(break_info(BreakId::k_opaque_call, "argmax").cure) == break_info(BreakId::k_opaque_call, "").cure);
}

TEST_CASE("source lines that cannot be read are empty") {
  const std::string file = temporary_file("one\n\n");
  CHECK(source_line(file, 1) == "one");
  CHECK(source_line(file, 2).empty());
  CHECK(source_line(file, 3).empty());
  CHECK(source_line(file, 0).empty());
  CHECK(source_line("/nowhere", 1).empty());
  std::remove(file.c_str());
}

TEST_CASE("writing says what went wrong and what to do") {
  const std::string file = temporary_file("longer than the new text");
  CHECK(!write_file(file, "new"));
  CHECK(source_line(file, 1) == "new");
  CHECK(!check_writable(file));
  CHECK(source_line(file, 1) == "new");
  std::remove(file.c_str());
  CHECK(check_writable("/nowhere/stats.json")->find("folder") != std::string::npos);
  CHECK(check_writable("/tmp")->find("Is a directory") != std::string::npos);
  CHECK(write_file("/dev/full", "text")->find("No space left on device") != std::string::npos);
}
