#pragma once
// Source files for people: their lines as UTF-8.

#include <optional>
#include <string>
#include <vector>

namespace dynrun::report {

/// The first lines of a file, `most` at most; none where it cannot be read. What is not UTF-8 is read as Latin-1.
std::vector<std::string> source_lines(const std::string& file, std::size_t most);
/// Line `line` (from 1) of a file as it is; nothing where it cannot be read.
std::optional<std::string> raw_line(const std::string& file, int line);
/// How many columns of a terminal the character that begins at `text[at]` takes: 0 inside a character and for what combines.
int columns_of(const std::string& text, std::size_t at);

}  // namespace dynrun::report
