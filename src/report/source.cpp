#include "report/source.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>

namespace dynrun::report {
namespace {

std::uint8_t byte_at(const std::string& text, std::size_t at) { return at < text.size() ? static_cast<std::uint8_t>(text[at]) : 0; }
bool goes_on(std::uint8_t byte) { return (byte & 0xc0) == 0x80; }

/// Bytes of the character that begins there; 0 where none does.
std::size_t length_at(const std::string& text, std::size_t at) {
  const std::uint8_t first = byte_at(text, at);
  const std::size_t length = first < 0x80 ? 1 : (first & 0xe0) == 0xc0 ? 2 : (first & 0xf0) == 0xe0 ? 3 : (first & 0xf8) == 0xf0 ? 4 : 0;
  for (std::size_t i = 1; i < length; i++) {
    if (!goes_on(byte_at(text, at + i))) return 0;
  }
  return length;
}

std::string as_utf8(std::string line) {
  std::size_t at = 0;
  while (at < line.size() && length_at(line, at) != 0) at += length_at(line, at);
  if (at == line.size()) return line;
  std::string text;
  for (const char character : line) {
    const auto byte = static_cast<std::uint8_t>(character);
    if (byte < 0x80) {
      text += character;
    } else {
      text += static_cast<char>(0xc0 | (byte >> 6));
      text += static_cast<char>(0x80 | (byte & 0x3f));
    }
  }
  return text;
}

struct Range {
  std::uint32_t first, last;
};
constexpr std::array kCombining{Range{0x300, 0x36f}, Range{0x200b, 0x200f}, Range{0x20d0, 0x20ff}, Range{0xfe00, 0xfe0f}};
constexpr std::array kWide{Range{0x1100, 0x115f},   Range{0x2e80, 0x303e},   Range{0x3041, 0xa4cf},   Range{0xac00, 0xd7a3},   Range{0xf900, 0xfaff},  Range{0xfe30, 0xfe6f},
                           Range{0xff00, 0xff60},   Range{0xffe0, 0xffe6},   Range{0x1f300, 0x1f64f}, Range{0x1f900, 0x1f9ff}, Range{0x20000, 0x3fffd}};

template <typename Ranges>
bool lies_in(const Ranges& ranges, std::uint32_t character) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const Range& range) { return character >= range.first && character <= range.last; });
}

}  // namespace

std::vector<std::string> source_lines(const std::string& file, std::size_t most) {
  std::ifstream stream(file);
  std::vector<std::string> lines;
  for (std::string line; lines.size() < most && std::getline(stream, line);) lines.push_back(as_utf8(line));
  return lines;
}

std::optional<std::string> raw_line(const std::string& file, int line) {
  if (line <= 0) return std::nullopt;
  std::ifstream stream(file);
  std::string text;
  for (int at = 0; at < line; ++at) {
    if (!std::getline(stream, text)) return std::nullopt;
  }
  return as_utf8(text);
}

int columns_of(const std::string& text, std::size_t at) {
  const std::size_t length = length_at(text, at);
  if (length == 0) return goes_on(byte_at(text, at)) ? 0 : 1;
  std::uint32_t character = length == 1 ? byte_at(text, at) : byte_at(text, at) & (0xff >> (length + 1));
  for (std::size_t i = 1; i < length; i++) character = (character << 6) | (byte_at(text, at + i) & 0x3f);
  return lies_in(kCombining, character) ? 0 : lies_in(kWide, character) ? 2 : 1;
}

}  // namespace dynrun::report
