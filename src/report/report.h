#pragma once
// What a run did, in numbers and in lines for people. Knows nothing of Python: the engine fills a Report, this layer writes it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dynrun::report {

/// A place in Python source.
struct Place {
  std::string file;
  int line = 0;
  std::string function;

  bool is_line_of(const Place& other) const { return line == other.line && file == other.file; }
};

/// Why recorded execution ended before it had to: an entry of the break table (`id`), with the text a user can act on.
struct GraphBreak {
  std::string id;      // stable, for programs: "opaque-call", "data-dependent-bool", ... (report/breaks.h)
  std::string reason;  // for people: what happened
  Place place;
  std::uint64_t count = 0;  // met while recording
  std::string cure{};       // what to do
  int column = -1, end_column = -1;  // of what was met, in UTF-8 bytes of the line from 0; -1: not known
  std::vector<Place> callers{};      // innermost first, those of the first time
  std::uint64_t replays = 0;   // met again after it was recorded: behind a replay, or behind nothing that was worth a segment
  double microseconds = 0;     // of those times, from the end of what was replayed until recorded code went on, or was left: the call itself included
};

/// A guard that failed: which (a path such as `arg 0 . shape[1]`), what it was when recorded, what it is now.
struct GuardMiss {
  std::string guard;
  std::string was;
  std::string now;
  Place place;
  std::uint64_t count = 0;
};

/// Segments of so many operators that begin at one place.
struct SegmentPlace {
  Place place;
  std::vector<std::string> functions;  // on the stack there, the one where recording began first
  std::uint64_t operators = 0;         // of one replay; 0: the segment is Python alone, nothing was compiled for it
  std::uint64_t count = 0;             // of such segments
  std::uint64_t replays = 0;
  double microseconds = 0;       // of the replays
  double code_microseconds = 0;  // of these, in kernels and library calls
  int kernels = 0, library_calls = 0;  // of one replay
};

/// What the HTML report shows of one segment.
struct SegmentDetail {
  struct Operator {
    std::string name, type;  // "aten::add.Tensor", "float32[2, 3]"
    Place place;
  };
  struct Code {
    std::string stage, text;  // "loops", "llvm", "asm"
  };
  struct Step {
    std::string kind, name;  // "kernel", "library" or "dispatch"; "kernel 0", or what it calls
    std::vector<std::string> operators;  // that it stands for
  };
  struct Buffer {
    std::string content;
    std::int64_t bytes = 0, offset = -1;  // in the arena; -1: memory of its own
    std::int32_t first = 0, last = 0;     // the steps it lives from and to
  };
  std::size_t segment = 0;  // of Report::segments
  std::string exit;         // in words
  std::vector<Operator> operators;
  std::vector<Place> host_lines;  // lines that it stands for, with and without operators
  std::vector<std::string> guards;
  std::vector<Code> code;
  std::vector<Step> steps;  // of its code, as it was made last; with the memory that they use
  std::vector<Buffer> buffers;
  std::int64_t arena_bytes = 0;
};

/// After a replay of one segment another one came next, or began to be recorded.
struct Edge {
  std::size_t from = 0, to = 0;  // of Report::segments
  std::int64_t graph_break = -1;  // of Report::graph_breaks, where one lies between them
  std::uint64_t count = 0;
};

/// Code that the VM could not run and CPython did.
struct ForeignFrame {
  std::string reason;
  Place place;
  std::uint64_t count = 0;
};

/// A function that is not worth running here: its calls were timed.
struct LeftFunction {
  Place place;
  bool with_calls = false;  // CPython runs what it calls, too
  double microseconds = 0, microseconds_here = 0;  // of a call, left to CPython and not
};

/// Operators that ran in no segment: before the code was hot, between segments, in libtorch's backward pass.
struct OutsideLine {
  Place place;  // the innermost line of the program's own that led to them
  bool backward = false;
  std::uint64_t count = 0;  // of a thread's first few thousand exactly, then by sample
};

/// Code that was recorded so often that it is recorded no more: it is another one on most calls.
struct GivenUp {
  Place place;
  int recordings = 0;
};

/// The keys of `--stats` and of `dynrun.stats()` are the names of these members.
struct Report {
  std::uint64_t operators_total = 0;  // top-level operators on any thread, whoever ran them; a replay counts what it stands for
  std::uint64_t operators_assumed = 0;  // of these, those that nobody counted: their functions had run as many each time before
  std::uint64_t operators_captured = 0;  // of the total, those in segments
  std::uint64_t segments_compiled = 0;
  std::uint64_t segments_dropped = 0;  // what they guard is gone, or others made them useless
  std::uint64_t segment_replays = 0;
  std::uint64_t frames_vm = 0;           // Python frames started in the VM
  std::uint64_t frames_cpython = 0;      // Python frames that CPython ran after the engine had started
  std::uint64_t frames_skipped = 0;      // of those, the ones that were called with tensors or make them one after the other
  std::uint64_t frames_handed_over = 0;  // of frames_vm, those that ended in CPython
  std::uint64_t frames_traced = 0;       // Python frames that CPython ran because they were traced, profiled or monitored
  std::uint64_t frames_replayed = 0;     // frames that replays stood for
  double compile_seconds = 0;
  double seconds = 0;              // since the engine started, or since the last reset; the times below are there where a report is wanted
  double replay_microseconds = 0;  // of that, in replays of segments
  std::vector<SegmentPlace> segments;  // those of segments_compiled
  std::vector<GraphBreak> graph_breaks;
  std::vector<GuardMiss> guard_misses;
  std::vector<ForeignFrame> foreign_frames;
  std::vector<LeftFunction> left_functions;
  std::vector<OutsideLine> outside_operators;  // where a report is wanted; most first
  std::vector<GivenUp> given_up;
  std::vector<SegmentDetail> details;  // with the edges and the script: where HTML is wanted
  std::vector<Edge> edges;
  std::string script;  // the path of the program's first file
};

/// The report as JSON, indented, ending in a newline. Text that is not UTF-8 has its bad bytes replaced.
std::string to_json(const Report& report);

/// The report as one page that needs nothing else: the sources of what was recorded, coloured by what became of each line.
std::string to_html(const Report& report);

/// The report for people (`--explain`): totals, then breaks and guard misses with their source lines, most frequent first.
std::string to_text(const Report& report);

/// Whether a file is of an installed package or of Python itself, or none at all (code made by a program's text).
bool is_library(const std::string& path);

/// Line `line` (from 1) of a file without its surrounding blanks; empty where it cannot be read.
std::string source_line(const std::string& file, int line);

/// Writes the whole text to a file. Returns nothing, or why it failed in one line with the cure.
std::optional<std::string> write_file(const std::string& path, const std::string& text);

/// Whether `path` can be written, without changing what it holds. Returns nothing, or why not in one line.
std::optional<std::string> check_writable(const std::string& path);

}  // namespace dynrun::report
