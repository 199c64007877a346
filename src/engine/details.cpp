// What the HTML report shows of each segment that is there at the end.

#include "engine/engine.h"
#include "engine/guard_words.h"
#include "graph/text.h"
#include "lowering/lower.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

namespace dynrun::engine {

namespace {

report::Place place_at(const graph::Graph& graph, std::int32_t source) {
  if (source < 0 || static_cast<std::size_t>(source) >= graph.sources.size()) return {};
  return place_of(graph.sources[static_cast<std::size_t>(source)]);
}

std::string type_text(const graph::Value& value) {
  if (!value.is_tensor()) return "number";
  return fmt::format("{}[{}]", graph::dtype_name(value.tensor().dtype), fmt::join(value.tensor().sizes, ", "));
}

std::string exit_text(const trace::Segment& segment, const std::vector<report::GraphBreak>& breaks) {
  if (segment.returns) return "a return";
  if (segment.continues) return "its size limit";
  if (segment.break_row == kTurnOfLoop) return "the end of a turn of its loop";
  if (segment.break_row < 0) return "a break";
  const report::GraphBreak& found = breaks[static_cast<std::size_t>(segment.break_row)];
  return fmt::format("the break {} at {}:{}", found.id, found.place.file.substr(found.place.file.rfind('/') + 1), found.place.line);
}

/// `detail`: what is known of its code.
report::SegmentDetail detail_of(const trace::Segment& segment, report::SegmentDetail detail) {
  const graph::Graph& graph = *segment.graph;
  for (const graph::Node& node : graph.nodes) {
    std::string type;
    for (graph::ValueId id : node.outputs) {
      if (id != graph::kNoValue) type += (type.empty() ? "" : ", ") + type_text(graph.values[static_cast<std::size_t>(id)]);
    }
    detail.operators.push_back({node.op_name(), type, place_at(graph, node.source)});
  }
  std::set<std::pair<std::string, int>> told;
  auto add_line = [&](report::Place place) {
    if (told.emplace(place.file, place.line).second) detail.host_lines.push_back(std::move(place));
  };
  for (std::size_t i = 0; i < graph.sources.size(); i++) add_line(place_at(graph, static_cast<std::int32_t>(i)));
  for (std::size_t i = 0; i < segment.lines.size(); i++) add_line(place_of(segment.lines.at(static_cast<std::int32_t>(i))));
  detail.guards = guard_words(segment.guards);
  return detail;
}

void keep_picture(report::SegmentDetail& detail, lowering::Picture picture) {
  detail.arena_bytes = picture.arena_bytes;
  for (lowering::Picture::Step& step : picture.steps) detail.steps.push_back({std::move(step.kind), std::move(step.name), std::move(step.operators)});
  for (lowering::Picture::Buffer& buffer : picture.buffers) detail.buffers.push_back({std::move(buffer.content), buffer.bytes, buffer.offset, buffer.first, buffer.last});
}

}  // namespace

void Engine::show_lowering(lowering::Options& options) {
  if (follows_) {
    code_details_.erase(code_row_);
    options.draw = [this](lowering::Picture picture) { keep_picture(code_details_[code_row_], std::move(picture)); };
  }
  for (std::size_t i = 0; i < options_.dump_count; i++) options.wants_ptx |= std::string_view(options_.dumps[i].stage) == "ptx";
  if (!follows_ && options_.dump_count == 0) return;
  options.dump = [this](const std::string& stage, const std::string& text) {
    if (follows_ && stage.rfind("graph", 0) != 0) code_details_[code_row_].code.push_back({stage, text});
    for (std::size_t i = 0; i < options_.dump_count; i++) {
      if (stage.rfind(options_.dumps[i].stage, 0) == 0) std::fprintf(stderr, "--- %s\n%s\n", stage.c_str(), text.c_str());
    }
  };
}

void Engine::count_edge(std::int32_t from, std::int32_t to, std::int32_t graph_break) {
  if (follows_ && from >= 0 && to >= 0) next_[{from, to, graph_break}]++;
}

report::Report Engine::report_in_full() const {
  report::Report report = this->report();
  // All of them, in the places that segments know.
  report.segments.clear();
  for (std::size_t i = 0; i < segment_rows_.size(); i++) report.segments.push_back(segment_row(i));
  report.graph_breaks.clear();
  for (std::size_t i = 0; i < break_rows_.size(); i++) report.graph_breaks.push_back(break_row(i));
  std::set<std::int32_t> told;
  for (const auto& [code, entries] : entries_) {
    for (const auto& entry : entries) {
      for (const auto& segment : entry->segments) {
        if (segment->row < 0 || !told.insert(segment->row).second) continue;
        auto code = code_details_.find(segment->row);
        report::SegmentDetail detail = detail_of(*segment, code == code_details_.end() ? report::SegmentDetail() : code->second);
        detail.segment = static_cast<std::size_t>(segment->row);
        detail.exit = exit_text(*segment, break_rows_);
        report.details.push_back(std::move(detail));
      }
    }
  }
  for (const auto& [key, count] : next_) {
    const auto& [from, to, graph_break] = key;
    report.edges.push_back({static_cast<std::size_t>(from), static_cast<std::size_t>(to), graph_break, count});
  }
  return report;
}

}  // namespace dynrun::engine
