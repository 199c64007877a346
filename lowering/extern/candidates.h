#pragma once
// Choosing among kernels by running them: CPUs differ, so nothing is assumed of one.

#include <functional>
#include <string>
#include <vector>

namespace dynrun::lowering {

struct Candidate {
  std::string name;
  std::function<void()> run;  // one call on real shapes; one that throws is never chosen
  double handicap = 1;        // its time counts this much more, for what else it costs (memory)
};

/// The index of the fastest. The first candidate is kept unless another is at least 8 % faster (so that noise does not decide).
/// What was measured for `key` (operator, shapes) is remembered for the life of the process, for each number of threads.
std::size_t fastest(const std::string& key, const std::vector<Candidate>& candidates);

/// Gives the C library's free memory back to the system: measuring and packing leave much of it behind.
void return_free_memory();

/// What was measured so far, one line a key: "linear 128x768x768: dispatcher 0.70 ms, packed 0.31 ms".
std::vector<std::string> measurements();

/// While one lives, `fastest` measures nothing and takes the candidate called `name`, else the first that is not named
/// "libtorch": for tests, so that library kernels are met at sizes where they do not pay. Not for several threads.
class PreferLibrary {
 public:
  explicit PreferLibrary(std::string name = "");
  ~PreferLibrary();
  PreferLibrary(const PreferLibrary&) = delete;
  PreferLibrary& operator=(const PreferLibrary&) = delete;
};

}  // namespace dynrun::lowering
