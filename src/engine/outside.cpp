#include "engine/outside.h"

#include "python/frame.h"

#include <algorithm>
#include <string_view>

namespace dynrun::engine {

namespace {

/// A string's text without a Python call: the GIL may not be held. Only ASCII has its text in place.
std::string_view plain_text(PyObject* string) {
  if (!PyUnicode_IS_COMPACT_ASCII(string)) return "?";
  return {static_cast<const char*>(PyUnicode_DATA(string)), static_cast<std::size_t>(PyUnicode_GET_LENGTH(string))};
}

const python::Frame* python_frame(const python::Frame* frame) {
  while (frame && frame->owner == python::kOwnedByCStack) frame = frame->previous;
  return frame;
}

const python::Frame* current_frame() {
  const PyThreadState* thread = PyGILState_GetThisThreadState();
  return thread && thread->cframe ? python_frame(reinterpret_cast<const python::Frame*>(thread->cframe->current_frame)) : nullptr;
}

std::ptrdiff_t unit_of(const python::Frame* frame) { return frame->previous_instruction - reinterpret_cast<const std::uint16_t*>(frame->code->co_code_adaptive); }

}  // namespace

bool& OutsideOperators::ignored() {
  thread_local bool ignored = false;
  return ignored;
}

void OutsideOperators::count() {
  if (ignored()) return;
  const python::Frame* innermost = current_frame();
  if (innermost == nullptr) return;
  const bool backward = plain_text(innermost->code->co_qualname) == "_engine_run_backward";
  const std::lock_guard<std::mutex> lock(mutex_);
  auto is_library = [&](const python::Frame* frame) {
    auto [at, fresh] = library_.try_emplace(frame->code->co_filename, false);
    if (fresh) at->second = report::is_library(std::string(plain_text(frame->code->co_filename)));
    return at->second;
  };
  const python::Frame* own = innermost;
  while (own && is_library(own)) own = python_frame(own->previous);
  if (own == nullptr) own = innermost;
  auto [at, fresh] = index_.try_emplace({own->code, unit_of(own), backward}, rows_.size());
  if (fresh || rows_[at->second].name != own->code->co_qualname) {
    at->second = rows_.size();
    const report::Place place{std::string(plain_text(own->code->co_filename)), python::line_of(own), std::string(plain_text(own->code->co_qualname))};
    rows_.push_back({own->code->co_qualname, {place, backward, 0}});
  }
  rows_[at->second].line.count++;
}

void OutsideOperators::reset() {
  const std::lock_guard<std::mutex> lock(mutex_);
  index_.clear();
  rows_.clear();
}

std::vector<report::OutsideLine> OutsideOperators::lines() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<report::OutsideLine> lines;
  for (const Row& row : rows_) {
    auto same = [&](const report::OutsideLine& line) { return line.place.is_line_of(row.line.place) && line.backward == row.line.backward; };
    auto known = std::find_if(lines.begin(), lines.end(), same);
    if (known == lines.end()) lines.push_back(row.line);
    else known->count += row.line.count;
  }
  std::stable_sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.count > b.count; });
  return lines;
}

}  // namespace dynrun::engine
