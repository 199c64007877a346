#include "report/json.h"
#include "report/page.h"
#include "report/source.h"

#include <algorithm>
#include <set>

namespace dynrun::report {

namespace {

constexpr std::size_t kMostLines = 20000;

/// The files that something was recorded of, the program's own first.
Json files_json(const Report& report) {
  std::set<std::string> paths;
  for (const SegmentDetail& detail : report.details) {
    for (const SegmentDetail::Operator& operation : detail.operators) paths.insert(operation.place.file);
    for (const Place& place : detail.host_lines) paths.insert(place.file);
  }
  auto add_own = [&](const Place& place) {
    if (!is_library(place.file)) paths.insert(place.file);
  };
  for (const GraphBreak& entry : report.graph_breaks) {
    paths.insert(entry.place.file);
    for (const Place& caller : entry.callers) add_own(caller);
  }
  for (const OutsideLine& line : report.outside_operators) add_own(line.place);
  paths.erase(report.script);
  std::vector<std::string> ordered(paths.begin(), paths.end());
  std::stable_partition(ordered.begin(), ordered.end(), [&](const std::string& path) { return !is_library(path); });
  if (!report.script.empty()) ordered.insert(ordered.begin(), report.script);
  Json files = Json::array();
  for (const std::string& path : ordered) {
    Json lines = source_lines(path, kMostLines);
    if (!lines.empty()) files.push_back({{"path", path}, {"lines", std::move(lines)}});
  }
  return files;
}

Json operators_json(const SegmentDetail& detail) {
  Json operators = Json::array();
  for (const SegmentDetail::Operator& operation : detail.operators) {
    Json object{{"name", operation.name}, {"type", operation.type}};
    add_place(object, operation.place);
    operators.push_back(std::move(object));
  }
  return operators;
}

/// What its code does and where in memory.
void add_plan(Json& object, const SegmentDetail& detail) {
  object["steps"] = Json::array();
  for (const SegmentDetail::Step& step : detail.steps) object["steps"].push_back({{"kind", step.kind}, {"name", step.name}, {"operators", step.operators}});
  object["buffers"] = Json::array();
  for (const SegmentDetail::Buffer& buffer : detail.buffers) {
    object["buffers"].push_back({{"content", buffer.content}, {"bytes", buffer.bytes}, {"offset", buffer.offset}, {"first", buffer.first}, {"last", buffer.last}});
  }
  object["arena_bytes"] = detail.arena_bytes;
}

Json details_json(const Report& report) {
  Json details = Json::array();
  for (const SegmentDetail& detail : report.details) {
    Json object{{"segment", detail.segment}, {"exit", detail.exit}, {"operators", operators_json(detail)}, {"guards", detail.guards}};
    object["host_lines"] = places_json(detail.host_lines);
    object["code"] = Json::array();
    for (const SegmentDetail::Code& code : detail.code) object["code"].push_back({{"stage", code.stage}, {"text", code.text}});
    add_plan(object, detail);
    details.push_back(std::move(object));
  }
  return details;
}

Json edges_json(const Report& report) {
  Json edges = Json::array();
  for (const Edge& edge : report.edges) edges.push_back({{"from", edge.from}, {"to", edge.to}, {"break", edge.graph_break}, {"count", edge.count}});
  return edges;
}

/// Text that may stand inside a script element.
std::string escaped(std::string text) {
  for (std::size_t at = 0; (at = text.find('<', at)) != text.npos;) text.replace(at, 1, "\\u003c");
  return text;
}

}  // namespace

std::string to_html(const Report& report) {
  Json data = json_of(report);
  data["files"] = files_json(report);
  data["details"] = details_json(report);
  data["edges"] = edges_json(report);
  std::string text(page());
  const std::string mark = "@DATA@";
  return text.replace(text.find(mark), mark.size(), escaped(data.dump(-1, ' ', false, Json::error_handler_t::replace)));
}

}  // namespace dynrun::report
