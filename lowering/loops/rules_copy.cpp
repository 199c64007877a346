#include "lowering/loops/decompose.h"

namespace dynrun::lowering {
namespace {

using c10::ScalarType;

/// clone, contiguous, to, copy: another dtype or layout of the same elements.
void convert(RuleContext& c) {
  const graph::TensorType& type = c.type("self");
  if (type.sizes != c.out().sizes) throw NotCovered{};
  c.define(c.tensor("self"));
}

/// copy(self, src): src, broadcast and converted to self's type.
void copy(RuleContext& c) {
  Expr source = cast(c.tensor("src"), c.out().dtype);
  if (source->sizes != c.out().sizes) {
    Sizes strides(c.out().sizes.size() - source->sizes.size(), 0);
    const graph::TensorType& type = c.type("src");
    for (std::size_t i = 0; i < type.sizes.size(); ++i) strides.push_back(type.sizes[i] == 1 ? 0 : type.strides[i]);
    source = load_as(c.value("src"), type.dtype, c.out().sizes, strides, 0);
  }
  c.define(source);
}

/// reshape and flatten of what cannot be viewed: row-major order is kept.
void reshape(RuleContext& c) {
  Expr source = c.tensor("self");
  if (source->sizes == c.out().sizes) return c.define(source);
  c.define_reshaped(source);
}

void place(RuleContext& c, const std::vector<graph::Argument>& items, std::size_t dimension, bool stacked) {
  const graph::TensorType& out = c.out();
  std::int64_t position = 0;
  for (const graph::Argument& item : items) {
    if (!item.is_value() || item.value() == graph::kNoValue) throw NotCovered{};
    const graph::TensorType& type = c.program().graph.type_of(item.value());
    if (type.sizes.size() == 1 && type.sizes[0] == 0) continue;  // cat's legacy: skipped whatever the others are
    Sizes strides = out.strides;
    std::int64_t offset = position * out.strides[dimension];
    if (stacked) strides.erase(strides.begin() + static_cast<std::ptrdiff_t>(dimension));
    if (type.element_count() != 0) c.define_part(load(item.value(), type), strides, offset);
    position += stacked ? 1 : type.sizes[dimension];
  }
}

std::size_t wrap(std::int64_t dimension, std::size_t rank) {
  return static_cast<std::size_t>(dimension < 0 ? dimension + static_cast<std::int64_t>(rank) : dimension);
}

void cat(RuleContext& c) {
  if (!c.at("tensors").is_list() || c.out().element_count() == 0) throw NotCovered{};
  place(c, c.at("tensors").items(), wrap(c.integer("dim"), c.out().sizes.size()), false);
}

void stack(RuleContext& c) {
  if (!c.at("tensors").is_list() || c.out().element_count() == 0) throw NotCovered{};
  place(c, c.at("tensors").items(), wrap(c.integer("dim"), c.out().sizes.size()), true);
}

Expr filled(const RuleContext& c, Expr value) {
  auto wide = std::make_shared<Expression>(*value);
  wide->sizes = c.out().sizes;
  return wide;
}

void full(RuleContext& c) {
  if (!c.at("fill_value").is_constant()) throw NotCovered{};
  c.define(filled(c, c.operand("fill_value", compute_type(c.out().dtype))));
}

void fill(RuleContext& c) {
  c.define(c.is_tensor("value") ? c.fitting("value", c.out().dtype, true)
                                : filled(c, c.operand("value", compute_type(c.out().dtype))));
}

void zeros(RuleContext& c) {
  c.define(filled(c, integer_constant(0, compute_type(c.out().dtype))));
}
void ones(RuleContext& c) {
  c.define(filled(c, integer_constant(1, compute_type(c.out().dtype))));
}

void arange(RuleContext& c) {
  std::int64_t start = 0, step = 1;
  for (const char* name : {"start", "end", "step"}) {
    if (c.has(name) && !c.scalar(name).isInt()) throw NotCovered{};
  }
  if (c.out().dtype != ScalarType::Long) throw NotCovered{};
  start = c.integer("start", 0);
  step = c.integer("step", 1);
  Expr index = index_of(c.out().sizes, 0);
  if (step != 1) index = index * integer_constant(step, ScalarType::Long);
  if (start != 0) index = index + integer_constant(start, ScalarType::Long);
  c.define(index);
}

}  // namespace

const RuleTable& copy_rules() {
  static const RuleTable table = {
      {"aten::clone", convert},
      {"aten::contiguous", convert},
      {"aten::to", convert},
      {"aten::_to_copy", convert},
      {"aten::type_as", convert},
      {"aten::float", convert},
      {"aten::copy", copy},
      {"aten::reshape", reshape},
      {"aten::flatten", reshape},
      {"aten::_unsafe_view", reshape},
      {"aten::cat", cat},
      {"aten::concat", cat},
      {"aten::stack", stack},
      {"aten::full", full},
      {"aten::full_like", full},
      {"aten::fill.Scalar", fill},
      {"aten::fill.Tensor", fill},
      {"aten::zeros", zeros},
      {"aten::zeros_like", zeros},
      {"aten::new_zeros", zeros},
      {"aten::zero", zeros},
      {"aten::ones", ones},
      {"aten::ones_like", ones},
      {"aten::new_ones", ones},
      {"aten::arange", arange},
      {"aten::arange.start", arange},
      {"aten::arange.start_step", arange},
      {"aten::new_full", full},
  };
  return table;
}

}  // namespace dynrun::lowering
