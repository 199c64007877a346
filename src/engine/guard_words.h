#pragma once
// Guards for people.

#include "guards/program.h"

#include <string>
#include <vector>

namespace dynrun::engine {

/// What a segment relies on, a sentence a guard, each once: "x is a tensor Float[3, 4] ...", "self.training equals False".
std::vector<std::string> guard_words(const guards::Program& guards);

}  // namespace dynrun::engine
