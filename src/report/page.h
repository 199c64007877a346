#pragma once
// src/report/report.html, which the build puts into the program.

#include <string_view>

namespace dynrun::report {

/// The page, with `@DATA@` where the report's JSON goes.
std::string_view page();

}  // namespace dynrun::report
