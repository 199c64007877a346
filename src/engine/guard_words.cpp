#include "engine/guard_words.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <unordered_set>

namespace dynrun::engine {

namespace {

struct Form {
  std::string_view printed;  // behind the name and ": ", as guards::Program::print has it
  std::string_view words;    // {0}: the name, {1}: what follows
};

// A longer one stands before those that it begins with.
constexpr std::array kForms{
    Form{"type ", "{0} is of class {1}"},
    Form{"is type ", "{0} is class {1}"},
    Form{"is ", "{0} is {1}"},
    Form{"equals ", "{0} equals {1}"},
    Form{"code ", "{0} runs the code it ran"},
    Form{"absent ", "{0} has no entry {1}"},
    Form{"length ", "{0} holds {1} items"},
    Form{"set ", "{0} is a set of the same items"},
    Form{"keys ", "{0} has the keys {1}"},
    Form{"tensor ", "{0} is a tensor {1}"},
    Form{"same ", "{0} and {1} are one object"},
    Form{"not same ", "{0} and {1} are two objects"},
    Form{"null ", "{0} is not set"},
    Form{"present ", "{0} is there"},
    Form{"output stream ", "{0} is a stream that writes without Python code"},
    Form{"plain logger ", "{0} is a logger of the usual kind, with its levels and handlers"},
    Form{"token ", "{0} is a token by which its variable can be reset"},
    Form{"no attribute ", "{0} has no attribute {1} of its own"},
    Form{"distinct ", "{0} and its like are none of the objects that are read by another name"},
};

std::string words_of(std::string_view line) {
  for (std::size_t at = line.find(": "); at != line.npos; at = line.find(": ", at + 1)) {
    const std::string_view rest = line.substr(at + 2);
    for (const Form& form : kForms) {
      if (rest.substr(0, form.printed.size()) != form.printed) continue;
      return fmt::format(fmt::runtime(form.words), line.substr(0, at), rest.substr(form.printed.size()));
    }
  }
  return std::string(line);
}

}  // namespace

std::vector<std::string> guard_words(const guards::Program& guards) {
  const std::string printed = guards.print();
  std::vector<std::string> words;
  std::unordered_set<std::string> seen;
  for (std::size_t start = 0; start < printed.size();) {
    const std::size_t end = std::min(printed.find('\n', start), printed.size());
    if (end > start && seen.insert(printed.substr(start, end - start)).second) words.push_back(words_of(std::string_view(printed).substr(start, end - start)));
    start = end + 1;
  }
  return words;
}

}  // namespace dynrun::engine
