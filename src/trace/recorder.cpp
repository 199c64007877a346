#include "trace/recorder.h"

#include "guards/torch_python.h"
#include "python/compat.h"
#include "trace/operator_methods.h"

#include <array>

namespace dynrun::trace {

using bytecode::Instruction;
using bytecode::Opcode;
using guards::kNoSource;
using guards::SourceKind;
using python::Ref;

namespace {

/// What operators and built-in functions look up in a tensor's class without saying so, besides the binary operators' methods.
constexpr const char* kTensorMethods[] = {"__neg__",     "__pos__",      "__abs__",  "__invert__", "__eq__",   "__ne__",      "__lt__",       "__le__",
                                          "__gt__",      "__ge__",       "__len__",  "__bool__",   "__int__",  "__float__",   "__complex__",  "__index__",
                                          "__iter__",    "__getitem__",  "__setitem__", "__contains__", "__hash__", "__format__", "__repr__", "__str__",
                                          "__reversed__", "__torch_function__"};

void watch_tensor_methods(guards::Program& guards) {
  static const auto names = [] {
    std::vector<PyObject*> interned;
    for (const char* name : kTensorMethods) interned.push_back(PyUnicode_InternFromString(name));
    for (const char* name : kInPlaceMethods) interned.push_back(PyUnicode_InternFromString(name));
    for (const char* name : kBinaryMethods) {
      interned.push_back(PyUnicode_InternFromString(name));
      interned.push_back(PyUnicode_InternFromString((std::string("__r") + (name + 2)).c_str()));
    }
    return interned;
  }();
  auto* type = reinterpret_cast<PyTypeObject*>(guards::tensor_class());
  if (type == nullptr) return;
  for (PyObject* name : names) guards.note_type_lookup(type, name, _PyType_Lookup(type, name));
}

}  // namespace

Recorder::Recorder(vm::Machine& machine, vm::Activation* base, Limits limits)
    : machine_(machine), base_(base), base_frame_(base->frame), limits_(limits), segment_(std::make_unique<Segment>()), guards_(segment_->guards), host_(segment_->host),
      entry_state_(TorchState::now()) {
  segment_->entry = entry_point(base, machine.top);
  segment_->state = entry_state_;
  operators_.binds_sizes = limits.varying_sizes != nullptr;
  operators_.casts_may_be_kept = entry_state_.autocast_nesting > 0 || entry_state_.autocast || entry_state_.autocast_cuda;
  operators_.resolve_outside = [this](const at::Tensor& tensor) { return outside_tensor(tensor); };
  operators_.is_weight = [this](const at::Tensor& tensor) { return is_weight(tensor); };
  for (vm::Activation* activation = machine.top; activation; activation = activation->caller) {
    EntrySlots slots{activation, activation->code->object, {}, {}, {}, {}};
    auto count = static_cast<std::size_t>(activation->code->locals_count);
    slots.locals.assign(activation->locals(), activation->locals() + count);
    slots.written.assign(count, false);
    slots.read.assign(count, false);
    slots.stack.assign(activation->stack_base(), activation->stack_pointer);
    entry_.insert(entry_.begin(), std::move(slots));
    if (activation == base) break;
  }
  kept_ = static_cast<int>(entry_.size());
  frames_ = 1;
  pending_machine_ = &machine;
  watch_tensor_methods(guards_);
  for (std::size_t depth = 0; depth < entry_.size(); depth++) {
    auto frame = static_cast<std::int32_t>(depth);
    // Which function runs in the frame decides about its code, globals and closure.
    guards_.check_code(guards_.read(SourceKind::kFrameFunction, frame, 0, nullptr), entry_[depth].activation->frame->function);
    resolve(entry_[depth].activation->frame->function);
    adopt_positional(depth);
    adopt_keywords(depth);
    // Every stack slot is a read of its own: one object may lie in several, and in others next time.
    for (std::size_t i = 0; i < entry_[depth].stack.size(); i++) {
      PyObject* object = entry_[depth].stack[i];
      guards::SourceId source = guards_.read(SourceKind::kStack, frame, static_cast<std::int32_t>(i), nullptr);
      if (object == nullptr) guards_.check_null(source);
      else if (wants_host(object, source) || is_loop_index(depth, i)) adopt_host(&entry_[depth].activation->stack_base()[i], read_host(object, source));
      else if (wants_size(object, source)) adopt_size(&entry_[depth].activation->stack_base()[i], source);
      else if (is_loop_tuple(depth, i)) adopt_loop_tuple(depth, i, source);
      else learn_external(object, source);
    }
  }
}

/// Whether the slot holds what an iterator just gave, on the stack where the segment begins: something else on the next turn.
bool Recorder::is_loop_item(std::size_t depth, std::size_t slot) const {
  const auto& [code, pc] = segment_->entry.frames.back();
  const bool just_given = pc > 0 && code->instructions[static_cast<std::size_t>(pc) - 1].opcode == bytecode::Opcode::kForIter;
  return just_given && limits_.varying && depth + 1 == entry_.size() && slot + 1 == entry_[depth].stack.size();
}

bool Recorder::is_loop_index(std::size_t depth, std::size_t slot) const { return is_loop_item(depth, slot) && PyLong_CheckExact(entry_[depth].stack.back()); }

namespace {

bool holds_number(PyObject* object) {
  if (!PyTuple_CheckExact(object)) return PyLong_CheckExact(object);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); i++) {
    if (holds_number(PyTuple_GET_ITEM(object, i))) return true;
  }
  return false;
}

bool takes_apart(const bytecode::Instruction& in, PyObject* object) {
  return in.opcode == bytecode::Opcode::kUnpackSequence && PyTuple_CheckExact(object) && in.argument == PyTuple_GET_SIZE(object);
}

bool stores_one(const bytecode::Instruction& in) {
  using bytecode::Opcode;
  return in.opcode == Opcode::kStoreFast || in.opcode == Opcode::kStoreName || in.opcode == Opcode::kStoreGlobal || in.opcode == Opcode::kStoreDeref;
}

}  // namespace

/// A tuple with numbers that is about to be taken apart: `for i, x in enumerate(...)`.
bool Recorder::is_loop_tuple(std::size_t depth, std::size_t slot) const {
  PyObject* tuple = entry_[depth].stack[slot];
  if (!is_loop_item(depth, slot)) return false;
  const auto& [code, pc] = segment_->entry.frames.back();
  return takes_apart(code->instructions[static_cast<std::size_t>(pc)], tuple) && holds_number(tuple);
}

void Recorder::adopt_loop_tuple(std::size_t depth, std::size_t slot, guards::SourceId source) {
  const auto& [code, at] = segment_->entry.frames.back();
  const bytecode::Instruction* pc = &code->instructions[static_cast<std::size_t>(at)];
  adopt_items(&entry_[depth].activation->stack_base()[slot], source, pc);
}

/// Puts a tuple of its own in the place of one from outside, with host values for its numbers: the instruction at `pc` takes it apart, so
/// nobody sees which tuple it was. Leaves `pc` behind the targets, as far as they are plain.
bool Recorder::adopt_items(PyObject** slot, guards::SourceId source, const bytecode::Instruction*& pc) {
  PyObject* tuple = *slot;
  Ref copy = Ref::steal(PyTuple_New(PyTuple_GET_SIZE(tuple)));
  if (!learn_external(tuple, source) || !copy) return false;
  guards_.check_length(source, PyTuple_GET_SIZE(tuple));
  ++pc;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
    PyObject*& item = PyTuple_GET_ITEM(copy.get(), i);
    item = Py_NewRef(PyTuple_GET_ITEM(tuple, i));
    const guards::SourceId path = guards_.read(SourceKind::kSequenceItem, source, static_cast<std::int32_t>(i), nullptr);
    if (takes_apart(*pc, item)) {
      if (!adopt_items(&item, path, pc)) return false;
      continue;
    }
    if (PyLong_CheckExact(item) || wants_host(item, path)) adopt_host(&item, read_host(item, path));
    else if (!learn_external(item, path)) return false;
    if (stores_one(*pc)) ++pc;
  }
  learn_fresh(copy.get());
  const Ref old = Ref::steal(std::exchange(*slot, copy.release()));
  return true;
}

/// The tuple of *args is made for the call too; its items may be host values.
void Recorder::adopt_positional(std::size_t depth) {
  EntrySlots& slots = entry_[depth];
  PyCodeObject* code = slots.activation->code->object;
  if (slots.activation->pc != 0 || depth > 0 || !(code->co_flags & CO_VARARGS) || !limits_.varying || limits_.varying->empty()) return;
  auto slot = static_cast<std::size_t>(code->co_argcount + code->co_kwonlyargcount);
  PyObject* tuple = slots.locals[slot];
  if (tuple == nullptr || !PyTuple_CheckExact(tuple) || Py_REFCNT(tuple) != 1 || PyTuple_GET_SIZE(tuple) == 0) return;
  slots.read[slot] = true;
  guards::SourceId source = local_source(depth, slot);
  if (!learn_external(tuple, source)) return;
  guards_.check_length(source, PyTuple_GET_SIZE(tuple));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    guards::SourceId path = guards_.read(SourceKind::kSequenceItem, source, static_cast<std::int32_t>(i), nullptr);
    if (wants_host(item, path)) adopt_host(&PyTuple_GET_ITEM(tuple, i), read_host(item, path));
    else if (!learn_external(item, path)) return;
  }
  learn_fresh(tuple);
  slots.written[slot] = true;
}

/// The dict of **kwargs is made for the call: at the function's first instruction nobody else has it, so it counts as fresh.
void Recorder::adopt_keywords(std::size_t depth) {
  EntrySlots& slots = entry_[depth];
  PyCodeObject* code = slots.activation->code->object;
  if (slots.activation->pc != 0 || depth > 0 || !(code->co_flags & CO_VARKEYWORDS)) return;
  auto slot = static_cast<std::size_t>(code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0));
  PyObject* dict = slots.locals[slot];
  if (dict == nullptr || !PyDict_CheckExact(dict) || Py_REFCNT(dict) != 1) return;
  slots.read[slot] = true;
  if (!learn_external(dict, local_source(depth, slot)) || !resolve_deep(dict)) return;
  learn_fresh(dict);
  slots.written[slot] = true;
}

const Recorder::Handler* Recorder::handlers() {
  static const auto table = [] {
    std::array<Handler, bytecode::kOpcodeCount> t{};
    auto set = [&](Opcode opcode, Handler handler) { t[static_cast<std::size_t>(opcode)] = handler; };
    for (Opcode opcode : {Opcode::kNop, Opcode::kResume, Opcode::kPopTop, Opcode::kPushNull, Opcode::kEndFor, Opcode::kEndSend, Opcode::kCopy, Opcode::kSwap,
                          Opcode::kJumpForward, Opcode::kLoadAssertionError})
      set(opcode, &Recorder::plain);
    set(Opcode::kLoadConst, &Recorder::load_const);
    set(Opcode::kLoadFast, &Recorder::load_fast), set(Opcode::kLoadFastCheck, &Recorder::load_fast);
    set(Opcode::kStoreFast, &Recorder::store_fast), set(Opcode::kDeleteFast, &Recorder::store_fast);
    set(Opcode::kLoadFastAndClear, &Recorder::load_fast_and_clear);
    set(Opcode::kMakeCell, &Recorder::make_cell), set(Opcode::kCopyFreeVars, &Recorder::copy_free_variables);
    set(Opcode::kLoadClosure, &Recorder::load_closure), set(Opcode::kLoadDeref, &Recorder::load_deref);
    set(Opcode::kStoreDeref, &Recorder::store_deref), set(Opcode::kDeleteDeref, &Recorder::delete_deref);
    set(Opcode::kLoadGlobal, &Recorder::load_global), set(Opcode::kStoreGlobal, &Recorder::store_global);
    set(Opcode::kLoadName, &Recorder::load_name), set(Opcode::kStoreName, &Recorder::store_name);
    set(Opcode::kLoadAttr, &Recorder::load_attr), set(Opcode::kStoreAttr, &Recorder::store_attr);
    set(Opcode::kLoadSuperAttr, &Recorder::load_super_attr), set(Opcode::kBeforeWith, &Recorder::before_with);
    set(Opcode::kImportName, &Recorder::import_name), set(Opcode::kImportFrom, &Recorder::import_from);
    set(Opcode::kMakeFunction, &Recorder::make_function), set(Opcode::kLoadBuildClass, &Recorder::load_build_class);
    set(Opcode::kJumpBackward, &Recorder::jump_backward), set(Opcode::kJumpBackwardNoInterrupt, &Recorder::jump_backward);
    set(Opcode::kReturnValue, &Recorder::return_value), set(Opcode::kReturnConst, &Recorder::return_const);
    set(Opcode::kPopJumpIfTrue, &Recorder::branch), set(Opcode::kPopJumpIfFalse, &Recorder::branch);
    set(Opcode::kPopJumpIfNone, &Recorder::branch_none), set(Opcode::kPopJumpIfNotNone, &Recorder::branch_none);
    set(Opcode::kUnaryNegative, &Recorder::unary), set(Opcode::kUnaryInvert, &Recorder::unary), set(Opcode::kUnaryNot, &Recorder::unary_not);
    set(Opcode::kBinaryOp, &Recorder::binary), set(Opcode::kCompareOp, &Recorder::compare), set(Opcode::kIsOp, &Recorder::is_op);
    set(Opcode::kContainsOp, &Recorder::contains), set(Opcode::kBinarySubscr, &Recorder::subscript), set(Opcode::kBinarySlice, &Recorder::slice);
    set(Opcode::kStoreSubscr, &Recorder::store_subscript), set(Opcode::kDeleteSubscr, &Recorder::delete_subscript);
    set(Opcode::kStoreSlice, &Recorder::store_slice);
    set(Opcode::kDeleteAttr, &Recorder::delete_attr), set(Opcode::kWithExceptStart, &Recorder::with_except_start);
    set(Opcode::kGetYieldFromIter, &Recorder::get_yield_from_iter), set(Opcode::kSend, &Recorder::send);
    for (Opcode opcode : {Opcode::kMatchSequence, Opcode::kMatchMapping, Opcode::kMatchKeys, Opcode::kGetLen}) set(opcode, &Recorder::match);
    set(Opcode::kMatchClass, &Recorder::match_class);
    for (Opcode opcode : {Opcode::kBuildTuple, Opcode::kBuildList, Opcode::kBuildSet, Opcode::kBuildMap, Opcode::kBuildConstKeyMap, Opcode::kBuildSlice})
      set(opcode, &Recorder::build);
    set(Opcode::kBuildString, &Recorder::build_string), set(Opcode::kFormatValue, &Recorder::build_string);
    for (Opcode opcode : {Opcode::kListExtend, Opcode::kSetUpdate, Opcode::kDictUpdate, Opcode::kDictMerge}) set(opcode, &Recorder::extend);
    for (Opcode opcode : {Opcode::kListAppend, Opcode::kSetAdd, Opcode::kMapAdd}) set(opcode, &Recorder::append);
    set(Opcode::kUnpackSequence, &Recorder::unpack), set(Opcode::kUnpackEx, &Recorder::unpack);
    set(Opcode::kGetIter, &Recorder::get_iter), set(Opcode::kForIter, &Recorder::for_iter);
    set(Opcode::kCall, &Recorder::call), set(Opcode::kCallFunctionEx, &Recorder::call_function_ex);
    set(Opcode::kCallIntrinsic1, &Recorder::intrinsic), set(Opcode::kYieldValue, &Recorder::yield_value);
    set(Opcode::kRaiseVarargs, &Recorder::raise), set(Opcode::kReraise, &Recorder::raise), set(Opcode::kCleanupThrow, &Recorder::raise);
    for (Opcode opcode : {Opcode::kPushExcInfo, Opcode::kPopExcept, Opcode::kCheckExcMatch}) set(opcode, &Recorder::push_exception);
    return t;
  }();
  return table.data();
}

namespace {

bool runs_inside(const vm::Machine& machine, const vm::Machine* outer) {
  const vm::Machine* parent = machine.parent;
  while (parent && parent != outer) parent = parent->parent;
  return parent != nullptr;
}

}  // namespace

/// Keeps what is pending apart for each machine: C code may call Python again in the middle of an instruction, and more than once.
void Recorder::enter_machine(vm::Machine& machine) {
  // One that has ended says nothing; the next may stand at its address.
  while (!outer_pending_.empty() && outer_pending_.back().first != &machine && !runs_inside(machine, outer_pending_.back().first)) {
    std::tie(pending_machine_, pending_) = std::move(outer_pending_.back());
    outer_pending_.pop_back();
  }
  if (pending_machine_ == &machine) return;
  for (std::size_t i = outer_pending_.size(); i-- > 0;) {
    if (outer_pending_[i].first != &machine) continue;
    pending_ = std::move(outer_pending_[i].second);
    outer_pending_.resize(i);
    pending_machine_ = &machine;
    return;
  }
  if (!outer_pending_.empty() && !runs_inside(machine, pending_machine_)) {
    std::tie(pending_machine_, pending_) = std::move(outer_pending_.back());
    outer_pending_.pop_back();
  }
  pending_.calls_python = true;
  outer_pending_.emplace_back(pending_machine_, std::move(pending_));
  pending_ = Pending{};
  pending_machine_ = &machine;
}

void Recorder::enter_line(const vm::Activation& activation, const Instruction& in) {
  const std::size_t learnt = guards_.size() + host_.steps().size();
  segment_->lines.begin(activation.code->object, in.offset, limits_.keeps_lines || learnt != learnt_);
  learnt_ = learnt;
  guards_.set_line(segment_->lines.number());
  host_.set_line(segment_->lines.number());
}

Flow Recorder::before(vm::Machine& machine, vm::Activation& activation, const Instruction& in) {
  enter_machine(machine);
  pending_ = Pending{};
  mutations_before_ = mutations_;
  if (poisoned_) {
    note_unseen_write(activation, in);
    return Flow::kRun;
  }
  if (++instructions_ > limits_.instructions || (operators_.graph()->nodes.size() > limits_.nodes && &machine == &machine_))
    return cut_here("");
  bool stressed = limits_.break_after_operator && &machine == &machine_ && !operators_.graph()->nodes.empty();
  if (stressed && in.opcode != Opcode::kReturnValue) return cut(BreakId::k_stress);
  Handler handler = handlers()[static_cast<std::size_t>(in.opcode)];
  if (handler == nullptr) return cut(BreakId::k_opaque_operation, bytecode::info(in.opcode).name);
  if (&machine != &machine_ && activation.caller == nullptr && activation.pc == 0) learn_called_by_c(activation);
  enter_line(activation, in);
  if (turned_around(machine, activation)) return cut_here("a turn of a loop");
  if (lets_go_visibly(activation, in)) return cut(BreakId::k_opaque_operation, "the end of an object that the program is told of");
  require_loaded_hosts();  // what was read before the handler: keyword arguments, defaults of a function that C code called
  operators_.host_arguments.clear();
  sizes_asked_ = unsized_asked_ = false;
  if (auto settled = settle_operands(activation, in)) return *settled;
  if (auto settled = settle_unsized(activation, in)) return *settled;
  const auto effects = static_cast<std::ptrdiff_t>(effects_.size());
  Flow flow = (this->*handler)(activation, in);
  if (!loaded_hosts_.empty()) settle_host_loads(flow, in);
  const bool late_operator = after_clock_ && flow == Flow::kRun && &machine == &machine_ && runs_after_clock(in);
  // The segment ends before the instruction: what the handler announced is not its effect.
  if (flow == Flow::kRun && (leaked_ || late_operator)) effects_.erase(effects_.begin() + effects, effects_.end());
  if (leaked_) flow = settle_leak(flow);
  if (late_operator && flow == Flow::kRun) return cut_unsettled(BreakId::k_changing_number, "an operator after a clock");
  if (flow == Flow::kRaise) segment_.reset();
  return flow;
}

/// Once something could not be recorded, the code that C code called goes on without: where it may write an object of the segment's own,
/// that object is no longer what the segment would rebuild before the call.
void Recorder::note_unseen_write(vm::Activation& activation, const Instruction& in) {
  switch (in.opcode) {
    case Opcode::kNop:
    case Opcode::kResume:
    case Opcode::kPopTop:
    case Opcode::kPushNull:
    case Opcode::kCopy:
    case Opcode::kSwap:
    case Opcode::kLoadConst:
    case Opcode::kLoadFast:
    case Opcode::kLoadFastCheck:
    case Opcode::kLoadDeref:
    case Opcode::kLoadGlobal:
    case Opcode::kLoadAttr:
    case Opcode::kStoreFast:
    case Opcode::kIsOp:
    case Opcode::kReturnValue:
    case Opcode::kReturnConst: return;
    case Opcode::kStoreDeref:
    case Opcode::kDeleteDeref:
      if (is_fresh(activation.locals()[in.argument])) mutations_++;
      return;
    default: break;
  }
  for (int i = 1; i <= activation.stack_depth(); i++) {
    PyObject* object = activation.peek(i);
    if (object != nullptr && PyCFunction_Check(object)) object = PyCFunction_GET_SELF(object);
    if (object == nullptr || guards::is_tensor(object) || PyTuple_CheckExact(object) || !PyObject_IS_GC(object) || !is_fresh(object)) continue;
    mutations_++;
    return;
  }
}

/// A recording that began inside a loop ends where it began: the next turn is the same segment.
bool Recorder::turned_around(vm::Machine& machine, const vm::Activation& activation) const {
  return backward_jumps_ > 0 && &machine == &machine_ && kept_ == static_cast<int>(entry_.size()) && &activation == entry_.back().activation &&
         activation.pc == segment_->entry.frames.back().second && activation.pc > 0;
}

Flow Recorder::end_before(const char* detail) {
  if (!segment_ || poisoned_) return Flow::kRun;
  enter_machine(machine_);
  pending_ = Pending{};
  return cut_here(detail);
}

void Recorder::end_here() { end_before("the end of a loop"); }

bool Recorder::follows(PyObject* generator) {
  return !poisoned_ && PyGen_CheckExact(generator) && is_fresh(generator) && !dynrun_generator_handles(generator);
}

bool Recorder::learn_pending(vm::Activation* top) {
  // A generator goes on: what it gives is known when it is there.
  if (top->resumption != vm::Resumption::kNone && pending_.activation && pending_.activation != top) return true;
  switch (pending_.then) {
    case Then::kNothing: return true;
    case Then::kLearnTop: return learn_result(top->peek(1));
    case Then::kLearnTopDeep: return (top->peek(2) == nullptr || learn_result(top->peek(2))) && learn_result(top->peek(1));
    case Then::kMakeCell:
      learn_fresh(pending_.activation->locals()[pending_.count]);
      return true;
    case Then::kNewTuple:
    case Then::kArguments: {
      PyObject* made = top->peek(pending_.then == Then::kArguments ? pending_.count : 1);
      learn_fresh(made);
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(made); i++) {
        if (!learn_result(PyTuple_GET_ITEM(made, i))) return false;
      }
      return true;
    }
    case Then::kGenerator: return learn_generator(top->peek(1));
    case Then::kExtended: {
      PyObject* list = top->peek(pending_.count);
      for (Py_ssize_t i = 0; PyList_CheckExact(list) && i < PyList_GET_SIZE(list); i++) {
        if (!learn_result(PyList_GET_ITEM(list, i))) return false;
      }
      return true;
    }
    case Then::kFreshTop: learn_fresh(top->peek(1)); return true;
    case Then::kContextToken:
      learn_fresh(top->peek(1));
      context_sets_.push_back({pending_.operands[static_cast<std::size_t>(pending_.count)], pending_.operands.back(), Ref::borrow(top->peek(1))});
      return true;
    case Then::kLearnUnpacked:
      for (int i = 1; i <= pending_.count; i++) {
        if (!learn_result(top->peek(i))) return false;
      }
      return true;
    case Then::kHostTop: adopt_host(top->stack_pointer - 1, pending_.count); return true;
    case Then::kForIter: return top->stack_depth() <= pending_.depth || learn_result(top->peek(1));
  }
  return false;
}

/// Whether C code that raised was given tensors of open sizes. Of what the program raises itself, the reasons are recorded.
bool Recorder::may_have_raised_by_sizes(const Instruction& in) {
  if (in.opcode == Opcode::kRaiseVarargs || in.opcode == Opcode::kReraise || in.opcode == Opcode::kCleanupThrow) return false;
  return std::any_of(pending_.operands.begin(), pending_.operands.end(), [this](const Ref& operand) { return holds_open_sizes(operand.get(), 0); });
}

bool Recorder::holds_open_sizes(PyObject* object, int depth) {
  constexpr int kDeepest = 3;
  if (object == nullptr || depth > kDeepest) return object != nullptr;
  if (PyList_CheckExact(object) || PyTuple_Check(object)) {
    PyObject** items = PySequence_Fast_ITEMS(object);
    return std::any_of(items, items + Py_SIZE(object), [&](PyObject* item) { return holds_open_sizes(item, depth + 1); });
  }
  if (PyDict_CheckExact(object)) return holds_open_sizes(Ref::steal(PyDict_Values(object)).get(), depth + 1);
  PyObject* self = PyMethod_Check(object) ? PyMethod_GET_SELF(object) : PyCFunction_Check(object) ? PyCFunction_GET_SELF(object) : object;
  return self != nullptr && has_open_sizes(self);
}

Flow Recorder::after(vm::Machine& machine, const Instruction& in, bool raised) {
  enter_machine(machine);
  if (!pending_.offered.empty()) settle_offered_hosts();
  PyObject* result = !raised && machine.top && machine.top->stack_depth() > 0 ? machine.top->peek(1) : nullptr;
  // Where what raises is a matter of data, the next time it may not.
  if (raised && (unsized_asked_ || operators_.offers_data())) operators_.refuse(Refusal::kDataDependent, "an exception");
  if (operators_.refusal() == Refusal::kNone && !operators_.took_data_indices()) leaked_ = true;
  if (segment_ && records_sizes()) look_at_recorded_sizes(in, result);
  if (raised && sizes_vary() && may_have_raised_by_sizes(in)) fix_sizes();
  if (unsized_asked_ && result && !holds_only_tensors(result)) operators_.refuse(Refusal::kDataDependent, "a property of its size");
  if (pending_.calls_python && !hosts_.empty() && segment_ && !passes_values_through(in, pending_)) {
    if (raised || !pending_.guarded) {
      specialise_all();
    } else {
      specialise_reachable(pending_.operands);
    }
  }
  bool nested = &machine != &machine_;
  // A Python exception that recorded code, or C code that called it, catches again: it follows from what is guarded.
  PyObject* exception = raised && machine.top && machine.top->stack_depth() > 0 ? machine.top->peek(1) : nullptr;
  bool outside = exception && source_of(exception) != kNoSource;  // raised by C code: its traceback grows
  bool caught = raised && !outside && !poisoned_ && operators_.refusal() == Refusal::kNone;
  if (caught && exception) learn_fresh(exception);
  if (caught && (nested || (machine.top && kept_ > 0))) return Flow::kRun;
  if (nested) {
    if (raised || operators_.refusal() != Refusal::kNone) poisoned_ = true;
    if (!poisoned_ && machine.top && !learn_pending(machine.top)) {
      note_break(BreakId::k_unknown_object, "a result");
      poisoned_ = true;
    }
    return Flow::kRun;
  }
  const bool late_operator = after_clock_ && pending_.guarded && operators_.graph()->nodes.size() > pending_.mark.nodes;
  bool failed = raised || poisoned_ || leaked_ || late_operator || operators_.refusal() != Refusal::kNone;
  if (late_operator || leaked_) note_break(BreakId::k_changing_number, "");
  leaked_ = false;
  if (!failed && !learn_pending(machine.top)) {
    note_break(BreakId::k_unknown_object, machine.top->stack_depth() > 0 && machine.top->peek(1) ? Py_TYPE(machine.top->peek(1))->tp_name : "a result");
    failed = true;
  }
  if (!failed) note_made_set(in, result);
  return failed ? cut_afterwards(raised) : Flow::kRun;
}

Flow Recorder::cut_afterwards(bool raised) {
  if (raised) {
    const Ref leaving = Ref::steal(PyErr_GetRaisedException());
    PyObject* arrived = machine_.top && machine_.top->stack_depth() > 0 ? machine_.top->peek(1) : nullptr;
    note_raise(leaving ? leaving.get() : arrived && PyExceptionInstance_Check(arrived) ? arrived : nullptr);
    if (leaving) PyErr_SetRaisedException(Ref::borrow(leaving.get()).release());
  } else if (!break_) {
    static const BreakId ids[] = {BreakId::k_unknown_object, BreakId::k_unknown_object, BreakId::k_data_dependent_operator, BreakId::k_unsupported_tensor,
                                  BreakId::k_write_then_raise, BreakId::k_opaque_operation, BreakId::k_raise, BreakId::k_write_after_output};
    note_break(ids[static_cast<int>(operators_.refusal())], operators_.refused_operator());
  }
  bool sound = pending_.guarded && !raised && mutations_ == pending_.mutations && machine_.top == pending_.activation;
  if (!sound) {
    segment_.reset();
    return Flow::kDropped;
  }
  poisoned_ = false;
  const bool may_raise = operators_.refusal() == Refusal::kMayRaiseAfterWrite;
  operators_.rewind(pending_.mark);
  effects_.erase(effects_.begin() + static_cast<std::ptrdiff_t>(pending_.effects), effects_.end());
  instruction_ran_ = true;
  for (const auto& [tensor, before] : pending_.versions) {
    auto now = static_cast<std::uint32_t>(tensor._version());
    if (now > before) written_by_cut_.emplace_back(tensor, now - before);
  }
  if (!finish_at(machine_.top, &pending_, pending_.pc)) return Flow::kDropped;
  // With nothing written yet the next segment takes what this one may not, at this very instruction.
  segment_->continues = may_raise && operators_.wrote_outside();
  return Flow::kCut;
}

/// A Python function that C code called. Which one it found may hang on the classes of the operands and of what it was given.
void Recorder::learn_called_by_c(vm::Activation& activation) {
  if (outer_pending_.empty()) return;
  PyObject* function = activation.frame->function;
  if (!resolve(function)) {
    for (const Ref& operand : outer_pending_.back().second.operands) {
      if (!operand) continue;
      guards_.require_unchanged(Py_TYPE(operand.get()));
      if (PyType_Check(operand.get())) guards_.require_unchanged(reinterpret_cast<PyTypeObject*>(operand.get()));
    }
    learn_external(function, guards_.constant(function));
    learn_function_defaults(function);
  }
  for (int i = 0; i < activation.code->object->co_argcount; i++) {
    if (PyObject* argument = activation.locals()[i]) guards_.require_special_methods(Py_TYPE(argument));
  }
  entered(*vm::current_machine(), activation);
  frames_--;
}

/// A generator that recorded code made: its *args and **kwargs are as fresh as an inlined call's.
bool Recorder::learn_generator(PyObject* generator) {
  learn_fresh(generator);
  if (!PyGen_CheckExact(generator)) return learn_result(generator);
  auto* frame = reinterpret_cast<python::Frame*>(reinterpret_cast<PyGenObject*>(generator)->gi_iframe);
  PyCodeObject* code = frame->code;
  int slot = code->co_argcount + code->co_kwonlyargcount;
  for (int flag : {CO_VARARGS, CO_VARKEYWORDS}) {
    if (!(code->co_flags & flag)) continue;
    PyObject* value = frame->localsplus[slot++];
    if (value && PyCell_Check(value)) value = PyCell_GET(value);
    if (value) learn_fresh(value);
  }
  return learn_cells(frame);
}

/// The cells of a frame that has just been made: its own are fresh, the others are its function's.
bool Recorder::learn_cells(python::Frame* frame) {
  PyCodeObject* code = frame->code;
  const char* kinds = PyBytes_AS_STRING(code->co_localspluskinds);
  for (int i = 0; i < code->co_nlocalsplus - code->co_nfreevars; i++) {
    constexpr char kIsCell = 0x40;  // CO_FAST_CELL
    if ((kinds[i] & kIsCell) && frame->localsplus[i] && PyCell_Check(frame->localsplus[i])) learn_fresh(frame->localsplus[i]);
  }
  PyObject* closure = PyFunction_GET_CLOSURE(frame->function);
  if (closure == nullptr) return true;
  if (!resolve(frame->function)) return false;
  guards::SourceId source = source_of(frame->function);
  for (int i = 0; i < code->co_nfreevars; i++) {
    PyObject* cell = PyTuple_GET_ITEM(closure, i);
    if (source == kNoSource ? !resolve(cell) : !learn_external(cell, guards_.read(SourceKind::kFunctionClosure, source, i, nullptr))) return false;
  }
  return true;
}

void Recorder::entered(vm::Machine&, vm::Activation& activation) {
  frames_++;
  std::erase_if(turns_, [&](const auto& loop) { return loop.first.first == &activation; });  // a frame that was in its place
  // What argument binding made: the tuple of *args, the dict of **kwargs.
  PyCodeObject* code = activation.code->object;
  int slot = code->co_argcount + code->co_kwonlyargcount;
  if (code->co_flags & CO_VARARGS) learn_fresh(activation.locals()[slot++]);
  if (code->co_flags & CO_VARKEYWORDS) learn_fresh(activation.locals()[slot]);
}

void Recorder::leaving(vm::Machine&, vm::Activation& activation) {
  for (int depth = 0; depth < kept_; depth++) {
    if (entry_[static_cast<std::size_t>(depth)].activation != &activation) continue;
    entry_[static_cast<std::size_t>(depth)].activation = nullptr;
    kept_ = depth;
  }
}

}  // namespace dynrun::trace
