#pragma once
// The loop IR: one kernel is one loop nest over a static iteration space.
//
// `dims` are the loops from the outside in. The first `outer` of them are rows: they run in parallel and in any order. The rest
// is the inside of a row; reductions run over all of it. A kernel with reductions passes over its row once for each level:
// level 0 computes what needs no reduction, level n what needs results of level n-1. A kernel without reductions has one inner
// loop. Exactly one loop is vectorised: the innermost (`vector_rows` false), or the last of the outer ones (true; the inner
// loops are then scalar and each lane is a row of its own).

#include "lowering/loops/expression.h"
#include "lowering/program.h"

#include <limits>
#include <string>

namespace dynrun::lowering {

struct LoopBuffer {
  graph::ValueId value = graph::kNoValue;  // a root
  c10::ScalarType dtype = c10::ScalarType::Float;
  bool written = false;
};

struct Access {
  std::int32_t buffer = -1;
  Sizes strides;  // elements, one a loop
  std::int64_t offset = 0;
};

struct LoopOp {
  ExpressionKind kind = ExpressionKind::kConstant;
  PointOp op = PointOp::kCast;
  ReduceOp reduce = ReduceOp::kSum;
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<std::int32_t> arguments;  // of a load: none, or whether there is something to load
  Access access;
  double number = 0;
  std::int64_t integer = 0;
  std::int32_t argument = -1;  // kConstant: which argument it is, a floating one as the bits of a double; -1 for none
  std::int32_t loop = 0;   // kIndex: which loop
  bool inner = false;      // differs along the inner loops
  std::int32_t level = 0;  // how many reductions stand one upon another below it
};

struct LoopStore {
  std::int32_t op = -1;
  Access access;
  bool inner = true;  // one element each inner iteration, else one a row
};

/// A size, stride or offset in the form of a kernel that its function is given on each call: the one at `index` of its arguments.
constexpr std::int64_t kFirstArgument = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t argument(std::size_t index) { return kFirstArgument + static_cast<std::int64_t>(index); }
constexpr bool is_argument(std::int64_t number) { return number < kFirstArgument + (1 << 20); }
constexpr std::size_t argument_index(std::int64_t number) { return static_cast<std::size_t>(number - kFirstArgument); }

struct Kernel {
  Sizes dims;
  std::int32_t outer = 0;
  bool vector_rows = false;
  std::vector<LoopBuffer> buffers;
  std::vector<LoopOp> ops;
  std::vector<LoopStore> stores;

  bool has_reduction() const;
  std::int32_t levels() const;
  std::int64_t rows() const;
  std::int64_t row_elements() const;
  /// How many arguments its form names.
  std::size_t argument_count() const;
};

/// The text form; equal texts are equal kernels (values are not in it, so one function serves every place that has the text).
std::string print(const Kernel& kernel);

constexpr std::size_t kMostDefinitions = 48;  // of one kernel: registers and compile time grow with them

/// Nodes that run as one kernel, and what they define.
struct FusionGroup {
  Sizes space;
  std::vector<bool> reduced;            // empty: no reduction
  std::vector<Definition> definitions;  // in program order
  std::vector<bool> stored;             // one a definition: somebody outside reads it
};

/// The loops of a group. Buffers name values; those of `program`'s views are their roots'.
Kernel build_kernel(const Program& program, const FusionGroup& group);

}  // namespace dynrun::lowering
