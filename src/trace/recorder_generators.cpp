// Generators: `yield`, and `yield from` what recorded code made.

#include "python/compat.h"
#include "trace/recorder.h"

#include <algorithm>

namespace dynrun::trace {

using bytecode::Instruction;

Flow Recorder::get_yield_from_iter(vm::Activation& activation, const Instruction& in) {
  PyObject* object = activation.peek(1);
  if (PyGen_CheckExact(object)) return is_fresh(object) ? Flow::kRun : cut(BreakId::k_generator, "a generator from outside");
  return get_iter(activation, in);
}

Flow Recorder::send(vm::Activation& activation, const Instruction& in) {
  PyObject* receiver = activation.peek(2);
  if (&activation == base_ || !is_fresh(receiver) || !resolve(activation.peek(1))) return cut(BreakId::k_generator, "yield from");
  if (!PyGen_CheckExact(receiver) && activation.peek(1) != Py_None) return cut(BreakId::k_generator, "a value sent to an iterator");
  Flow flow = prepare(activation, in, 0, Then::kLearnTop);
  mutations_++;
  return flow;
}

/// C code gets the value: of numbers that it asks for their truth, or takes for keys, the ones of this run are required.
bool Recorder::look_at_yielded(PyObject* value, const Pending& taker) {
  if (!hands_on(taker)) return settle_hidden(value);
  if (taker.yields == Pending::Yields::kTruth) is_constant(value);
  if (taker.yields != Pending::Yields::kPairs) return true;
  const bool pair = PyTuple_CheckExact(value) && PyTuple_GET_SIZE(value) == 2;
  return settle_hidden(pair ? PyTuple_GET_ITEM(value, 0) : value);
}

Flow Recorder::yield_value(vm::Activation& activation, const Instruction&) {
  // What a generator from outside keeps till it goes on is its own: it stops for real.
  bool outside = std::any_of(entry_.begin(), entry_.end(), [&](const EntrySlots& slots) { return slots.activation == &activation; });
  if (&activation == base_ || outside) return cut(BreakId::k_generator);
  bool inside = activation.resumption != vm::Resumption::kNone;
  if (inside && dynrun_generator_handles(dynrun_generator_of(activation.frame))) return cut(BreakId::k_generator, "a yield in an exception's handler");
  if (vm::current_machine() != &machine_ && activation.caller == nullptr && !outer_pending_.empty() &&
      !look_at_yielded(activation.peek(1), outer_pending_.back().second))
    return cut_unsettled(BreakId::k_changing_number, "a value given to C code");
  return resolve(activation.peek(1)) ? Flow::kRun : cut(BreakId::k_unknown_object, Py_TYPE(activation.peek(1))->tp_name);
}

}  // namespace dynrun::trace
