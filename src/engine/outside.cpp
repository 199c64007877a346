#include "engine/outside.h"

#include "report/clock.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace dynrun::engine {

namespace {

/// So many operators of a thread each are looked at; then one in about eight, and behind so many looks one in about thirty.
constexpr std::uint32_t kExact = 4096, kDense = 2 * kExact;

constinit std::atomic<std::uint64_t> operators_elsewhere{0};

std::uint32_t to_pass_after(std::uint32_t looks) {
  if (looks <= kDense) return report::distance(looks, kExact);
  std::uint32_t mixed = looks * 0x9E3779B9u;  // what runs in a loop comes back after as many operators each time
  mixed = (mixed ^ mixed >> 15) * 0x85EBCA6Bu;
  return 16 + (mixed >> 27);
}

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

/// Calls on a thread's stack, from the innermost to the program's own: by where each of them stands.
struct OutsideOperators::Chain {
  static constexpr std::size_t kMost = 12;
  std::array<const std::uint16_t*, kMost> at{};
  std::size_t depth = 0;
  Row* row = nullptr;

  bool is_of(const python::Frame* frame) const {
    const python::Frame* own = nullptr;
    for (std::size_t i = 0; i < depth; i++) {
      if (frame == nullptr || frame->previous_instruction != at[i]) return false;
      own = std::exchange(frame, python_frame(frame->previous));
    }
    return own != nullptr && own->code->co_qualname == row->name;
  }
};

struct OutsideOperators::Found {
  static constexpr std::size_t kMost = 64;
  std::array<Function, kMost> functions{};
  std::array<Chain, kMost> chains{};
  bool ignored = false;
  std::uint32_t looks = 0;
  Shares* shares = nullptr;

  Function& function_at(const PyCodeObject* code) { return functions[(reinterpret_cast<std::uintptr_t>(code) >> 5) % kMost]; }
  Chain& chain_at(const std::uint16_t* instruction) { return chains[(reinterpret_cast<std::uintptr_t>(instruction) >> 2) % kMost]; }
  static Found& here() {
    thread_local constinit Found found;
    return found;
  }
};

bool& OutsideOperators::ignored() { return Found::here().ignored; }

OutsideOperators::Shares*& OutsideOperators::shares() { return Found::here().shares; }

void OutsideOperators::add(const Shares& shares) {
  for (const Share& share : shares) share.row->count.fetch_add(share.count, std::memory_order_relaxed);
}

std::uint64_t OutsideOperators::elsewhere() { return operators_elsewhere.load(std::memory_order_relaxed); }

OutsideOperators::Function OutsideOperators::function_of(const PyCodeObject* code) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto [at, fresh] = library_.try_emplace(code->co_filename, false);
  if (fresh) at->second = report::is_library(std::string(plain_text(code->co_filename)));
  return {code, code->co_filename, code->co_qualname, at->second, plain_text(code->co_qualname) == "_engine_run_backward"};
}

const OutsideOperators::Function& OutsideOperators::known(Found& found, const PyCodeObject* code) {
  Function& function = found.function_at(code);
  if (function.code != code || function.file != code->co_filename || function.name != code->co_qualname) function = function_of(code);
  return function;
}

bool OutsideOperators::is_library(PyCodeObject* code) { return known(Found::here(), code).is_library; }

OutsideOperators::Row& OutsideOperators::row_of(const Key& key, const python::Frame& frame) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Row*& row = index_[key];
  if (row != nullptr && row->name == frame.code->co_qualname) return *row;
  const report::Place place{std::string(plain_text(frame.code->co_filename)), python::line_of(&frame), std::string(plain_text(frame.code->co_qualname))};
  row = &rows_.emplace_back(frame.code->co_qualname, report::OutsideLine{place, key.backward, 0});
  return *row;
}

std::uint32_t OutsideOperators::count(std::uint32_t operators) {
  Found& found = Found::here();
  const python::Frame* innermost = found.ignored ? nullptr : current_frame();
  if (innermost == nullptr) {
    if (!found.ignored) operators_elsewhere.fetch_add(operators, std::memory_order_relaxed);
    return 0;
  }
  Chain& chain = found.chain_at(innermost->previous_instruction);
  Row& row = chain.is_of(innermost) ? *chain.row : find(innermost, found, chain);
  row.count.fetch_add(operators, std::memory_order_relaxed);
  if (found.shares == nullptr) return to_pass_after(++found.looks);
  auto share = std::find_if(found.shares->rbegin(), found.shares->rend(), [&](const Share& other) { return other.row == &row; });
  if (share != found.shares->rend()) share->count++;
  else found.shares->push_back({&row, 1});
  return 0;
}

OutsideOperators::Row& OutsideOperators::find(const python::Frame* innermost, Found& found, Chain& chain) {
  const bool backward = known(found, innermost->code).runs_backward;
  const python::Frame* own = innermost;
  std::size_t depth = 0;
  auto pass = [&](const python::Frame* frame) {
    if (depth < Chain::kMost) chain.at[depth] = frame->previous_instruction;
    depth++;
  };
  for (; own && known(found, own->code).is_library; own = python_frame(own->previous)) pass(own);
  const bool is_own = own != nullptr;
  if (is_own) pass(own);
  else own = innermost;
  Row& row = row_of({own->code, unit_of(own), backward}, *own);
  chain.row = &row;
  chain.depth = is_own && depth <= Chain::kMost ? depth : 0;
  return row;
}

void OutsideOperators::reset() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Row& row : rows_) row.count = 0;
}

std::vector<report::OutsideLine> OutsideOperators::lines() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<report::OutsideLine> lines;
  for (const Row& row : rows_) {
    const std::uint64_t count = row.count.load(std::memory_order_relaxed);
    if (count == 0) continue;
    auto same = [&](const report::OutsideLine& line) { return line.place.is_line_of(row.line.place) && line.backward == row.line.backward; };
    auto known = std::find_if(lines.begin(), lines.end(), same);
    if (known == lines.end()) known = lines.insert(known, row.line);
    known->count += count;
  }
  std::stable_sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.count > b.count; });
  return lines;
}

}  // namespace dynrun::engine
