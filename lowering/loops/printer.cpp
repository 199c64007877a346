// The text form of a kernel:
//
//   kernel rows [2, 3] inner [64] vector inner
//   buffer 0 float32
//   buffer 1 float32 written
//   %0 = load float32 0[i0*192 + i1*64 + i2]
//   %1 = reduce max float32 %0
//   %2 = load float32 0[i0*192] where %1
//   store 1[i0*192 + i1*64 + i2] = %1
//
// `$0` is a number that each call gives.

#include "graph/text.h"
#include "lowering/loops/loop.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace dynrun::lowering {
namespace {

std::string print_number(std::int64_t number) {
  return is_argument(number) ? fmt::format("${}", argument_index(number)) : std::to_string(number);
}

std::string print_sizes(Sizes::const_iterator begin, Sizes::const_iterator end) {
  std::vector<std::string> texts;
  std::transform(begin, end, std::back_inserter(texts), print_number);
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string print_access(const Access& access) {
  std::string terms;
  for (std::size_t i = 0; i < access.strides.size(); ++i) {
    if (access.strides[i] == 0) continue;
    if (!terms.empty()) terms += " + ";
    terms += access.strides[i] == 1 ? fmt::format("i{}", i) : fmt::format("i{}*{}", i, print_number(access.strides[i]));
  }
  if (access.offset != 0 || terms.empty()) terms += (terms.empty() ? "" : " + ") + print_number(access.offset);
  return fmt::format("{}[{}]", access.buffer, terms);
}

std::string print_op(const LoopOp& op) {
  std::string dtype(graph::dtype_name(op.dtype));
  switch (op.kind) {
    case ExpressionKind::kLoad:
      return fmt::format("load {} {}{}", dtype, print_access(op.access), op.arguments.empty() ? "" : fmt::format(" where %{}", op.arguments[0]));
    case ExpressionKind::kConstant:
      if (op.argument >= 0) return fmt::format("constant {} ${}", dtype, op.argument);
      return c10::isFloatingType(op.dtype) ? fmt::format("constant {} {}", dtype, op.number)
                                           : fmt::format("constant {} {}", dtype, op.integer);
    case ExpressionKind::kIndex:
      return fmt::format("index i{}", op.loop);
    case ExpressionKind::kReduce:
      return fmt::format("reduce {} {} %{}", name_of(op.reduce), dtype, op.arguments[0]);
    case ExpressionKind::kPoint:
      return fmt::format("{} {} %{}", info(op.op).text, dtype, fmt::join(op.arguments, " %"));
  }
  return "";
}

}  // namespace

std::string print(const Kernel& kernel) {
  auto first_inner = kernel.dims.begin() + kernel.outer;
  std::string out = fmt::format("kernel rows [{}] inner [{}] vector {}\n", print_sizes(kernel.dims.begin(), first_inner),
                                print_sizes(first_inner, kernel.dims.end()), kernel.vector_rows ? "rows" : "inner");
  for (std::size_t i = 0; i < kernel.buffers.size(); ++i) {
    out += fmt::format("buffer {} {}{}\n", i, graph::dtype_name(kernel.buffers[i].dtype),
                       kernel.buffers[i].written ? " written" : "");
  }
  for (std::size_t i = 0; i < kernel.ops.size(); ++i) out += fmt::format("%{} = {}\n", i, print_op(kernel.ops[i]));
  for (const LoopStore& store : kernel.stores) {
    out += fmt::format("store{} {} = %{}\n", store.inner ? "" : " row", print_access(store.access), store.op);
  }
  return out;
}

}  // namespace dynrun::lowering
