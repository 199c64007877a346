#include "lowering/schedule.h"

#include "lowering/cat_kernel.h"
#include "lowering/cpu/jit.h"
#include "lowering/emit/values.h"
#include "lowering/loops/decompose.h"
#include "lowering/loops/joined.h"

#include <map>
#include <set>

namespace dynrun::lowering {
namespace {

using graph::kNoValue;
using graph::ValueId;

/// A reduction by so few rows would leave threads idle over so long a row: libtorch splits the row itself.
constexpr std::int64_t kFewRows = 8;
constexpr std::int64_t kLongRow = 32768;
/// On a GPU a row is one block's at most.
constexpr std::int64_t kFewBlocks = 64;
constexpr std::int64_t kMuchWork = 1 << 18;  // elements

struct Draft {
  FusionGroup group;
  std::vector<std::int32_t> nodes;
  std::optional<LibraryKernel> claim;
  std::int32_t dispatch = -1;
  std::set<std::int32_t> after;  // drafts that must run before
  std::int32_t epoch = 0;
  std::int32_t last_node = 0;
  std::int32_t merged_into = -1;
  bool is_group() const { return !claim && dispatch < 0; }
};

/// The iteration space of an expression tree, or nothing when its parts do not fit one.
struct Space {
  Sizes sizes;
  std::vector<bool> reduced;
};

class Scheduler {
 public:
  Scheduler(const Program& program, std::vector<LibraryKernel> claims)
      : program_(program), uses_(program), claims_(std::move(claims)) {}

  std::vector<Unit> run() {
    std::size_t count = program_.graph.nodes.size();
    std::vector<std::int32_t> claim_at(count, -1);
    std::vector<bool> claimed(count, false);
    for (std::size_t i = 0; i < claims_.size(); ++i) {
      for (std::int32_t node : claims_[i].nodes) claimed[static_cast<std::size_t>(node)] = true;
      claim_at[static_cast<std::size_t>(claims_[i].nodes.back())] = static_cast<std::int32_t>(i);
    }
    for (std::size_t i = 0; i < count; ++i) {
      auto node = static_cast<std::int32_t>(i);
      if (claim_at[i] >= 0) {
        add_claim(node, std::move(claims_[static_cast<std::size_t>(claim_at[i])]));
      } else if (!claimed[i] && !add_fused(node)) {
        add_dispatch(node);
      }
      if (program_.writes(node)) ++epoch_;
    }
    return order();
  }

 private:
  std::int32_t find(std::int32_t id) const {
    while (drafts_[static_cast<std::size_t>(id)].merged_into >= 0) id = drafts_[static_cast<std::size_t>(id)].merged_into;
    return id;
  }
  Draft& draft(std::int32_t id) { return drafts_[static_cast<std::size_t>(id)]; }

  std::int32_t new_draft(std::int32_t node) {
    Draft draft;
    draft.nodes = {node};
    draft.epoch = epoch_;
    draft.last_node = node;
    drafts_.push_back(std::move(draft));
    return static_cast<std::int32_t>(drafts_.size() - 1);
  }

  void depend(std::int32_t id, ValueId value) {
    auto found = makers_.find(program_.root(value));
    if (found == makers_.end()) return;
    for (std::int32_t maker : found->second) {
      if (find(maker) != id) draft(id).after.insert(find(maker));
    }
  }

  void add_claim(std::int32_t node, LibraryKernel claim) {
    std::int32_t id = new_draft(node);
    for (ValueId value : claim.inputs) depend(id, value);
    for (ValueId value : claim.outputs) makers_[value].push_back(id);
    draft(id).claim = std::move(claim);
  }

  void depend(std::int32_t id, const graph::Argument& argument) {
    if (argument.is_value() && argument.value() != kNoValue) depend(id, argument.value());
    if (argument.is_list()) {
      for (const graph::Argument& item : argument.items()) depend(id, item);
    }
  }

  bool is_given(ValueId value) const {
    return program_.constants.count(value) != 0 || std::any_of(program_.graph.inputs.begin(), program_.graph.inputs.end(),
                                                               [&](const graph::Input& input) { return input.value == value; });
  }

  void add_dispatch(std::int32_t node) {
    std::int32_t id = new_draft(node);
    draft(id).dispatch = node;
    const graph::Node& at = program_.graph.nodes[static_cast<std::size_t>(node)];
    for (const graph::Argument& argument : at.arguments) depend(id, argument);
    for (ValueId value : at.outputs) {
      if (value != kNoValue && makers_.count(program_.root(value)) == 0 && !is_given(program_.root(value)))
        makers_[value].push_back(id);
    }
    if (program_.has_effect(node)) {
      if (last_effect_ >= 0) draft(id).after.insert(last_effect_);
      last_effect_ = id;
    }
  }

  // ---- fusion ---------------------------------------------------------------------------------------------------------------

  static bool fits(const Sizes& part, const Space& space) {
    std::size_t rank = space.sizes.size();
    if (part.size() > rank) return false;
    for (std::size_t i = 0; i < part.size(); ++i) {
      std::int64_t whole = space.sizes[i + rank - part.size()];
      if (part[i] != whole && part[i] != 1) return false;
    }
    return true;
  }

  /// The operand of the reductions, or the expression's own shape where there are none.
  static bool find_space(const Expr& expression, Space& space, std::set<const Expression*>& seen) {
    if (!seen.insert(expression.get()).second) return true;
    if (expression->kind == ExpressionKind::kReduce) {
      const Sizes& operand = expression->arguments[0]->sizes;
      if (!space.reduced.empty() && (space.reduced != expression->reduced || space.sizes != operand)) return false;
      space.sizes = operand;
      space.reduced = expression->reduced;
    }
    for (const Expr& argument : expression->arguments) {
      if (!find_space(argument, space, seen)) return false;
    }
    return true;
  }

  static bool all_fit(const Expr& expression, const Space& space, std::set<const Expression*>& seen) {
    if (!seen.insert(expression.get()).second) return true;
    if (!fits(expression->sizes, space)) return false;
    for (const Expr& argument : expression->arguments) {
      if (!all_fit(argument, space, seen)) return false;
    }
    return true;
  }

  /// A row value has size 1 along the reduced dimensions and the full size elsewhere.
  static bool is_row(const Sizes& sizes, const Space& space) {
    if (space.reduced.empty() || sizes.size() != space.sizes.size()) return false;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] != (space.reduced[i] ? 1 : space.sizes[i])) return false;
    }
    return true;
  }

  static void loads(const Expr& expression, std::vector<const Expression*>& out, std::set<const Expression*>& seen) {
    if (!seen.insert(expression.get()).second) return;
    if (expression->kind == ExpressionKind::kLoad) out.push_back(expression.get());
    for (const Expr& argument : expression->arguments) loads(argument, out, seen);
  }

  static std::int64_t element_count(const Sizes& sizes) {
    std::int64_t count = 1;
    for (std::int64_t size : sizes) count *= size;
    return count;
  }

  bool space_of(const Definition& definition, Space& space) const {
    std::set<const Expression*> seen, again;
    if (!find_space(definition.expression, space, seen)) return false;
    if (space.reduced.empty()) space.sizes = definition.expression->sizes;
    if (!all_fit(definition.expression, space, again)) return false;
    if (space.reduced.empty()) return true;
    if (definition.expression->sizes != space.sizes && !is_row(definition.expression->sizes, space)) return false;
    std::int64_t rows = 1, row = 1;
    for (std::size_t i = 0; i < space.sizes.size(); ++i) (space.reduced[i] ? row : rows) *= space.sizes[i];
    if (!program_.device.is_cpu()) return rows >= kFewBlocks || rows * row <= kMuchWork;
    return rows >= kFewRows || row <= kLongRow;
  }

  /// Parts that some kernel has yet to store can be stored in their place at once; where most lie in memory, libtorch joins
  /// them.
  bool add_cat(std::int32_t node) {
    std::vector<ValueId> parts = concatenated(program_.graph.nodes[static_cast<std::size_t>(node)]);
    if (parts.empty() || program_.touches_unsized(node)) return false;
    auto fusable = [&](ValueId value) {
      auto found = makers_.find(value);
      return found != makers_.end() && found->second.size() == 1 && draft(find(found->second[0])).is_group() &&
             uses_.only_reader(value, node);
    };
    if (std::count_if(parts.begin(), parts.end(), fusable) * 2 >= static_cast<std::ptrdiff_t>(parts.size())) return false;
    std::optional<LibraryKernel> kernel = cat_kernel(program_, node);
    if (kernel) add_claim(node, std::move(*kernel));
    return kernel.has_value();
  }

  bool is_fusable(std::int32_t node) const {
    return !program_.has_effect(node) && (!program_.device.is_cpu() || cpu::host_has_types(program_.graph, program_.graph.nodes[static_cast<std::size_t>(node)]));
  }

  /// Whether all that read a value are kernels' operations that take it element by element.
  bool is_read_by_kernels(ValueId value) const {
    const auto& readers = uses_.readers(value);
    if (readers.empty() || uses_.is_output(value) || uses_.has_views(value)) return false;
    return std::all_of(readers.begin(), readers.end(), [&](std::int32_t reader) {
      if (!is_fusable(reader) || !concatenated(program_.graph.nodes[static_cast<std::size_t>(reader)]).empty()) return false;
      const auto definitions = decompose(program_, program_.graph.nodes[static_cast<std::size_t>(reader)]);
      if (!definitions) return false;
      std::vector<const Expression*> reads;
      std::set<const Expression*> seen;
      for (const Definition& definition : *definitions) loads(definition.expression, reads, seen);
      return std::all_of(reads.begin(), reads.end(), [&](const Expression* read) { return read->value != value || read->natural; });
    });
  }

  static bool is_cheap(const Expr& expression, std::int32_t& operations) {
    if (expression->kind == ExpressionKind::kReduce) return false;
    if (expression->kind == ExpressionKind::kPoint && (emit::is_heavy(expression->op) || --operations < 0)) return false;
    return std::all_of(expression->arguments.begin(), expression->arguments.end(), [&](const Expr& argument) { return is_cheap(argument, operations); });
  }

  bool is_from_kernel(ValueId value) {
    auto found = makers_.find(value);
    return found != makers_.end() && std::any_of(found->second.begin(), found->second.end(), [&](std::int32_t maker) { return draft(find(maker)).is_group(); });
  }

  /// What a part of a concatenation is: memory, or few operations on what is in memory, which are done again. Null for one that a
  /// kernel has yet to store.
  Expr part_of_cat(ValueId value) {
    constexpr std::int32_t kFewOperations = 4;
    if (program_.is_view(value) || !is_from_kernel(value)) return load(value, program_.graph.type_of(value));
    const auto& makers = makers_.at(value);
    if (makers.size() != 1 || draft(find(makers[0])).epoch != epoch_) return nullptr;
    const std::vector<std::int32_t>& nodes = draft(find(makers[0])).nodes;
    const auto node = std::find_if(nodes.begin(), nodes.end(), [&](std::int32_t one) {
      const auto& outputs = program_.graph.nodes[static_cast<std::size_t>(one)].outputs;
      return outputs.size() == 1 && outputs[0] == value;
    });
    if (node == nodes.end()) return nullptr;
    const auto definitions = decompose(program_, program_.graph.nodes[static_cast<std::size_t>(*node)]);
    if (!definitions || definitions->size() != 1 || !definitions->front().natural) return nullptr;
    std::int32_t operations = kFewOperations;
    if (!is_cheap(definitions->front().expression, operations)) return nullptr;
    std::vector<const Expression*> reads;
    std::set<const Expression*> seen;
    loads(definitions->front().expression, reads, seen);
    const bool in_memory = std::all_of(reads.begin(), reads.end(), [&](const Expression* read) { return read->arguments.empty() && (program_.is_view(read->value) || !is_from_kernel(read->value)); });
    return in_memory ? definitions->front().expression : nullptr;
  }

  /// A concatenation of few parts that kernels read is made where they read it (rotary embeddings: neg(x2), x1).
  bool add_joined(std::int32_t node) {
    constexpr std::size_t kMostParts = 4;
    const graph::Node& at = program_.graph.nodes[static_cast<std::size_t>(node)];
    const std::size_t parts = concatenated(at).size();
    if (parts < 2 || parts > kMostParts || program_.touches_unsized(node) || !is_fusable(node) || !decompose(program_, at)) return false;
    if (!is_read_by_kernels(at.outputs[0])) return false;
    std::optional<Definition> whole = joined(program_.graph, at, [&](ValueId value) { return part_of_cat(value); });
    if (!whole) return false;
    const Space space{whole->expression->sizes, {}};
    place(node, std::move(*whole), space, false);
    return true;
  }

  bool add_fused(std::int32_t node) {
    if (program_.has_effect(node)) return false;
    if (add_joined(node) || add_cat(node)) return true;
    if (!is_fusable(node)) return false;
    auto definitions = decompose(program_, program_.graph.nodes[static_cast<std::size_t>(node)]);
    if (!definitions || definitions->empty() || !covers_uses(node, *definitions)) return false;
    std::vector<Space> spaces;
    for (const Definition& definition : *definitions) {
      if (!space_of(definition, spaces.emplace_back())) return false;
      if (element_count(spaces.back().sizes) == 0) return false;
    }
    bool multiple = definitions->size() > 1 && (*definitions)[0].value == (*definitions)[1].value;
    for (std::size_t i = 0; i < definitions->size(); ++i) place(node, std::move((*definitions)[i]), spaces[i], multiple);
    return true;
  }

  /// Every result that someone reads must be defined.
  bool covers_uses(std::int32_t node, const std::vector<Definition>& definitions) const {
    for (ValueId value : program_.graph.nodes[static_cast<std::size_t>(node)].outputs) {
      if (value == kNoValue) continue;
      bool defined = std::any_of(definitions.begin(), definitions.end(), [&](const Definition& d) { return d.value == value; });
      if (!defined && (!uses_.readers(value).empty() || uses_.is_output(value))) return false;
    }
    return true;
  }

  bool accepts(const FusionGroup& group, const Definition& definition, const Space& space) const {
    if (group.definitions.size() >= kMostDefinitions) return false;
    Space existing{group.space, group.reduced};
    if (existing.reduced.empty()) {
      // Rows of a reduction may join only together with it.
      return space.sizes == existing.sizes;
    }
    if (!space.reduced.empty()) return space.sizes == existing.sizes && space.reduced == existing.reduced;
    return space.sizes == existing.sizes || is_row(definition.expression->sizes, existing);
  }

  /// Whether draft `from` must wait for draft `to`. What ended before `to` began cannot.
  bool reaches(std::int32_t from, std::int32_t to) {
    visited_.resize(drafts_.size(), 0);
    ++visit_;
    std::vector<std::int32_t> open = {find(from)};
    std::int32_t begin = draft(to).nodes.front();
    while (!open.empty()) {
      std::int32_t id = open.back();
      open.pop_back();
      if (id == to) return true;
      auto& mark = visited_[static_cast<std::size_t>(id)];
      if (mark == visit_ || draft(id).last_node < begin) continue;
      mark = visit_;
      for (std::int32_t before : draft(id).after) open.push_back(find(before));
    }
    return false;
  }

  bool reaches_through_others(const std::set<std::int32_t>& dependencies, std::int32_t to) {
    return std::any_of(dependencies.begin(), dependencies.end(),
                       [&](std::int32_t before) { return find(before) != to && reaches(before, to); });
  }

  void place(std::int32_t node, Definition definition, const Space& space, bool multiple) {
    std::vector<const Expression*> reads;
    std::set<const Expression*> seen;
    loads(definition.expression, reads, seen);
    std::set<std::int32_t> dependencies, refused;
    std::map<std::int32_t, std::int64_t> saved;  // by group: bytes that it would not have to store or load
    for (const Expression* read : reads) {
      auto found = makers_.find(program_.root(read->value));
      if (found == makers_.end()) continue;
      for (std::int32_t maker : found->second) {
        std::int32_t id = find(maker);
        dependencies.insert(id);
        bool can_inline = draft(id).is_group() && found->second.size() == 1 && !program_.is_view(read->value) &&
                          read->natural && is_natural(draft(id).group, read->value) && draft(id).epoch == epoch_;
        if (!can_inline) refused.insert(id);
        if (can_inline && accepts(draft(id).group, definition, space)) saved[id] += element_count(read->sizes);
      }
    }
    std::int32_t home = -1;
    std::int64_t best = 0;
    for (const auto& [id, bytes] : saved) {
      if (refused.count(id) != 0 || bytes <= best || reaches_through_others(dependencies, id)) continue;
      home = id;
      best = bytes;
    }
    if (home < 0) {
      home = new_draft(node);
      draft(home).group.space = space.sizes;
      draft(home).group.reduced = space.reduced;
    }
    join(home, node, std::move(definition), space, dependencies);
    (void)multiple;
    for (const auto& [id, bytes] : saved) {
      if (find(id) != find(home) && refused.count(id) == 0) try_merge(find(home), find(id));
    }
  }

  static bool is_natural(const FusionGroup& group, ValueId value) {
    for (const Definition& definition : group.definitions) {
      if (definition.value == value) return definition.natural;
    }
    return false;
  }

  void join(std::int32_t home, std::int32_t node, Definition definition, const Space& space,
            const std::set<std::int32_t>& dependencies) {
    Draft& target = draft(home);
    if (target.group.reduced.empty()) target.group.reduced = space.reduced;
    makers_[definition.value].push_back(home);
    target.group.definitions.push_back(std::move(definition));
    if (target.nodes.back() != node) target.nodes.push_back(node);
    target.last_node = std::max(target.last_node, node);
    for (std::int32_t before : dependencies) {
      if (find(before) != home) target.after.insert(find(before));
    }
  }

  /// Whether the group reads a value of draft `other` in a way that only its buffer can serve.
  bool needs_buffers_of(const FusionGroup& group, std::int32_t other) {
    std::vector<const Expression*> reads;
    std::set<const Expression*> seen;
    for (const Definition& definition : group.definitions) loads(definition.expression, reads, seen);
    for (const Expression* read : reads) {
      auto found = makers_.find(program_.root(read->value));
      if (found == makers_.end()) continue;
      bool made_there =
          std::any_of(found->second.begin(), found->second.end(), [&](std::int32_t maker) { return find(maker) == other; });
      bool inlined = !program_.is_view(read->value) && read->natural && found->second.size() == 1 &&
                     is_natural(draft(other).group, read->value);
      if (made_there && !inlined) return true;
    }
    return false;
  }

  /// Two groups that meet in a reader become one when their spaces agree and nothing outside stands between them.
  void try_merge(std::int32_t home, std::int32_t other) {
    FusionGroup& a = draft(home).group;
    FusionGroup& b = draft(other).group;
    if (a.space != b.space || draft(home).epoch != draft(other).epoch ||
        a.definitions.size() + b.definitions.size() > kMostDefinitions)
      return;
    if (a.reduced != b.reduced && !a.reduced.empty() && !b.reduced.empty()) return;
    if (reaches_through_others(draft(home).after, other) || reaches(other, home)) return;
    if (needs_buffers_of(a, other)) return;
    // The earlier definitions first: later ones may read them.
    if (a.reduced.empty()) a.reduced = b.reduced;
    b.definitions.insert(b.definitions.end(), a.definitions.begin(), a.definitions.end());
    a.definitions = std::move(b.definitions);
    Draft& target = draft(home);
    Draft& gone = draft(other);
    target.nodes.insert(target.nodes.end(), gone.nodes.begin(), gone.nodes.end());
    std::sort(target.nodes.begin(), target.nodes.end());
    target.last_node = std::max(target.last_node, gone.last_node);
    for (std::int32_t before : gone.after) target.after.insert(before);
    gone.merged_into = home;
    std::set<std::int32_t> after;
    for (std::int32_t before : target.after) {
      if (find(before) != home) after.insert(find(before));
    }
    target.after = std::move(after);
  }

  // ---- order ----------------------------------------------------------------------------------------------------------------

  std::vector<Unit> order() {
    std::vector<std::int32_t> live;
    for (std::size_t i = 0; i < drafts_.size(); ++i) {
      if (drafts_[i].merged_into < 0) live.push_back(static_cast<std::int32_t>(i));
    }
    std::map<std::int32_t, std::int32_t> waiting;
    std::map<std::int32_t, std::vector<std::int32_t>> followers;
    for (std::int32_t id : live) {
      std::set<std::int32_t> before;
      for (std::int32_t other : draft(id).after) {
        if (find(other) != id) before.insert(find(other));
      }
      waiting[id] = static_cast<std::int32_t>(before.size());
      for (std::int32_t other : before) followers[other].push_back(id);
    }
    std::set<std::tuple<std::int32_t, std::int32_t, std::int32_t>> ready;  // epoch, last node, draft
    auto enqueue = [&](std::int32_t id) { ready.insert({draft(id).epoch, draft(id).last_node, id}); };
    for (std::int32_t id : live) {
      if (waiting[id] == 0) enqueue(id);
    }
    std::vector<Unit> units;
    std::size_t done = 0;
    while (!ready.empty()) {
      ++done;
      std::int32_t id = std::get<2>(*ready.begin());
      ready.erase(ready.begin());
      if (is_needed(draft(id), id)) units.push_back(finish(draft(id), id));
      for (std::int32_t next : followers[id]) {
        if (--waiting[next] == 0) enqueue(next);
      }
    }
    TORCH_INTERNAL_ASSERT(done == live.size(), "a cycle between fused kernels");
    return units;
  }

  /// Not where all that it computes is computed again where it is read.
  bool is_needed(const Draft& at, std::int32_t id) {
    return !at.is_group() || std::any_of(at.group.definitions.begin(), at.group.definitions.end(), [&](const Definition& definition) { return !definition.natural || read_outside(definition.value, id); });
  }

  bool read_outside(ValueId value, std::int32_t id) {
    if (uses_.is_output(value) || uses_.has_views(value)) return true;
    auto found = readers_of_drafts().find(value);
    if (found == readers_of_drafts().end()) return false;
    return std::any_of(found->second.begin(), found->second.end(),
                       [&](std::int32_t reader) { return reader == kOutside || find(reader) != id; });
  }

  /// Which drafts read each value. A fused draft reads what its expressions load.
  const std::map<ValueId, std::set<std::int32_t>>& readers_of_drafts() {
    if (!readers_.empty()) return readers_;
    for (std::size_t i = 0; i < drafts_.size(); ++i) {
      Draft& at = drafts_[i];
      if (at.merged_into >= 0) continue;
      auto id = static_cast<std::int32_t>(i);
      if (at.claim) {
        for (ValueId value : at.claim->inputs) note(value, id);
      } else if (at.dispatch >= 0) {
        for (const graph::Argument& argument : program_.graph.nodes[static_cast<std::size_t>(at.dispatch)].arguments)
          note(argument, id);
      } else {
        for (const Definition& definition : at.group.definitions) {
          std::vector<const Expression*> reads;
          std::set<const Expression*> seen;
          loads(definition.expression, reads, seen);
          for (const Expression* read : reads) note(read->value, read->natural ? id : -1);
        }
      }
    }
    return readers_;
  }

  void note(ValueId value, std::int32_t id) {
    readers_[value].insert(id < 0 ? kOutside : id);
    readers_[program_.root(value)].insert(program_.is_view(value) || id < 0 ? kOutside : id);
  }
  void note(const graph::Argument& argument, std::int32_t id) {
    if (argument.is_value() && argument.value() != kNoValue) note(argument.value(), id);
    if (argument.is_list()) {
      for (const graph::Argument& item : argument.items()) note(item, id);
    }
  }

  Unit finish(Draft& from, std::int32_t id) {
    Unit unit;
    unit.last_node = from.last_node;
    if (from.claim) {
      unit.reads = from.claim->inputs;
      unit.writes = from.claim->outputs;
      unit.what = std::move(*from.claim);
      return unit;
    }
    if (from.dispatch >= 0) {
      const graph::Node& node = program_.graph.nodes[static_cast<std::size_t>(from.dispatch)];
      for (const graph::Argument& argument : node.arguments) collect(argument, unit.reads);
      for (ValueId value : node.outputs) {
        auto maker = value == kNoValue ? makers_.end() : makers_.find(value);
        if (maker != makers_.end() && find(maker->second.front()) == id) unit.writes.push_back(value);
      }
      unit.what = from.dispatch;
      return unit;
    }
    FusionGroup group = std::move(from.group);
    std::set<ValueId> inside;
    for (const Definition& definition : group.definitions) {
      bool stored = !definition.natural || read_outside(definition.value, id);
      group.stored.push_back(stored);
      if (stored) unit.writes.push_back(definition.value);
      if (definition.natural) inside.insert(definition.value);
    }
    std::set<ValueId> reads;
    for (const Definition& definition : group.definitions) {
      std::vector<const Expression*> found;
      std::set<const Expression*> seen;
      loads(definition.expression, found, seen);
      for (const Expression* read : found) {
        if (!(read->natural && inside.count(read->value) != 0)) reads.insert(program_.root(read->value));
      }
    }
    unit.reads.assign(reads.begin(), reads.end());
    unit.what = std::move(group);
    return unit;
  }

  static void collect(const graph::Argument& argument, std::vector<ValueId>& out) {
    if (argument.is_value() && argument.value() != kNoValue) out.push_back(argument.value());
    if (argument.is_list()) {
      for (const graph::Argument& item : argument.items()) collect(item, out);
    }
  }

  static constexpr std::int32_t kOutside = 1 << 30;  // a reader that needs the buffer, whoever it is

  const Program& program_;
  Uses uses_;
  std::vector<LibraryKernel> claims_;
  std::vector<Draft> drafts_;
  std::map<ValueId, std::vector<std::int32_t>> makers_;
  std::map<ValueId, std::set<std::int32_t>> readers_;
  std::vector<std::uint32_t> visited_;  // by draft: the search that saw it last
  std::uint32_t visit_ = 0;
  std::int32_t epoch_ = 0;
  std::int32_t last_effect_ = -1;
};

}  // namespace

std::vector<Unit> schedule(const Program& program, std::vector<LibraryKernel> claims) {
  return Scheduler(program, std::move(claims)).run();
}

}  // namespace dynrun::lowering
