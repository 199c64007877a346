#include "report/json.h"

namespace dynrun::report {

namespace {

Json breaks_json(const std::vector<GraphBreak>& breaks) {
  Json list = Json::array();
  for (const GraphBreak& entry : breaks) {
    Json object{{"id", entry.id}, {"reason", entry.reason}, {"cure", entry.cure}};
    add_place(object, entry.place);
    object["column"] = entry.column;
    object["end_column"] = entry.end_column;
    object["callers"] = places_json(entry.callers);
    object["count"] = entry.count;
    object["replays"] = entry.replays;
    object["microseconds"] = entry.microseconds;
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
    object["replays"] = entry.replays;
    object["microseconds"] = entry.microseconds;
    object["code_microseconds"] = entry.code_microseconds;
    object["kernels"] = entry.kernels;
    object["library_calls"] = entry.library_calls;
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

Json left_json(const std::vector<LeftFunction>& functions) {
  Json list = Json::array();
  for (const LeftFunction& left : functions) {
    Json object{{"with_calls", left.with_calls}, {"microseconds", left.microseconds}, {"microseconds_here", left.microseconds_here}};
    add_place(object, left.place);
    list.push_back(std::move(object));
  }
  return list;
}

Json outside_json(const std::vector<OutsideLine>& lines) {
  Json list = Json::array();
  for (const OutsideLine& line : lines) {
    Json object{{"count", line.count}, {"backward", line.backward}};
    add_place(object, line.place);
    list.push_back(std::move(object));
  }
  return list;
}

Json given_up_json(const std::vector<GivenUp>& entries) {
  Json list = Json::array();
  for (const GivenUp& entry : entries) {
    Json object{{"recordings", entry.recordings}};
    add_place(object, entry.place);
    list.push_back(std::move(object));
  }
  return list;
}

}  // namespace

void add_place(Json& object, const Place& place) {
  object["file"] = place.file;
  object["line"] = place.line;
  object["function"] = place.function;
}

Json places_json(const std::vector<Place>& places) {
  Json list = Json::array();
  for (const Place& place : places) add_place(list.emplace_back(), place);
  return list;
}

Json json_of(const Report& report) {
  return {
      {"operators_total", report.operators_total},
      {"operators_captured", report.operators_captured},
      {"segments_compiled", report.segments_compiled},
      {"segments_dropped", report.segments_dropped},
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
      {"seconds", report.seconds},
      {"replay_microseconds", report.replay_microseconds},
      {"foreign_frames", foreign_json(report.foreign_frames)},
      {"left_functions", left_json(report.left_functions)},
      {"outside_operators", outside_json(report.outside_operators)},
      {"given_up", given_up_json(report.given_up)},
  };
}

std::string to_json(const Report& report) { return json_of(report).dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace dynrun::report
