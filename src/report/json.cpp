#include "report/json.h"

namespace dynrun::report {

namespace {

/// A list with an object for each entry: what `write` puts into it, and its place.
template <typename Entry, typename Write>
Json listed(const std::vector<Entry>& entries, Write write) {
  Json list = Json::array();
  for (const Entry& entry : entries) {
    Json& object = list.emplace_back(write(entry));
    add_place(object, entry.place);
  }
  return list;
}

Json of_break(const GraphBreak& entry) {
  return {{"id", entry.id},
          {"reason", entry.reason},
          {"cure", entry.cure},
          {"column", entry.column},
          {"end_column", entry.end_column},
          {"callers", places_json(entry.callers)},
          {"count", entry.count},
          {"replays", entry.replays},
          {"microseconds", entry.microseconds}};
}

Json of_segment(const SegmentPlace& entry) {
  return {{"operators", entry.operators},
          {"functions", entry.functions},
          {"count", entry.count},
          {"replays", entry.replays},
          {"microseconds", entry.microseconds},
          {"code_microseconds", entry.code_microseconds},
          {"kernels", entry.kernels},
          {"library_calls", entry.library_calls}};
}

Json of_miss(const GuardMiss& miss) { return {{"guard", miss.guard}, {"was", miss.was}, {"now", miss.now}, {"count", miss.count}}; }
Json of_foreign(const ForeignFrame& frame) { return {{"reason", frame.reason}, {"count", frame.count}}; }
Json of_left(const LeftFunction& left) { return {{"with_calls", left.with_calls}, {"microseconds", left.microseconds}, {"microseconds_here", left.microseconds_here}}; }
Json of_outside(const OutsideLine& line) { return {{"count", line.count}, {"backward", line.backward}}; }
Json of_given_up(const GivenUp& entry) { return {{"recordings", entry.recordings}}; }

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
      {"operators_assumed", report.operators_assumed},
      {"operators_captured", report.operators_captured},
      {"segments_compiled", report.segments_compiled},
      {"segments_dropped", report.segments_dropped},
      {"segment_replays", report.segment_replays},
      {"segments", listed(report.segments, of_segment)},
      {"frames_vm", report.frames_vm},
      {"frames_cpython", report.frames_cpython},
      {"frames_skipped", report.frames_skipped},
      {"frames_handed_over", report.frames_handed_over},
      {"frames_traced", report.frames_traced},
      {"frames_replayed", report.frames_replayed},
      {"graph_breaks", listed(report.graph_breaks, of_break)},
      {"guard_misses", listed(report.guard_misses, of_miss)},
      {"compile_seconds", report.compile_seconds},
      {"seconds", report.seconds},
      {"replay_microseconds", report.replay_microseconds},
      {"foreign_frames", listed(report.foreign_frames, of_foreign)},
      {"left_functions", listed(report.left_functions, of_left)},
      {"outside_operators", listed(report.outside_operators, of_outside)},
      {"given_up", listed(report.given_up, of_given_up)},
  };
}

std::string to_json(const Report& report) { return json_of(report).dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace dynrun::report
