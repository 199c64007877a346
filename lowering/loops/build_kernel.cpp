// From a fusion group to loops: inline what the group defines itself, give every access strides over the space, order the loops
// so that memory is walked along, and melt loops together.

#include "lowering/loops/loop.h"

#include <fmt/ranges.h>

#include <map>
#include <numeric>

namespace dynrun::lowering {
namespace {

class KernelBuilder {
 public:
  KernelBuilder(const Program& program, const FusionGroup& group)
      : program_(program), group_(group), rank_(group.space.size()) {
    for (const Definition& definition : group.definitions) {
      if (definition.natural) inlined_[definition.value] = &definition;
    }
  }

  Kernel build() {
    kernel_.dims = group_.space;
    for (std::size_t i = 0; i < group_.definitions.size(); ++i) {
      if (group_.stored[i]) add_store(group_.definitions[i]);
    }
    order_loops();
    collapse();
    mark_inner();
    return std::move(kernel_);
  }

 private:
  bool is_reduced(std::size_t loop) const { return !group_.reduced.empty() && group_.reduced[loop]; }

  std::int32_t buffer_of(graph::ValueId value, bool written) {
    graph::ValueId root = program_.root(value);
    for (std::size_t i = 0; i < kernel_.buffers.size(); ++i) {
      if (kernel_.buffers[i].value != root) continue;
      kernel_.buffers[i].written = kernel_.buffers[i].written || written;
      return static_cast<std::int32_t>(i);
    }
    kernel_.buffers.push_back({root, program_.graph.type_of(root).dtype, written});
    return static_cast<std::int32_t>(kernel_.buffers.size() - 1);
  }

  /// Strides over the space for an array of `sizes` that broadcasts to it from the right.
  Access access_of(graph::ValueId value, const Sizes& sizes, const Sizes& strides, std::int64_t offset, bool written) {
    Access access{buffer_of(value, written), Sizes(rank_, 0), offset};
    if (auto view = program_.views.find(value); view != program_.views.end()) access.offset += view->second.offset;
    std::size_t shift = rank_ - sizes.size();
    for (std::size_t i = 0; i < sizes.size(); ++i) access.strides[i + shift] = sizes[i] == 1 ? 0 : strides[i];
    return access;
  }

  void add_store(const Definition& definition) {
    std::int32_t op = lower(definition.expression);
    LoopStore store;
    store.op = op;
    store.access = access_of(definition.value, definition.expression->sizes, definition.strides, definition.offset, true);
    store.inner = group_.reduced.empty() || definition.expression->sizes == group_.space;
    kernel_.stores.push_back(std::move(store));
  }

  std::int32_t lower(const Expr& expression) {
    if (auto found = done_.find(expression.get()); found != done_.end()) return found->second;
    std::int32_t id = lower_new(*expression);
    done_.emplace(expression.get(), id);
    return id;
  }

  std::int32_t lower_new(const Expression& expression) {
    LoopOp op;
    op.kind = expression.kind;
    op.dtype = expression.dtype;
    switch (expression.kind) {
      case ExpressionKind::kLoad: {
        if (expression.natural) {
          if (auto found = inlined_.find(expression.value); found != inlined_.end()) return lower(found->second->expression);
        }
        op.access = access_of(expression.value, expression.sizes, expression.strides, expression.offset, false);
        for (const Expr& condition : expression.arguments) op.arguments.push_back(lower(condition));
        break;
      }
      case ExpressionKind::kConstant:
        op.number = expression.number;
        op.integer = expression.integer;
        break;
      case ExpressionKind::kPoint:
        op.op = expression.op;
        for (const Expr& argument : expression.arguments) op.arguments.push_back(lower(argument));
        break;
      case ExpressionKind::kReduce:
        op.reduce = expression.reduce;
        op.arguments.push_back(lower(expression.arguments[0]));
        break;
      case ExpressionKind::kIndex:
        op.loop = static_cast<std::int32_t>(rank_ - expression.sizes.size()) + expression.dimension;
        break;
    }
    for (std::int32_t argument : op.arguments)
      op.level = std::max(op.level, kernel_.ops[static_cast<std::size_t>(argument)].level);
    if (op.kind == ExpressionKind::kReduce) ++op.level;
    return intern(std::move(op));
  }

  /// Equal operations are one: two readers of a value share its load.
  std::int32_t intern(LoopOp op) {
    std::string key =
        fmt::format("{} {} {} {} {} {} {} {} {} {} {}", static_cast<int>(op.kind), static_cast<int>(op.op),
                    static_cast<int>(op.reduce), static_cast<int>(op.dtype), fmt::join(op.arguments, ","), op.access.buffer,
                    op.access.offset, fmt::join(op.access.strides, ","), op.number, op.integer, op.loop);
    auto [found, added] = interned_.emplace(std::move(key), static_cast<std::int32_t>(kernel_.ops.size()));
    if (added) kernel_.ops.push_back(std::move(op));
    return found->second;
  }

  template <typename Visit>
  void visit_accesses(const Visit& visit) {
    for (LoopOp& op : kernel_.ops) {
      if (op.kind == ExpressionKind::kLoad) visit(op.access);
    }
    for (LoopStore& store : kernel_.stores) visit(store.access);
  }

  /// The access that the loop order follows: the first full-size store, else the load that walks the most loops.
  const Access* leading_access() const {
    for (const LoopStore& store : kernel_.stores) {
      if (store.inner) return &store.access;
    }
    const Access* best = nullptr;
    std::ptrdiff_t most = -1;
    for (const LoopOp& op : kernel_.ops) {
      if (op.kind != ExpressionKind::kLoad) continue;
      std::ptrdiff_t walked =
          std::count_if(op.access.strides.begin(), op.access.strides.end(), [](std::int64_t s) { return s != 0; });
      if (walked > most) {
        most = walked;
        best = &op.access;
      }
    }
    return best;
  }

  void order_loops() {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < rank_; ++i) {
      if (kernel_.dims[i] != 1) order.push_back(i);
    }
    const Access* leading = leading_access();
    auto stride = [&](std::size_t loop) { return leading == nullptr ? 0 : leading->strides[loop]; };
    auto far = [&](std::size_t loop) { return stride(loop) == 0 ? std::numeric_limits<std::int64_t>::max() : stride(loop); };
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      if (is_reduced(a) != is_reduced(b)) return is_reduced(b);
      return far(a) > far(b);
    });
    auto outer = std::count_if(order.begin(), order.end(), [&](std::size_t loop) { return !is_reduced(loop); });
    // Lanes go along memory: when that is not the inside of the row, each lane takes a row.
    bool inside = static_cast<std::size_t>(outer) < order.size();
    if (inside && outer > 0) {
      std::size_t last_row = order[static_cast<std::size_t>(outer) - 1];
      kernel_.vector_rows = stride(order.back()) != 1 && stride(last_row) == 1 && kernel_.dims[last_row] >= 4;
    }
    permute(order);
    kernel_.outer = static_cast<std::int32_t>(outer);
    if (group_.reduced.empty()) kernel_.outer = std::max<std::int32_t>(0, kernel_.outer - 1);
  }

  void permute(const std::vector<std::size_t>& order) {
    auto apply = [&](const Sizes& old) {
      Sizes out;
      for (std::size_t loop : order) out.push_back(old[loop]);
      return out;
    };
    visit_accesses([&](Access& access) { access.strides = apply(access.strides); });
    kernel_.dims = apply(kernel_.dims);
    for (LoopOp& op : kernel_.ops) {
      if (op.kind != ExpressionKind::kIndex) continue;
      auto found = std::find(order.begin(), order.end(), static_cast<std::size_t>(op.loop));
      if (found == order.end()) {  // a loop of one turn
        op.kind = ExpressionKind::kConstant;
        op.integer = 0;
      } else {
        op.loop = static_cast<std::int32_t>(found - order.begin());
      }
    }
  }

  bool can_melt(std::size_t loop) {
    for (const LoopOp& op : kernel_.ops) {
      auto index = static_cast<std::size_t>(op.loop);
      if (op.kind == ExpressionKind::kIndex && (index == loop || index == loop + 1)) return false;
    }
    bool fits = true;
    visit_accesses(
        [&](Access& access) { fits = fits && access.strides[loop] == access.strides[loop + 1] * kernel_.dims[loop + 1]; });
    return fits;
  }

  void melt(std::size_t loop) {
    kernel_.dims[loop] *= kernel_.dims[loop + 1];
    kernel_.dims.erase(kernel_.dims.begin() + static_cast<std::ptrdiff_t>(loop) + 1);
    visit_accesses([&](Access& access) { access.strides.erase(access.strides.begin() + static_cast<std::ptrdiff_t>(loop)); });
    for (LoopOp& op : kernel_.ops) {
      if (op.kind == ExpressionKind::kIndex && static_cast<std::size_t>(op.loop) > loop) --op.loop;
    }
  }

  void collapse() {
    bool rows_only = group_.reduced.empty();
    for (std::size_t loop = 0; loop + 1 < kernel_.dims.size();) {
      // With reductions, rows and their inside stay apart; without, the last loop is the inside of what is left.
      bool border = !rows_only && static_cast<std::int32_t>(loop) + 1 == kernel_.outer;
      if (border || !can_melt(loop)) {
        ++loop;
        continue;
      }
      melt(loop);
      if (!rows_only && static_cast<std::int32_t>(loop) < kernel_.outer) --kernel_.outer;
    }
    if (rows_only) kernel_.outer = std::max<std::int32_t>(0, static_cast<std::int32_t>(kernel_.dims.size()) - 1);
    if (kernel_.outer == static_cast<std::int32_t>(kernel_.dims.size())) add_single_loop();
  }

  void add_single_loop() {
    kernel_.dims.push_back(1);
    visit_accesses([&](Access& access) { access.strides.push_back(0); });
  }

  void mark_inner() {
    for (LoopOp& op : kernel_.ops) {
      switch (op.kind) {
        case ExpressionKind::kLoad:
          for (std::size_t i = static_cast<std::size_t>(kernel_.outer); i < kernel_.dims.size(); ++i)
            op.inner = op.inner || op.access.strides[i] != 0;
          for (std::int32_t condition : op.arguments) op.inner = op.inner || kernel_.ops[static_cast<std::size_t>(condition)].inner;
          break;
        case ExpressionKind::kIndex:
          op.inner = op.loop >= kernel_.outer;
          break;
        case ExpressionKind::kPoint:
          for (std::int32_t argument : op.arguments)
            op.inner = op.inner || kernel_.ops[static_cast<std::size_t>(argument)].inner;
          break;
        default:
          break;
      }
    }
  }

  const Program& program_;
  const FusionGroup& group_;
  std::size_t rank_;
  Kernel kernel_;
  std::unordered_map<graph::ValueId, const Definition*> inlined_;
  std::unordered_map<const Expression*, std::int32_t> done_;
  std::unordered_map<std::string, std::int32_t> interned_;
};

}  // namespace

Kernel build_kernel(const Program& program, const FusionGroup& group) {
  return KernelBuilder(program, group).build();
}

bool Kernel::has_reduction() const {
  return std::any_of(ops.begin(), ops.end(), [](const LoopOp& op) { return op.kind == ExpressionKind::kReduce; });
}

std::int32_t Kernel::levels() const {
  std::int32_t most = 0;
  for (const LoopOp& op : ops) most = std::max(most, op.level);
  return most;
}

std::int64_t Kernel::rows() const {
  return std::accumulate(dims.begin(), dims.begin() + outer, std::int64_t{1}, std::multiplies<>());
}

std::int64_t Kernel::row_elements() const {
  return std::accumulate(dims.begin() + outer, dims.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace dynrun::lowering
