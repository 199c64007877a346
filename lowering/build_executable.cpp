// Slots, memory and actions. A slot is a graph value; a kernel's buffers are the roots' slots.

#include "lowering/schedule.h"

#include "lowering/cpu/kernel_step.h"
#include "lowering/picture.h"
#include "runtime/plan.h"
#ifdef DYNRUN_CUDA
#include "lowering/gpu/kernel_step.h"
#endif

#include <set>

namespace dynrun::lowering {
namespace {

using graph::kNoValue;
using graph::ValueId;
using runtime::SlotKind;
using runtime::SlotPlan;

class PlanBuilder {
 public:
  PlanBuilder(const Program& program, std::vector<Unit> units) : program_(program), units_(std::move(units)) {}

  runtime::Plan build() {
    plan_.slots.resize(program_.graph.values.size());
    declare_given();
    declare_made();
    find_lives();
    place_accumulators();
    assign_memory();
    compile_kernels();
    for (std::size_t i = 0; i < units_.size(); ++i) add_action(i);
    dump_schedule();
    draw();
    add_outputs();
    add_written_inputs();
    plan_.mode = program_.mode;
    plan_.device = program_.device;
    plan_.repeatable = program_.is_repeatable();
    return std::move(plan_);
  }

 private:
  SlotPlan& slot(ValueId id) { return plan_.slots[static_cast<std::size_t>(id)]; }

  void declare_given() {
    for (std::size_t i = 0; i < program_.graph.inputs.size(); ++i) {
      SlotPlan& plan = slot(program_.graph.inputs[i].value);
      plan.kind = SlotKind::kInput;
      plan.index = static_cast<std::int32_t>(i);
    }
    for (const auto& [id, tensor] : program_.constants) {
      slot(id).kind = SlotKind::kConstant;
      slot(id).constant = tensor;
    }
  }

  void declare_made() {
    std::set<ValueId> handed_out;
    for (ValueId id : program_.graph.outputs) {
      if (id != kNoValue) handed_out.insert(program_.root(id));
    }
    // An operator from outside may keep its arguments: they must not lie in memory that is another value's afterwards. The
    // as_strided family counts offsets from the start of a storage, which has to be the value's own.
    for (const Unit& unit : units_) {
      if (!unit.is_dispatch() || (is_aten(unit) && !counts_from_storage(unit))) continue;
      for (ValueId id : unit.reads) handed_out.insert(program_.root(id));
    }
    for (const Unit& unit : units_) {
      bool makes = unit.is_dispatch() || (unit.is_library() && std::get<LibraryKernel>(unit.what).makes_outputs);
      for (ValueId id : unit.writes) {
        SlotPlan& plan = slot(id);
        plan.type = program_.graph.type_of(id);
        plan.kind = makes ? SlotKind::kMade : handed_out.count(id) != 0 ? SlotKind::kFresh : SlotKind::kArena;
      }
    }
    for (const auto& [id, view] : program_.views) {
      SlotPlan& plan = slot(id);
      plan.kind = SlotKind::kView;
      plan.type = program_.graph.type_of(id);
      plan.root = view.root;
      plan.view_offset = view.offset;
    }
  }

  bool is_aten(const Unit& unit) const {
    const graph::Node& node = program_.graph.nodes[static_cast<std::size_t>(std::get<std::int32_t>(unit.what))];
    return node.op.operator_name().name.substr(0, 6) == "aten::";
  }

  bool counts_from_storage(const Unit& unit) const {
    const graph::Node& node = program_.graph.nodes[static_cast<std::size_t>(std::get<std::int32_t>(unit.what))];
    return node.op.operator_name().name.rfind("aten::as_strided", 0) == 0;
  }

  void find_lives() {
    first_.assign(program_.graph.values.size(), -1);
    last_.assign(program_.graph.values.size(), -1);
    for (std::size_t i = 0; i < units_.size(); ++i) {
      auto at = static_cast<std::int32_t>(i);
      for (ValueId id : units_[i].writes) {
        auto& first = first_[static_cast<std::size_t>(id)];
        if (first < 0) first = at;
        touch(id, at);
      }
      for (ValueId id : units_[i].reads) touch(id, at);
    }
  }

  void touch(ValueId id, std::int32_t at) {
    last_[static_cast<std::size_t>(id)] = at;
    last_[static_cast<std::size_t>(program_.root(id))] = at;
  }

  /// A fused sum starts from its accumulator: in its buffer when that ends here, else in a copy.
  void place_accumulators() {
    for (std::size_t i = 0; i < units_.size(); ++i) {
      if (!units_[i].is_library()) continue;
      const auto& kernel = std::get<LibraryKernel>(units_[i].what);
      if (kernel.accumulate_into < 0) continue;
      ValueId from = kernel.inputs[static_cast<std::size_t>(kernel.accumulate_into)], to = kernel.outputs[0];
      bool ends = slot(from).kind == SlotKind::kArena && slot(to).kind == SlotKind::kArena &&
                  last_[static_cast<std::size_t>(from)] == static_cast<std::int32_t>(i) && slot(from).type == slot(to).type;
      if (ends && std::count(kernel.inputs.begin(), kernel.inputs.end(), from) == 1) {
        shares_.emplace(to, buffer_owner(from));
      } else {
        copies_[i].emplace_back(from, to);
      }
    }
  }

  ValueId buffer_owner(ValueId id) const {
    auto found = shares_.find(id);
    return found == shares_.end() ? id : found->second;
  }

  void assign_memory() {
    std::vector<runtime::BufferLife> buffers;
    std::unordered_map<ValueId, std::size_t> buffer_of;
    for (std::size_t i = 0; i < plan_.slots.size(); ++i) {
      auto id = static_cast<ValueId>(i);
      if (plan_.slots[i].kind != SlotKind::kArena) continue;
      ValueId owner = buffer_owner(id);
      auto [found, added] = buffer_of.emplace(owner, buffers.size());
      if (added) buffers.push_back({0, first_[static_cast<std::size_t>(owner)], 0, 0});
      runtime::BufferLife& buffer = buffers[found->second];
      buffer.bytes = std::max(buffer.bytes, buffer_bytes(plan_.slots[i].type));
      buffer.first = std::min(buffer.first, first_[i]);
      buffer.last = std::max(buffer.last, last_[i]);
    }
    plan_.arena_bytes = runtime::plan_memory(buffers);
    for (std::size_t i = 0; i < plan_.slots.size(); ++i) {
      if (plan_.slots[i].kind != SlotKind::kArena) continue;
      plan_.slots[i].arena_offset = buffers[buffer_of.at(buffer_owner(static_cast<ValueId>(i)))].offset;
    }
  }

  void compile_kernels() {
    std::vector<Kernel> kernels;
    for (const Unit& unit : units_) {
      if (unit.is_kernel()) kernels.push_back(build_kernel(program_, std::get<FusionGroup>(unit.what)));
    }
    if (program_.device.is_cpu()) {
      kernel_steps_ = cpu::make_kernel_steps(kernels, *program_.options);
      return;
    }
#ifdef DYNRUN_CUDA
    kernel_steps_ = gpu::make_kernel_steps(std::move(kernels), program_.device.index(), *program_.options);
#endif
  }

  std::unique_ptr<runtime::Step> make_step(Unit& unit) {
    if (unit.is_kernel()) return std::move(kernel_steps_[next_kernel_++]);
    if (unit.is_library()) {
      auto& kernel = std::get<LibraryKernel>(unit.what);
      return kernel.make(kernel.inputs, kernel.outputs);
    }
    const graph::Node& node = program_.graph.nodes[static_cast<std::size_t>(std::get<std::int32_t>(unit.what))];
    if (!is_aten(unit) || gives_views(node)) plan_.below_autograd = false;
    return runtime::make_dispatch_step(program_.graph, node, [](ValueId id) { return id; });
  }

  /// A tensor of sizes that only a run knows and that may show another's memory, or several such tensors (views of one that nobody
  /// sees, with its version counter): Python can see that they are views.
  bool gives_views(const graph::Node& node) const {
    if (std::none_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) { return id != kNoValue && program_.graph.type_of(id).unsized; })) return false;
    const auto& formals = node.op.schema().arguments();
    return std::any_of(node.return_lengths.begin(), node.return_lengths.end(), [](std::int32_t length) { return length > 0; }) ||
           std::any_of(formals.begin(), formals.end(), [](const c10::Argument& formal) { return formal.alias_info() != nullptr; });
  }

  bool is_per_run(ValueId id) { return slot(id).kind != SlotKind::kArena && slot(id).kind != SlotKind::kConstant; }

  void add_action(std::size_t index) {
    Unit& unit = units_[index];
    runtime::Action action;
    auto prepare = [&](ValueId id) {
      bool view = slot(id).kind == SlotKind::kView && is_per_run(slot(id).root);
      if ((view || slot(id).kind == SlotKind::kFresh) && prepared_.insert(id).second) action.prepare.push_back(id);
    };
    if (!unit.is_kernel()) {
      for (ValueId id : unit.reads) prepare(id);
    }
    for (ValueId id : unit.writes) prepare(id);
    for (auto [from, to] : copies_[index]) action.copies.emplace_back(from, to);
    std::set<ValueId> touched(unit.reads.begin(), unit.reads.end());
    touched.insert(unit.writes.begin(), unit.writes.end());
    for (ValueId id : std::vector<ValueId>(touched.begin(), touched.end())) touched.insert(program_.root(id));
    for (ValueId id : touched) {
      bool dies = last_[static_cast<std::size_t>(id)] == static_cast<std::int32_t>(index) && !is_handed_out(id);
      bool counted = slot(id).kind == SlotKind::kMade || slot(id).kind == SlotKind::kFresh ||
                     (slot(id).kind == SlotKind::kView && is_per_run(slot(id).root));
      if (dies && counted) action.release.push_back(id);
    }
    for (ValueId id : touched) {
      if (program_.root(id) == id) action.touches.push_back(id);
    }
    action.step = make_step(unit);
    plan_.actions.push_back(std::move(action));
  }

  void dump_schedule() const {
    if (!program_.options->dump) return;
    static constexpr const char* kKinds[] = {"kernel", "library", "dispatch"};
    std::string text;
    std::size_t kernel = 0;
    for (const runtime::Action& action : plan_.actions) {
      auto kind = static_cast<std::size_t>(action.step->kind());
      bool generated = action.step->kind() == runtime::StepKind::kKernel;
      text += std::string(kKinds[kind]) + " " + (generated ? std::to_string(kernel++) : action.step->describe()) + "\n";
    }
    program_.options->dump("graph schedule", text);
  }

  void draw() const {
    if (!program_.options->draw) return;
    program_.options->draw(picture_of(program_, units_, plan_, {first_, last_}, [this](ValueId id) { return buffer_owner(id); }));
  }

  bool is_handed_out(ValueId id) const {
    return std::any_of(program_.graph.outputs.begin(), program_.graph.outputs.end(),
                       [&](ValueId output) { return output != kNoValue && (output == id || program_.root(output) == id); });
  }

  void add_outputs() {
    for (ValueId id : program_.graph.outputs) {
      runtime::OutputPlan output;
      auto first = std::find(program_.graph.outputs.begin(), program_.graph.outputs.end(), id);
      if (id != kNoValue && plan_.outputs.size() > static_cast<std::size_t>(first - program_.graph.outputs.begin())) {
        output.same_as = static_cast<std::int32_t>(first - program_.graph.outputs.begin());
      }
      if (id != kNoValue) {
        output.slot = program_.root(id);
        output.is_view = program_.is_view(id);
        if (output.is_view) {
          output.type = program_.graph.type_of(id);
          output.view_offset = program_.views.at(id).offset;
          output.detach = program_.views.at(id).origin.detach;
        }
      }
      plan_.outputs.push_back(std::move(output));
    }
  }

  void add_written_inputs() {
    std::set<std::int32_t> written;
    for (std::size_t i = 0; i < program_.graph.nodes.size(); ++i) {
      if (!program_.writes(static_cast<std::int32_t>(i))) continue;
      for (const graph::Argument& argument : program_.graph.nodes[i].arguments) note_written(argument, written);
    }
    plan_.written_inputs.assign(written.begin(), written.end());
    // Writes that the caller can see count up the tensor's version, which autograd's keys do.
    if (!written.empty()) plan_.below_autograd = false;
  }

  void note_written(const graph::Argument& argument, std::set<std::int32_t>& written) {
    if (argument.is_value() && argument.value() != kNoValue) {
      const SlotPlan& plan = slot(program_.root(argument.value()));
      if (plan.kind == SlotKind::kInput) written.insert(plan.index);
    } else if (argument.is_list()) {
      for (const graph::Argument& item : argument.items()) note_written(item, written);
    }
  }

  const Program& program_;
  std::vector<Unit> units_;
  runtime::Plan plan_;
  std::vector<std::int32_t> first_, last_;  // by value: the units of its life
  std::unordered_map<ValueId, ValueId> shares_;
  std::unordered_map<std::size_t, std::vector<std::pair<ValueId, ValueId>>> copies_;
  std::vector<std::unique_ptr<runtime::Step>> kernel_steps_;  // in the order of their units
  std::size_t next_kernel_ = 0;
  std::set<ValueId> prepared_;
};

}  // namespace

std::int64_t buffer_bytes(const graph::TensorType& type) {
  std::int64_t elements = type.element_count() == 0 ? 0 : 1;
  for (std::size_t i = 0; i < type.sizes.size() && elements != 0; ++i) elements += (type.sizes[i] - 1) * type.strides[i];
  return elements * static_cast<std::int64_t>(c10::elementSize(type.dtype));
}

std::unique_ptr<runtime::Executable> build_executable(const Program& program, std::vector<Unit> units,
                                                      std::shared_ptr<const graph::Graph> graph) {
  return runtime::make_executor(PlanBuilder(program, std::move(units)).build(), std::move(graph));
}

}  // namespace dynrun::lowering
