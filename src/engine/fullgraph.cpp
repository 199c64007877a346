#include "engine/fullgraph.h"

#include "engine/scope.h"
#include "python/text.h"
#include "trace/callables.h"

#include <fmt/format.h>
#include <frameobject.h>

#include <algorithm>
#include <utility>

namespace dynrun::engine {
namespace {

bool is_own(const graph::SourceLine& line) { return !report::is_library(line.file); }

bool is_forward(const graph::SourceLine& line) {
  const std::string_view name = line.function, ending = ".forward";
  return name.size() > ending.size() && name.substr(name.size() - ending.size()) == ending;
}

Ruling rule_on_program(const trace::Break& met) {
  const auto end = met.callers.begin() + static_cast<std::ptrdiff_t>(met.recorded_callers);
  if (is_forward(met.line) || std::any_of(met.callers.begin(), end, is_forward)) return Ruling::kRefused;
  return is_own(met.line) || std::any_of(met.callers.begin(), end, is_own) ? Ruling::kRefusedIfTensor : Ruling::kBreaks;
}

constexpr const char* kMadeHere = "_dynrun_refusal";

/// Whether a frame is the running one or has called it, up to the function that asked for one graph.
bool is_inside(const Engine& engine, const PyFrameObject* wanted) {
  const auto* frame = reinterpret_cast<const python::Frame*>(PyThreadState_Get()->cframe->current_frame);
  for (; frame && frame != Scope::here().outside; frame = frame->previous) {
    if (frame->owner == python::kOwnedByCStack) continue;
    if (frame->frame_object == wanted) return true;
    if (engine.asks_for_one_graph(const_cast<python::Frame*>(frame))) return false;
  }
  return false;
}

/// Whether an error for a break is on its way out of the function that asked for one graph: what `with` and `finally` run then may
/// break as it likes.
bool is_refusing(const Engine& engine) {
  for (const _PyErr_StackItem* item = PyThreadState_Get()->exc_info; item; item = item->previous_item) {
    if (!item->exc_value || !PyExceptionInstance_Check(item->exc_value)) continue;
    const auto* error = reinterpret_cast<PyBaseExceptionObject*>(item->exc_value);
    if (!error->dict || !PyDict_GetItemString(error->dict, kMadeHere)) continue;  // asked so, no code of its class runs
    const PyObject* reached = error->traceback;  // begins where the error has got to
    if (reached && is_inside(engine, reinterpret_cast<const PyTracebackObject*>(reached)->tb_frame)) return true;
  }
  return false;
}

/// Whether torch.cond or its like is at work there, perhaps by way of Dynamo: torch.compile has all of it in its graph.
bool is_in_operator(const trace::Break& met) {
  return std::any_of(met.callers.begin(), met.callers.end(), [](const graph::SourceLine& line) {
    return (line.function == "HigherOrderOperator.__call__" && line.file.ends_with("/torch/_ops.py")) ||
           (line.function == "_TorchDynamoContext.__call__.<locals>.compile_wrapper" && line.file.ends_with("/torch/_dynamo/eval_frame.py"));
  });
}

/// Where the program is, told of a break in a library.
std::string called_from(const trace::Break& met) {
  if (is_own(met.line)) return "";
  const auto caller = std::find_if(met.callers.begin(), met.callers.end(), is_own);
  return caller == met.callers.end() ? "" : fmt::format(", called from {}:{} in {}", caller->file, caller->line, caller->function);
}

}  // namespace

bool constructs(const python::Frame* base) {
  for (const python::Frame* frame = base; frame; frame = frame->previous) {
    if (frame->owner == python::kOwnedByCStack) continue;
    const std::string_view name = python::text_of(frame->code->co_name);
    if (name == "__init__" || name == "__new__") return true;
  }
  return false;
}

Ruling rule_on(const Engine& engine, const vm::Machine& machine, const trace::Break& met, bool in_constructor) {
  using report::BreakId;
  if (met.id == BreakId::k_scope || is_refusing(engine)) return Ruling::kBreaks;
  const int asked_for = engine.fullgraph_at(machine);
  if (asked_for == Scope::kMustNotBreak) return Ruling::kRefused;
  if (engine.options().fullgraph) return in_constructor ? Ruling::kBreaks : rule_on_program(met);
  return asked_for == Scope::kAsTorch && met.in_torch && !is_in_operator(met) ? Ruling::kRefused : Ruling::kBreaks;
}

vm::Activation* asked_in(const Engine& engine, const vm::Machine& machine) {
  vm::Activation *marked = nullptr, *forward = nullptr, *base = nullptr;
  for (vm::Activation* activation = machine.top; activation; activation = activation->caller) {
    base = activation;
    if (engine.asks_for_one_graph(activation->frame)) marked = activation;
    const std::string_view name = python::text_of(activation->frame->code->co_qualname);
    if (name.size() > 8 && name.substr(name.size() - 8) == ".forward") forward = activation;
  }
  if (marked) return marked;
  if (Scope::here().fullgraph != Scope::kMayBreak) return base;
  return engine.options().fullgraph ? forward ? forward : machine.top : nullptr;
}

python::Ref fullgraph_error(const trace::Break& met, bool asked_for) {
  const trace::Break why = Engine::of_program(met).value_or(met);
  const report::BreakInfo info = report::break_info(why.id, why.detail);
  const std::string text = fmt::format("{}: {}{}{} at {}:{} in {}{} ({})", asked_for ? "fullgraph=True" : "--fullgraph", info.what, why.detail.empty() ? "" : ": ",
                                       why.detail, why.line.file, why.line.line, why.line.function, called_from(why), info.cure);
  // Its constructor is Python code, which is not the program's.
  const Scope outside = std::exchange(Scope::here(), Scope());
  const Quiet quiet;
  python::Ref kind = asked_for ? trace::import_path("torch._dynamo.exc:Unsupported") : python::Ref();
  PyErr_Clear();
  python::Ref error = python::Ref::steal(PyObject_CallFunction(kind ? kind.get() : PyExc_RuntimeError, "s", text.c_str()));
  Scope::here() = outside;
  if (!error) return python::Ref::steal(PyErr_GetRaisedException());
  if (PyObject_SetAttrString(error.get(), kMadeHere, Py_True) < 0) PyErr_Clear();
  return error;
}

}  // namespace dynrun::engine
