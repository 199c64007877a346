#pragma once
// The Python files of src/python/dynrun, which the build puts into the library.

#include <optional>
#include <string_view>

namespace dynrun::engine {

/// The text of src/python/dynrun/`name`.py.
std::optional<std::string_view> python_source(std::string_view name);

}  // namespace dynrun::engine
