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
  bool possible = true;       // one that is not is never run nor chosen
};

/// What candidates are measured for.
struct Question {
  std::string what;                 // the operator with all that does not change from lowering to lowering
  std::vector<std::int64_t> sizes;  // what may: always as many
};

/// The index of the fastest. The first candidate is kept unless another is faster by a margin: 8 %, more when only few short runs were affordable.
/// What was measured is remembered for the life of the process, for each number of threads.
/// Within one lowering, measuring takes about a third of a second at most: then the likely candidate of large kernels, the first
/// one, is taken unmeasured. In a lowering for one of many sizes, sizes in the same half between powers of two share an answer, and what is the
/// fastest at all sizes nearby is taken to be so at these.
std::size_t fastest(const Question& question, const std::vector<Candidate>& candidates);

/// While one lives, OpenMP and MKL use one thread for what this thread calls. Two threads that wait for each other measure how
/// busy the machine is, one measures the kernel; and many small operators are done sooner by one. Nothing changes where the
/// libraries do not offer that.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int openmp_threads_ = 0, mkl_threads_ = 0;
};

enum class Measuring {
  kExactly,   // the very sizes
  kRoughly,   // one of many lowerings that differ in sizes, which need not all be measured
  kGuessing,  // the same, in haste: what was measured at the sizes that are the most alike is taken
};

/// A new lowering begins on this thread.
void start_measuring(Measuring how);
/// Whether the lowering took anything of which measuring might say otherwise.
bool has_guessed();

/// Strides as part of a question: themselves, or in a lowering for one of many sizes the order of dimensions and where there are gaps.
std::string layout_text(const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides);

/// Gives the C library's free memory back to the system: measuring and packing leave much of it behind.
void return_free_memory();

/// oneDNN's kernels allocate their results. Has the C library keep up to 128 MB of freed memory for the next call, where it
/// would give each result back to the system and fault its pages in again. Once a process.
void keep_freed_memory();

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
