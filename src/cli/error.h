#pragma once
// The user's mistakes: one line with the cause and the cure, and a non-zero exit.

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace dynrun::cli {

/// A mistake of the user's or of the set-up: main prints its text and exits with `status`.
struct UserError : std::runtime_error {
  explicit UserError(const std::string& text, int status = 1) : std::runtime_error(text), status(status) {}
  int status;
};

inline void print_error(const std::string& text) { std::fprintf(stderr, "dynrun: error: %s\n", text.c_str()); }

}  // namespace dynrun::cli
