// Host calls at replay time, and what follows when one raises.

#include "python/gil.h"
#include "runtime/executable.h"
#include "trace/operator_keys.h"
#include "trace/segment.h"
#include "vm/hook.h"

#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

namespace dynrun::trace {

using python::Ref;

namespace {

std::vector<vm::Activation*> chain_of(const HostContext& context) {
  std::vector<vm::Activation*> chain;
  for (vm::Activation* one = context.machine.top; one; one = one->caller) {
    chain.push_back(one);
    if (one == context.base) break;
  }
  std::reverse(chain.begin(), chain.end());
  return chain;
}

/// Where a frame stands, for those who look at it: at the instruction before `pc`, or at `pc` itself when it is the top one.
void show_position(vm::Activation& activation, bool top) {
  const auto& instructions = activation.code->instructions;
  auto* units = reinterpret_cast<std::uint16_t*>(activation.frame->code->co_code_adaptive);
  auto pc = static_cast<std::size_t>(activation.pc);
  activation.frame->previous_instruction = units + (top ? instructions[pc].offset : instructions[pc - 1].next_offset - 1);
}

/// While it lives the frames of a host call stand on the thread's stack, without their locals.
class ShownFrames {
 public:
  ShownFrames(const HostCall& call, Kitchen& kitchen, const HostContext& context) : machine_(context.machine) {
    std::vector<vm::Activation*> chain = chain_of(context);
    for (std::size_t i = chain.size(); i > static_cast<std::size_t>(call.kept_frames); i--) machine_.drop_top();
    for (std::size_t i = 0; i < call.frames.size(); i++) {
      vm::Activation* activation;
      if (i < static_cast<std::size_t>(call.kept_frames)) {
        activation = chain[i];
        kept_.push_back({activation, activation->pc, activation->frame->previous_instruction});
      } else {
        activation = machine_.push_frame(kitchen.make(call.frames[i].function), vm::Continuation::kDrop);
        if (activation == nullptr) return;
        pushed_++;
      }
      activation->pc = call.frames[i].pc;
      show_position(*activation, i + 1 == call.frames.size());
    }
    complete_ = true;
  }
  ~ShownFrames() {
    for (int i = 0; i < pushed_; i++) machine_.drop_top();
    for (const Kept& kept : kept_) {
      kept.activation->pc = kept.pc;
      kept.activation->frame->previous_instruction = kept.position;
    }
  }
  ShownFrames(const ShownFrames&) = delete;
  ShownFrames& operator=(const ShownFrames&) = delete;
  bool complete() const { return complete_; }

 private:
  struct Kept {
    vm::Activation* activation;
    std::int32_t pc;
    std::uint16_t* position;
  };
  vm::Machine& machine_;
  std::vector<Kept> kept_;
  int pushed_ = 0;
  bool complete_ = false;
};

/// The values of the frames at the call: the operators before it run again, on the inputs, which nothing has written.
std::vector<at::Tensor> values_at(const HostCall& call, const HostContext& context) {
  if (call.nodes == 0 && call.values.empty()) return {};
  auto before = std::make_shared<graph::Graph>(*context.segment.graph);
  before->nodes.erase(before->nodes.begin() + static_cast<std::ptrdiff_t>(call.nodes), before->nodes.end());
  before->outputs = call.values;
  context.random.restore();
  c10::impl::ExcludeDispatchKeyGuard uncounted(kRecordedKeys);
  const python::NoGil released;
  try {
    return runtime::make_replayer(before)->run(context.inputs);
  } catch (const std::exception&) {
    return {};
  }
}

/// A Python error is set: puts the machine at the call, as if it had just been tried there.
void stand_at(const HostCall& call, const HostContext& context) {
  PyObject* error = PyErr_GetRaisedException();
  std::vector<at::Tensor> values = values_at(call, context);
  if (values.size() == call.values.size()) {
    Kitchen kitchen(context.segment.recipes, context.registers, context.hosts, values);
    enter_frames(call.frames, call.kept_frames, call.handling, context.machine, context.base, kitchen);
    // Raised where another one is being handled: that one is the context of the first in the chain.
    if (call.handling.exception != kNullRecipe) {
      PyObject* first = error;
      while (PyObject* before = PyException_GetContext(first)) {
        Py_DECREF(before);  // the chain keeps it
        first = before;
      }
      PyException_SetContext(first, Py_NewRef(kitchen.make(call.handling.exception)));
    }
    c10::GradMode::set_enabled(call.grad);
    PyErr_Clear();
  }
  PyErr_SetRaisedException(error);
}

}  // namespace

bool run_host_call(const HostCall& call, Kitchen& kitchen, const HostContext& context) {
  PyObject *callee = kitchen.make(call.callee), *arguments = kitchen.make(call.arguments);
  PyObject* keywords = call.keywords == kNullRecipe ? nullptr : kitchen.make(call.keywords);
  bool grad = c10::GradMode::is_enabled();
  bool done = false;
  {
    std::optional<ShownFrames> shown;
    if (call.looks_at_frames) shown.emplace(call, kitchen, context);
    c10::GradMode::set_enabled(call.grad);
    const vm::PlainFrames plain;
    if (!shown || shown->complete()) done = Ref::steal(PyObject_Call(callee, arguments, keywords)).get() != nullptr;
    c10::GradMode::set_enabled(grad);
  }
  if (!done) stand_at(call, context);
  return done;
}

}  // namespace dynrun::trace
