#include "trace/data_sizes.h"

#include "graph/operators.h"
#include "graph/shapes.h"
#include "graph/visit.h"
#include "runtime/dispatch.h"
#include "runtime/trial.h"
#include "trace/operator_keys.h"

#include <ATen/ATen.h>
#include <ATen/WrapDimUtils.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <set>
#include <unordered_set>

namespace dynrun::trace {

using graph::kNoValue;
using graph::ValueId;

namespace {

std::size_t at(std::int32_t id) { return static_cast<std::size_t>(id); }

/// Those whose results are as many numbers.
bool counts_in_front(std::string_view name) {
  static const std::unordered_set<std::string_view> names = {"nonzero_numpy", "masked_select", "where", "bincount"};
  return names.count(name) != 0;
}

/// Contiguous, or without holes in the order in which the recorded one lies in memory.
at::Tensor without_memory(c10::IntArrayRef sizes, const graph::TensorType& recorded) {
  const at::TensorOptions options = at::TensorOptions().dtype(recorded.dtype).device(at::kMeta);
  if (recorded.is_contiguous()) return at::empty(sizes, options);
  std::vector<std::int64_t> order(sizes.size()), strides(sizes.size());
  for (std::size_t i = 0; i < order.size(); i++) order[i] = static_cast<std::int64_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return recorded.strides[static_cast<std::size_t>(a)] < recorded.strides[static_cast<std::size_t>(b)]; });
  std::int64_t next = 1;
  for (std::int64_t dimension : order) {
    strides[static_cast<std::size_t>(dimension)] = next;
    next *= std::max<std::int64_t>(sizes[static_cast<std::size_t>(dimension)], 1);
  }
  return at::empty_strided(sizes, strides, options);
}

/// The sizes of what `results` gives for operands that `operand` makes, one a value. None where it raises, or gives not as many as `count`.
std::optional<std::vector<std::vector<std::int64_t>>> sizes_by(const std::function<c10::IValue(ValueId)>& operand,
                                                               const std::function<std::vector<at::Tensor>(const ValueOf&)>& results, std::size_t count) {
  std::unordered_map<ValueId, c10::IValue> made;
  const ValueOf value = [&](ValueId id) -> const c10::IValue& {
    auto [at, fresh] = made.try_emplace(id);
    if (fresh) at->second = operand(id);
    return at->second;
  };
  try {
    std::vector<std::vector<std::int64_t>> sizes;
    for (const at::Tensor& one : results(value)) sizes.push_back(one.defined() ? one.sizes().vec() : std::vector<std::int64_t>());
    return sizes.size() == count ? std::optional(std::move(sizes)) : std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

/// x[mask, rows]: a mask stands for as many indices as it has dimensions, of `count` numbers each. Undefined where no rule covers it.
at::Tensor index_with_masks(const graph::Graph& graph, const graph::Node& node, const ValueOf& value, std::int64_t count) {
  graph::Node indexed = node;
  std::vector<graph::Argument> items;
  std::unordered_map<ValueId, c10::IValue> masks;
  for (const graph::Argument& item : node.arguments[1].items()) {
    const bool mask = item.is_value() && item.value() != kNoValue && graph::is_mask(graph.type_of(item.value()).dtype);
    const std::size_t places = mask ? graph.type_of(item.value()).sizes.size() : 1;
    if (mask) masks[item.value()] = at::empty({count}, at::TensorOptions().dtype(at::kLong).device(at::kMeta));
    items.insert(items.end(), places, item);
  }
  if (masks.count(node.arguments[0].value()) != 0) return at::Tensor();
  indexed.arguments[1] = graph::Argument::list(std::move(items));
  const ValueOf given = [&](ValueId id) -> const c10::IValue& {
    auto mask = masks.find(id);
    return mask == masks.end() ? value(id) : mask->second;
  };
  torch::jit::Stack stack;
  runtime::push_arguments(indexed, given, stack);
  if (!graph::infer(indexed, graph, stack) && !runtime::try_out(indexed, graph, given, stack)) return at::Tensor();
  return stack[0].toTensor();
}

/// Sizes of the result of that number, where the first operand has these.
std::optional<std::vector<std::int64_t>> decided_sizes(const graph::Node& node, const std::vector<std::int64_t>& operand, std::size_t result, std::int64_t count) {
  const std::string_view name = graph::base_name(node.op);
  const c10::IValue* dimension = constant_of(node, "dim");
  if (name == "nonzero" || name == "argwhere") return std::vector<std::int64_t>{count, static_cast<std::int64_t>(operand.size())};
  if (counts_in_front(name) || node.op.operator_name().name == "torchvision::nms") return std::vector<std::int64_t>{count};
  if (name == "repeat_interleave") {
    if (node.op.operator_name().overload_name == "Tensor" || dimension == nullptr || dimension->isNone()) return std::vector<std::int64_t>{count};
    std::vector<std::int64_t> sizes = operand;
    sizes.at(static_cast<std::size_t>(c10::maybe_wrap_dim(dimension->toInt(), static_cast<std::int64_t>(sizes.size())))) = count;
    return sizes;
  }
  if ((name != "_unique" && name != "_unique2" && name != "unique_consecutive") || (dimension && !dimension->isNone())) return std::nullopt;
  // Values, for each element which of them it is, how many there are of each; empty where nobody asked.
  if (result == 0) return std::vector<std::int64_t>{count};
  const c10::IValue* asked = constant_of(node, result == 1 ? "return_inverse" : "return_counts");
  if (asked == nullptr) return std::nullopt;
  if (!asked->toBool()) return std::vector<std::int64_t>{0};
  return result == 1 ? operand : std::vector<std::int64_t>{count};
}

}  // namespace

/// nn.LSTM and its kin on packed sequences.
static bool is_recurrent(const graph::Node& node) {
  static const std::unordered_set<std::string_view> names = {"lstm", "gru", "rnn_tanh", "rnn_relu"};
  return node.op.operator_name().overload_name == "data" && names.count(graph::base_name(node.op)) != 0;
}

static std::vector<ValueId> states_of(const graph::Node& node) {
  std::vector<ValueId> states;
  graph::visit_values(node.arguments[2], [&](ValueId id) { states.push_back(id); });
  return states;
}

/// Results of operators on packed sequences and of splits, the sizes that are not decided as the operands have them.
static std::vector<std::vector<std::int64_t>> packed_sizes(const graph::Graph& graph, const graph::Node& node, const ValueOf& value, std::int64_t count) {
  const std::string_view name = graph::base_name(node.op);
  std::vector<std::int64_t> sizes = value(node.arguments[0].value()).toTensor().sizes().vec();
  if (name == "_pack_padded_sequence") {
    sizes.erase(sizes.begin());
    sizes[0] = count;
    return {sizes, {count}};
  }
  if (name == "_pad_packed_sequence") {
    sizes[0] = count;
    sizes.insert(sizes.begin(), count);
    return {sizes, {count}};
  }
  std::vector<std::vector<std::int64_t>> results;
  if (is_recurrent(node)) {
    results.push_back({sizes[0], graph.type_of(node.outputs[0]).sizes[1]});
    for (ValueId id : states_of(node)) results.push_back(value(id).toTensor().sizes().vec());
    return results;
  }
  const c10::IValue* dimension = constant_of(node, "dim");
  if (name != "split_with_sizes" || dimension == nullptr) return {};
  for (ValueId id : node.outputs) {
    results.push_back(sizes);
    const auto place = static_cast<std::size_t>(c10::maybe_wrap_dim(dimension->toInt(), static_cast<std::int64_t>(sizes.size())));
    results.back()[place] = graph.type_of(id).sizes[place];
  }
  return results;
}

at::Tensor wrapped_number(const c10::Scalar& number) {
  at::Tensor holder = at::scalar_tensor(number, at::TensorOptions().dtype(number.isFloatingPoint() ? at::kDouble : at::kLong));
  holder.unsafeGetTensorImpl()->set_wrapped_number(true);
  return holder;
}

bool decides_sizes(const c10::OperatorHandle& op, const std::function<bool(std::size_t)>& is_mask, const std::function<std::optional<std::int64_t>(std::size_t)>& number) {
  const std::string& name = op.schema().name();
  static const std::set<std::string> always = {
      "aten::nonzero", "aten::nonzero_numpy", "aten::argwhere", "aten::masked_select", "aten::unique_dim", "aten::_unique", "aten::_unique2",
      "aten::unique_consecutive", "aten::unique_dim_consecutive", "aten::bincount", "aten::linalg_lstsq", "torchvision::nms", "aten::_pack_padded_sequence", "aten::_pad_packed_sequence"};
  if (always.count(name)) return true;
  if (name == "aten::where") return op.schema().arguments().size() == 1;
  if (name == "aten::one_hot") return number(1).value_or(-1) < 0;
  if (name == "aten::repeat_interleave") return op.schema().overload_name() != "self_int";
  return name == "aten::index" && is_mask(1);
}

bool decides_sizes(const graph::Graph& graph, const graph::Node& node) {
  const bool splits = graph::base_name(node.op) == "split_with_sizes" && graph::takes_data_number(graph, node);
  if (splits || (is_recurrent(node) && graph::touches_unsized(graph, node))) return true;
  auto is_mask = [&](std::size_t at) {
    bool any = false;
    graph::visit_values(node.arguments[at], [&](ValueId id) { any = any || graph::is_mask(graph.type_of(id).dtype); });
    return any;
  };
  auto number = [&](std::size_t at) {
    const graph::Argument& argument = node.arguments[at];
    return argument.is_constant() && argument.constant().isInt() ? std::optional(argument.constant().toInt()) : std::nullopt;
  };
  return decides_sizes(node.op, is_mask, number);
}

std::vector<at::Tensor> decided_results(const graph::Graph& graph, const graph::Node& node, const ValueOf& value, std::int64_t count) {
  const std::string_view name = graph::base_name(node.op);
  if (name == "index") {
    const at::Tensor chosen = index_with_masks(graph, node, value, count);
    return chosen.defined() ? std::vector{chosen} : std::vector<at::Tensor>();
  }
  const std::vector<std::int64_t> operand = value(node.arguments[0].value()).toTensor().sizes().vec();
  const std::vector<std::vector<std::int64_t>> packed = packed_sizes(graph, node, value, count);
  std::vector<at::Tensor> results;
  for (std::size_t i = 0; i < node.outputs.size(); i++) {
    std::optional<std::vector<std::int64_t>> sizes = packed.size() == node.outputs.size() ? packed[i] : decided_sizes(node, operand, i, count);
    if (!sizes) return {};
    const at::TensorOptions options = at::TensorOptions().device(at::kMeta);
    results.push_back(node.outputs[i] == kNoValue ? at::Tensor() : at::empty(*sizes, options.dtype(graph.type_of(node.outputs[i]).dtype)));
  }
  return results;
}

DataSizes::Symbol DataSizes::add_symbol(std::int64_t now) {
  now_.push_back(now);
  return static_cast<Symbol>(now_.size()) - 1;
}

void DataSizes::rewind(std::size_t end) {
  std::erase_if(dims_, [&](const auto& one) { return at(one.first) >= end; });
}

std::vector<DataSizes::Symbol> DataSizes::symbols_of(const graph::Node& node) const {
  std::set<Symbol> found;
  graph::visit_values(node, [&](ValueId id) {
    if (has(id)) found.insert(dims_.at(id).begin(), dims_.at(id).end());
  });
  found.erase(kNone);
  return {found.begin(), found.end()};
}

/// A tensor without memory in the recorded sizes, but for those that are `symbol`.
at::Tensor DataSizes::stand_in(const graph::TensorType& type, ValueId id, Symbol symbol, std::int64_t now) const {
  std::vector<std::int64_t> sizes = type.sizes;
  for (std::size_t i = 0; has(id) && i < sizes.size(); i++) {
    if (dims_.at(id)[i] == symbol && symbol != kNone) sizes[i] = now;
  }
  return without_memory(sizes, type);
}

void DataSizes::add_number(ValueId id, const c10::Scalar& now) { dims_[id] = {now.isFloatingPoint() ? kNone : add_symbol(now.toLong())}; }

void DataSizes::add_size(ValueId id, ValueId of, std::size_t dimension, std::int64_t now) {
  const Symbol symbol = has(of) ? dims_.at(of)[dimension] : kNone;
  dims_[id] = {symbol == kNone ? add_symbol(now) : symbol};
}

c10::IValue DataSizes::number_at(const Number& number, ValueId id, Symbol symbol, std::int64_t now) const {
  if (!has(id) || symbol == kNone || dims_.at(id)[0] != symbol) return number(id);
  return wrapped_number(now);
}

/// The sizes of the node's results where `symbol` is `now`. None: the operator raises.
std::optional<DataSizes::AllSizes> DataSizes::sizes_at(const graph::Graph& graph, const graph::Node& node, const Number& number, Symbol symbol, std::int64_t now) const {
  auto operand = [&](ValueId id) { return graph.type_of(id).number ? number_at(number, id, symbol, now) : stand_in(graph.type_of(id), id, symbol, now); };
  return sizes_by(operand, [&](const ValueOf& value) {
    torch::jit::Stack stack;
    runtime::push_arguments(node, value, stack);
    std::vector<at::Tensor> results;
    if (!graph::infer(node, graph, stack) && !runtime::try_out(node, graph, value, stack)) return results;
    for (const c10::IValue& result : stack) results.push_back(result.isTensor() ? result.toTensor() : at::Tensor());
    return results;
  }, node.outputs.size());
}

std::optional<DataSizes::AllSizes> DataSizes::decided_at(const graph::Graph& graph, const graph::Node& node, const Number& number, std::int64_t count) const {
  auto operand = [&](ValueId id) { return graph.type_of(id).number ? number(id) : stand_in(graph.type_of(id), id, kNone, 0); };
  return sizes_by(operand, [&](const ValueOf& value) { return decided_results(graph, node, value, count); }, node.outputs.size());
}

/// Takes the dimensions down, for results that are no arguments.
void DataSizes::note(graph::Graph& graph, const graph::Node& node, const std::vector<Dims>& dims) {
  for (std::size_t i = 0; i < node.outputs.size(); i++) {
    const ValueId id = node.outputs[i];
    bool argument = id == kNoValue;
    graph::visit_values(node, [&](ValueId one) { argument = argument || one == id; });
    if (argument || std::all_of(dims[i].begin(), dims[i].end(), [](Symbol symbol) { return symbol == kNone; })) continue;
    dims_[id] = dims[i];
    std::get<graph::TensorType>(graph.values[at(id)].type).unsized = true;
  }
}

/// One symbol stands for what the data decides; where the place of it is not known, every dimension is one of its own.
void DataSizes::learn_decided(graph::Graph& graph, const graph::Node& node, const Number& number) {
  constexpr std::int64_t kCounts[] = {5, 9};
  const auto first = decided_at(graph, node, number, kCounts[0]), second = decided_at(graph, node, number, kCounts[1]);
  const bool plain = symbols_of(node).empty();  // what comes in with the operands goes on as something that nobody knows
  std::vector<Dims> dims;
  Symbol symbol = kNone;
  for (std::size_t i = 0; i < node.outputs.size(); i++) {
    const ValueId id = node.outputs[i];
    dims.emplace_back();
    if (id == kNoValue) continue;
    const std::vector<std::int64_t>& sizes = graph.type_of(id).sizes;
    for (std::size_t d = 0; d < sizes.size(); d++) {
      const bool known = first && second && (*first)[i].size() == sizes.size() && plain;
      if (known && (*first)[i][d] == (*second)[i][d]) {
        dims.back().push_back(kNone);
        continue;
      }
      if (symbol == kNone || !known) symbol = add_symbol(sizes[d]);
      dims.back().push_back(symbol);
    }
  }
  note(graph, node, dims);
}

/// Rows of sequences, as many as their lengths say together, and how many sequences have each step.
void DataSizes::learn_packed(graph::Graph& graph, const graph::Node& node) {
  const ValueId sequences = node.arguments[0].value();
  const std::vector<std::int64_t>& sizes = graph.type_of(sequences).sizes;
  Dims rows = has(sequences) ? dims_.at(sequences) : Dims(sizes.size(), kNone);
  rows.erase(rows.begin(), rows.begin() + 2);  // batch and time, in either order
  rows.insert(rows.begin(), add_symbol(graph.type_of(node.outputs[0]).sizes[0]));
  note(graph, node, {rows, {add_symbol(graph.type_of(node.outputs[1]).sizes[0])}});
}

/// The way back: as many sequences as the first step has, and as many steps as there are or as it is told.
void DataSizes::learn_unpacked(graph::Graph& graph, const graph::Node& node) {
  const ValueId rows = node.arguments[0].value();
  const bool batch_first = node.arguments[2].constant().toBool();
  const std::vector<std::int64_t>& sizes = graph.type_of(node.outputs[0]).sizes;
  const graph::Argument& length = node.arguments[4];
  Dims dims = has(rows) ? dims_.at(rows) : Dims(sizes.size() - 1, kNone);
  const Symbol batch = add_symbol(sizes[batch_first ? 0 : 1]);
  const Symbol steps = length.is_value() && has(length.value()) ? dims_.at(length.value())[0] : add_symbol(sizes[batch_first ? 1 : 0]);
  dims[0] = batch_first ? steps : batch;
  dims.insert(dims.begin(), batch_first ? batch : steps);
  note(graph, node, {dims, {batch}});
}

/// nn.LSTM and its kin on packed sequences: as many rows as went in, and states as large as they were.
bool DataSizes::learn_recurrent(graph::Graph& graph, const graph::Node& node) {
  const std::vector<ValueId> states = states_of(node);
  const ValueId rows = node.arguments[0].value();
  if (states.size() + 1 != node.outputs.size()) return false;
  std::vector<Dims> dims = {{has(rows) ? dims_.at(rows)[0] : kNone, kNone}};
  for (std::size_t i = 0; i < states.size(); i++) dims.push_back(has(states[i]) ? dims_.at(states[i]) : Dims(graph.type_of(node.outputs[i + 1]).sizes.size(), kNone));
  if (std::any_of(states.begin(), states.end(), [&](ValueId id) { return graph.type_of(id).sizes.back() != graph.type_of(states[0]).sizes.back(); })) return false;  // projections
  note(graph, node, dims);
  return true;
}

/// The results' sizes at other values of each symbol among the operands. Empty where the operator fits only this recording.
std::optional<std::vector<DataSizes::Probe>> DataSizes::probe(const graph::Graph& graph, const graph::Node& node, const Number& number) const {
  std::vector<Probe> probes;
  for (Symbol symbol : symbols_of(node)) {
    const std::int64_t recorded = now_[at(symbol)];
    for (std::int64_t value : {recorded + 3, 2 * recorded + 101, std::int64_t{1}, std::int64_t{0}}) {
      auto sizes = sizes_at(graph, node, number, symbol, value);
      if (!sizes && value > 1) return std::nullopt;
      if (sizes) probes.push_back({symbol, value, std::move(*sizes)});
    }
  }
  return probes;
}

/// What a dimension that is `recorded` now is in the probes: the same, one of the symbols, or something that follows from them.
DataSizes::Symbol DataSizes::symbol_for(std::int64_t recorded, const std::vector<Probe>& probes, std::size_t result, std::size_t dimension, Made& made) {
  std::set<Symbol> moved;
  std::vector<std::int64_t> values = {recorded};
  for (const Probe& probe : probes) {
    values.push_back(probe.sizes[result][dimension]);
    if (values.back() != recorded) moved.insert(probe.symbol);
  }
  if (moved.empty()) return kNone;
  const Symbol one = *moved.begin();
  const bool is_it = moved.size() == 1 && recorded == now_[at(one)] &&
                     std::all_of(probes.begin(), probes.end(), [&](const Probe& probe) { return probe.symbol != one || probe.sizes[result][dimension] == probe.value; });
  if (is_it) return one;
  auto known = std::find_if(made.begin(), made.end(), [&](const auto& symbol) { return symbol.first == values; });
  if (known == made.end()) known = made.insert(made.end(), {values, add_symbol(recorded)});
  return known->second;
}

/// Whether the result lies in new memory, or in an operand's, whatever the sizes are: some operators copy only where they have to.
bool DataSizes::is_alike_at_all_sizes(const graph::Graph& graph, const graph::Node& node) const {
  static const std::unordered_set<std::string_view> by_type = {"to", "type_as", "positive", "resolve_conj", "resolve_neg"};
  const std::string_view name = graph::base_name(node.op);
  if (node.op.schema().is_mutable() || graph::is_view(name) || by_type.count(name) != 0) return true;
  if (graph::copies_by_layout(name)) {
    // Contiguous as it is, and not because there is one row or none.
    const ValueId operand = node.arguments[0].value();
    const Dims* dims = has(operand) ? &dims_.at(operand) : nullptr;
    return graph.type_of(operand).is_contiguous() && (!dims || std::all_of(dims->begin(), dims->end(), [&](Symbol symbol) { return symbol == kNone || now_[at(symbol)] > 1; }));
  }
  if (name.find("dropout") != std::string_view::npos) {
    const c10::IValue* train = constant_of(node, "train");
    return train && train->isBool() && !train->toBool();
  }
  return !graph::may_give_argument(node.op);
}

bool DataSizes::learn_derived(graph::Graph& graph, const graph::Node& node, const Number& number) {
  if (!is_alike_at_all_sizes(graph, node)) return false;
  if (std::any_of(node.return_lengths.begin(), node.return_lengths.end(), [](std::int32_t length) { return length >= 0; })) return false;
  const auto now = sizes_at(graph, node, number, kNone, 0);
  const auto probes = now ? probe(graph, node, number) : std::nullopt;
  if (!probes) return false;
  std::vector<Dims> dims;
  Made made;
  for (std::size_t i = 0; i < node.outputs.size(); i++) {
    const std::vector<std::int64_t>& sizes = (*now)[i];
    if (node.outputs[i] != kNoValue && graph.type_of(node.outputs[i]).sizes != sizes) return false;
    if (std::any_of(probes->begin(), probes->end(), [&](const Probe& probe) { return probe.sizes[i].size() != sizes.size(); })) return false;
    dims.emplace_back();
    for (std::size_t d = 0; d < sizes.size(); d++) dims.back().push_back(symbol_for(sizes[d], *probes, i, d, made));
  }
  note(graph, node, dims);
  return true;
}

/// Parts of the operand along one dimension, which have these sizes or the operator raises.
bool DataSizes::learn_parts(graph::Graph& graph, const graph::Node& node, const std::vector<graph::Argument>& sizes) {
  const c10::IValue* dimension = constant_of(node, "dim");
  if (dimension == nullptr || sizes.size() != node.outputs.size()) return false;
  const ValueId operand = node.arguments[0].value();
  const std::size_t rank = graph.type_of(operand).sizes.size();
  const auto place = static_cast<std::size_t>(c10::maybe_wrap_dim(dimension->toInt(), static_cast<std::int64_t>(rank)));
  std::vector<Dims> dims;
  for (const graph::Argument& size : sizes) {
    dims.push_back(has(operand) ? dims_.at(operand) : Dims(rank, kNone));
    dims.back().at(place) = size.is_value() ? dims_.at(size.value())[0] : kNone;
  }
  note(graph, node, dims);
  return true;
}

/// `x[:n]` with an n that x has: it has n elements, or as many as there are, and what does not take them raises.
bool DataSizes::takes_from_start(const graph::Graph& graph, const graph::Node& node) const {
  if (graph::base_name(node.op) != "slice" || node.op.schema().is_mutable() || !node.arguments[3].is_value() || node.outputs[0] == kNoValue) return false;
  const ValueId stop = node.arguments[3].value();
  const c10::IValue* start = constant_of(node, "start");
  const c10::IValue *step = constant_of(node, "step"), *dimension = constant_of(node, "dim");
  if (!start || !(start->isNone() || (start->isInt() && start->toInt() == 0)) || !step || step->toInt() != 1 || !dimension) return false;
  const std::vector<std::int64_t>& sizes = graph.type_of(node.outputs[0]).sizes;
  const auto place = static_cast<std::size_t>(c10::maybe_wrap_dim(dimension->toInt(), static_cast<std::int64_t>(sizes.size())));
  return has(stop) && dims_.at(stop)[0] != kNone && sizes[place] == now_[at(dims_.at(stop)[0])];
}

bool DataSizes::learn(graph::Graph& graph, const graph::Node& node, const Number& number) {
  const c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordedKeys);
  if (graph::base_name(node.op) == "split_with_sizes" && graph::takes_data_number(graph, node)) return node.arguments[1].is_list() && learn_parts(graph, node, node.arguments[1].items());
  if (is_recurrent(node)) return learn_recurrent(graph, node);
  if (takes_from_start(graph, node) || (graph::base_name(node.op) == "narrow" && graph::takes_data_number(graph, node))) return learn_parts(graph, node, {node.arguments[3]});
  if (graph::base_name(node.op) == "select" && node.arguments[2].is_value() && !has(node.arguments[0].value())) return true;  // which row it is decides no size
  if (!decides_sizes(graph, node)) return learn_derived(graph, node, number);
  const std::string_view name = graph::base_name(node.op);
  if (name == "_pack_padded_sequence") learn_packed(graph, node);
  else if (name == "_pad_packed_sequence") learn_unpacked(graph, node);
  else learn_decided(graph, node, number);
  return true;
}

}  // namespace dynrun::trace
