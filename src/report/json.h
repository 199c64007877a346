#pragma once
// The report as JSON, before it is written.

#include "report/report.h"

#include <nlohmann/json.hpp>

namespace dynrun::report {

using Json = nlohmann::ordered_json;

/// What `to_json` writes.
Json json_of(const Report& report);

/// Adds "file", "line" and "function".
void add_place(Json& object, const Place& place);

/// A list of such.
Json places_json(const std::vector<Place>& places);

}  // namespace dynrun::report
