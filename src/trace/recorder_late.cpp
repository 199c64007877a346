// Numbers and texts that no two replays share: of tensors' data, of clocks, of random generators.
//
// A late value is made when a replay has run its operators: its recipe calls what made it. It may be moved about, stored,
// shown and computed with as long as nothing can raise. A volatile host value is computed before the operators run, and may
// do what host values do, but is never required to stay what it is. Whatever else wants one ends the segment before it, and
// the next segment begins there with the value in its frame.
//
// A live value of either kind is an object of its own: its identity is its provenance.

#include "guards/torch_python.h"
#include "python/import.h"
#include "python/numbers.h"
#include "python/text.h"
#include "trace/recorder.h"

#include <opcode.h>

#include <cmath>
#include <string_view>

namespace dynrun::trace {

using bytecode::Instruction;
using bytecode::Opcode;
using guards::kNoSource;
using guards::SourceId;
using python::is_number;
using python::Ref;

namespace {

constexpr int kMaxLateDepth = 8;  // of arithmetic: integers stay small enough to become floats

Ref builtin(const char* name) { return import_path(std::string("builtins:") + name); }

/// A constant integer that every float operation takes.
bool is_small(PyObject* object) {
  if (PyFloat_CheckExact(object)) return true;
  if (!PyLong_CheckExact(object)) return false;
  int overflow = 0;
  long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
  return overflow == 0 && std::llabs(value) <= (1LL << 53);
}

/// The conversions of a %-format, or nothing where it is not plain.
std::optional<std::string> conversions(PyObject* format) {
  Py_ssize_t length = 0;
  const char* text = PyUnicode_AsUTF8AndSize(format, &length);
  if (text == nullptr) {
    PyErr_Clear();
    return std::nullopt;
  }
  std::string found;
  for (std::string_view rest(text, static_cast<std::size_t>(length)); !rest.empty();) {
    if (rest[0] != '%') {
      rest.remove_prefix(1);
      continue;
    }
    rest.remove_prefix(1);
    while (!rest.empty() && std::string_view("#0- +.123456789").find(rest[0]) != std::string_view::npos) rest.remove_prefix(1);
    if (rest.empty() || std::string_view("srafFeEgGdixX%").find(rest[0]) == std::string_view::npos) return std::nullopt;
    if (rest[0] != '%') found.push_back(rest[0]);
    rest.remove_prefix(1);
  }
  return found;
}

/// A format specification that takes every number of a type once it takes one.
bool is_safe_specification(PyObject* specification) {
  if (specification == nullptr) return true;
  if (!PyUnicode_CheckExact(specification)) return false;
  Py_ssize_t length = PyUnicode_GET_LENGTH(specification);
  return length == 0 || PyUnicode_READ_CHAR(specification, length - 1) != 'c';
}

/// How many stack slots an instruction looks at. What only moves values about looks at none.
int operands_of(const Instruction& in) {
  switch (in.opcode) {
    case Opcode::kNop:
    case Opcode::kResume:
    case Opcode::kPopTop:
    case Opcode::kPushNull:
    case Opcode::kEndFor:
    case Opcode::kEndSend:
    case Opcode::kCopy:
    case Opcode::kSwap:
    case Opcode::kLoadConst:
    case Opcode::kLoadFast:
    case Opcode::kLoadFastCheck:
    case Opcode::kLoadFastAndClear:
    case Opcode::kStoreFast:
    case Opcode::kDeleteFast:
    case Opcode::kLoadClosure:
    case Opcode::kMakeCell:
    case Opcode::kCopyFreeVars:
    case Opcode::kLoadDeref:
    case Opcode::kStoreDeref:
    case Opcode::kDeleteDeref:
    case Opcode::kLoadGlobal:
    case Opcode::kStoreGlobal:
    case Opcode::kLoadName:
    case Opcode::kStoreName:
    case Opcode::kDeleteName:
    case Opcode::kLoadLocals:
    case Opcode::kLoadAssertionError:
    case Opcode::kLoadBuildClass:
    case Opcode::kBuildTuple:
    case Opcode::kBuildList:
    case Opcode::kBuildConstKeyMap:
    case Opcode::kListAppend:
    case Opcode::kMakeFunction:
    case Opcode::kReturnConst:
    case Opcode::kJumpForward:
    case Opcode::kJumpBackward:
    case Opcode::kJumpBackwardNoInterrupt:
    case Opcode::kPopJumpIfNone:
    case Opcode::kPopJumpIfNotNone:
    case Opcode::kForIter:
    case Opcode::kPushExcInfo:
    case Opcode::kPopExcept:
    case Opcode::kCall:            // call_site looks at the arguments of calls
    case Opcode::kCallFunctionEx: return 0;
    case Opcode::kBinaryOp:
    case Opcode::kCompareOp:
    case Opcode::kIsOp:
    case Opcode::kContainsOp:
    case Opcode::kBinarySubscr:
    case Opcode::kDeleteSubscr:
    case Opcode::kStoreAttr:
    case Opcode::kMapAdd: return 2;
    case Opcode::kStoreSubscr:
    case Opcode::kBinarySlice:
    case Opcode::kLoadSuperAttr: return 3;
    case Opcode::kBuildMap: return 2 * in.argument;
    case Opcode::kBuildSet:
    case Opcode::kBuildSlice:
    case Opcode::kBuildString:
    case Opcode::kRaiseVarargs: return in.argument;
    case Opcode::kFormatValue: return in.argument & 4 ? 2 : 1;
    case Opcode::kReturnValue:
    case Opcode::kYieldValue:
    case Opcode::kUnaryNegative:
    case Opcode::kUnaryNot:
    case Opcode::kUnaryInvert:
    case Opcode::kLoadAttr:
    case Opcode::kDeleteAttr:
    case Opcode::kPopJumpIfFalse:
    case Opcode::kPopJumpIfTrue:
    case Opcode::kGetIter:
    case Opcode::kUnpackSequence:
    case Opcode::kUnpackEx:
    case Opcode::kListExtend:
    case Opcode::kSetAdd:
    case Opcode::kSetUpdate:
    case Opcode::kDictUpdate:
    case Opcode::kDictMerge: return 1;
    default: return 4;
  }
}

PyObject* item_method() {
  static PyObject* const method = import_path("torch._C:TensorBase.item").release();
  return method;
}

}  // namespace

Flow Recorder::cut_unsettled(BreakId id, const char* detail) {
  Flow flow = cut(id, detail);
  if (flow != Flow::kCut) return flow;
  segment_->continues = true;
  return Flow::kCutHere;
}

/// What `callee(*arguments)` gives: now, and anew on each replay. Null where it raises (with the exception set) or gives what is never late.
Ref Recorder::make_late(PyObject* callee, const std::vector<PyObject*>& arguments, int depth) {
  Late late{Ref(), Ref::borrow(callee), {}, depth};
  for (PyObject* argument : arguments) late.arguments.push_back(Ref::borrow(argument));
  Ref result;
  {
    UnrecordedScope unrecorded;
    result = Ref::steal(PyObject_Vectorcall(callee, arguments.data(), arguments.size(), nullptr));
  }
  if (!result) return Ref();
  Ref unique = is_number(result.get()) || PyUnicode_CheckExact(result.get()) ? unique_copy(result.get()) : PyList_CheckExact(result.get()) || is_array(result.get()) ? result : Ref();
  if (!unique) return Ref();
  late.object = unique;
  if (unique.get() != result.get()) originals_[unique.get()] = result;
  late_.emplace(unique.get(), std::move(late));
  return unique;
}

/// Puts a late value in the place of the operands.
Flow Recorder::push_late(vm::Activation& activation, PyObject* callee, std::vector<PyObject*> arguments, int slots) {
  int depth = 0;
  for (PyObject* argument : arguments) {
    if (auto at = late_.find(argument); at != late_.end()) depth = std::max(depth, at->second.depth + 1);
  }
  if (depth > kMaxLateDepth) return cut_unsettled(BreakId::k_changing_number, "long arithmetic");
  Ref unique = make_late(callee, arguments, depth);
  if (!unique) {
    const bool raised = PyErr_Occurred() != nullptr;
    PyErr_Clear();
    return cut(raised ? BreakId::k_raise : BreakId::k_data_dependent_operator, callable_name(callee));
  }
  for (PyObject* argument : arguments) {
    if (guards::is_tensor(argument)) operators_.freeze(guards::tensor_of(argument));
  }
  for (int i = 0; i < slots; i++) Py_XDECREF(activation.pop());
  activation.push(unique.release());
  activation.pc++;
  return Flow::kResume;
}

/// The text of a tensor is made by torch's own code, which reads nothing but the tensor and the print options.
bool Recorder::tensor_text_is_plain(PyObject* tensor) {
  if (!guards::is_plain_tensor(tensor) || !resolve(tensor) || vm::current_machine() != &machine_) return false;
  const Ref module = python::import_module("torch._tensor_str");
  const Ref options = module ? Ref::steal(PyObject_GetAttrString(module.get(), "PRINT_OPTS")) : Ref();
  PyErr_Clear();
  if (!options || reaches_writes({module, options})) return false;  // the text would be made before they are written
  for (const char* text : {"__repr__", "__str__", "__format__"}) {
    Ref name = Ref::steal(PyUnicode_InternFromString(text));
    PyObject* found = _PyType_Lookup(Py_TYPE(tensor), name.get());
    guards_.note_type_lookup(Py_TYPE(tensor), name.get(), found);
    if (found == _PyType_Lookup(&PyBaseObject_Type, name.get())) continue;
    bool genuine = found && PyFunction_Check(found);
    std::string_view module = genuine && PyUnicode_Check(PyFunction_GET_MODULE(found)) ? python::text_of(PyFunction_GET_MODULE(found)) : "";
    if (module != "torch._tensor" && module != "torch.nn.parameter") return false;
  }
  return learn_module_functions("torch._tensor_str", {"_str", "_str_intern", "_tensor_str", "_tensor_str_with_formatter", "_add_suffixes", "get_summarized_data", "_Formatter"});
}

/// f-strings: what is formatted and joined.
std::optional<Flow> Recorder::late_text(vm::Activation& activation, const Instruction& in) {
  static const python::Kept format = builtin("format"), str = builtin("str"), repr = builtin("repr"), ascii = builtin("ascii");
  int count = operands_of(in);
  bool any = false;
  for (int i = 1; i <= count; i++) {
    if (is_array(activation.peek(i))) return std::nullopt;  // its text is made by Python code
    any = any || is_late(activation.peek(i));
  }
  if (in.opcode == Opcode::kBuildString) {
    if (!any) return std::nullopt;
    static const python::Kept join = Ref::steal(PyObject_GetAttrString(Ref::steal(PyUnicode_New(0, 0)).get(), "join"));
    Ref parts = Ref::steal(PyTuple_New(count));
    for (int i = 0; i < count; i++) PyTuple_SET_ITEM(parts.get(), i, Py_NewRef(activation.peek(count - i)));
    learn_fresh(parts.get());
    return push_late(activation, join.get(), {parts.get()}, count);
  }
  PyObject* value = activation.peek(count);
  PyObject* specification = count > 1 ? activation.peek(1) : nullptr;
  const bool tensor = guards::is_tensor(value);
  if (!any && !tensor) return std::nullopt;
  if (specification && (is_unsettled(specification) || !is_constant(specification) || !is_safe_specification(specification)))
    return cut(BreakId::k_opaque_operation, "formatting");
  if (tensor && !tensor_text_is_plain(value)) return cut(BreakId::k_opaque_operation, "formatting a Tensor");
  const int conversion = in.argument & 3;
  PyObject* const convert[] = {nullptr, str.get(), repr.get(), ascii.get()};
  if (conversion == 0) return push_late(activation, format.get(), specification ? std::vector{value, specification} : std::vector{value}, count);
  if (specification == nullptr) return push_late(activation, convert[conversion], {value}, count);
  return cut(BreakId::k_opaque_operation, "formatting what was converted");
}

/// Arithmetic that cannot raise, whatever the numbers are, and texts put together.
std::optional<Flow> Recorder::late_binary(vm::Activation& activation, const Instruction& in) {
  PyObject *left = activation.peek(2), *right = activation.peek(1);
  int op = in.argument >= NB_INPLACE_ADD ? in.argument - NB_INPLACE_ADD : in.argument;
  static const python::Kept add = import_path("operator:add"), subtract = import_path("operator:sub"), multiply = import_path("operator:mul"),
                   divide = import_path("operator:truediv"), floor = import_path("operator:floordiv"), modulo = import_path("operator:mod");
  if (op == NB_REMAINDER && PyUnicode_CheckExact(left)) return late_percent(activation, modulo.get());
  if (!is_late(left) && !is_late(right)) return std::nullopt;
  if (op == NB_ADD && PyUnicode_CheckExact(left) && PyUnicode_CheckExact(right)) return push_late(activation, add.get(), {left, right}, 2);
  if (!is_number(left) || !is_number(right)) return array_binary(activation, in);
  bool nonzero = !is_unsettled(right) && !is_host(right) && PyObject_IsTrue(right) == 1;
  if (op == NB_SUBTRACT && PyLong_CheckExact(left) && PyLong_CheckExact(right) && is_unsettled(left) && is_unsettled(right))
    return push_late(activation, subtract.get(), {left, right}, 2);
  // Integers cannot raise; how large they become is bounded by what they are computed from.
  const bool with_size = PyLong_CheckExact(left) && PyLong_CheckExact(right) && (is_host(left) || is_host(right)) && !is_volatile(left) && !is_volatile(right);
  if (with_size && (op == NB_ADD || op == NB_SUBTRACT)) return push_late(activation, op == NB_ADD ? add.get() : subtract.get(), {left, right}, 2);
  // Either is late, or a small constant, or a float whatever it is.
  auto tame = [&](PyObject* number) { return is_late(number) || PyFloat_CheckExact(number) || (!is_host(number) && is_small(number)); };
  if (!tame(left) || !tame(right)) return std::nullopt;
  switch (op) {
    case NB_ADD: return push_late(activation, add.get(), {left, right}, 2);
    case NB_SUBTRACT: return push_late(activation, subtract.get(), {left, right}, 2);
    case NB_MULTIPLY:
      if (is_late(left) && is_late(right) && PyLong_CheckExact(left) && PyLong_CheckExact(right)) return std::nullopt;
      return push_late(activation, multiply.get(), {left, right}, 2);
    case NB_TRUE_DIVIDE: return nonzero ? std::optional(push_late(activation, divide.get(), {left, right}, 2)) : std::nullopt;
    case NB_FLOOR_DIVIDE: return nonzero ? std::optional(push_late(activation, floor.get(), {left, right}, 2)) : std::nullopt;
    case NB_REMAINDER: return nonzero ? std::optional(push_late(activation, modulo.get(), {left, right}, 2)) : std::nullopt;
    default: return std::nullopt;
  }
}

/// "%.3f" % value, "%s and %s" % (a, b)
std::optional<Flow> Recorder::late_percent(vm::Activation& activation, PyObject* modulo) {
  PyObject *format = activation.peek(2), *values = activation.peek(1);
  std::vector<PyObject*> shown{values};
  if (PyTuple_CheckExact(values)) shown.assign(PySequence_Fast_ITEMS(values), PySequence_Fast_ITEMS(values) + PyTuple_GET_SIZE(values));
  bool wanted = is_late(format);
  for (PyObject* value : shown) wanted = wanted || is_late(value) || guards::is_tensor(value);
  if (!wanted) return std::nullopt;
  auto kinds = is_unsettled(format) || is_host(format) ? std::nullopt : conversions(format);
  if (!kinds || kinds->size() != shown.size() || (values != shown[0] && !is_fresh(values))) return cut(BreakId::k_opaque_operation, "formatting");
  for (std::size_t i = 0; i < shown.size(); i++) {
    const bool text = std::string_view("sra").find((*kinds)[i]) != std::string_view::npos;
    const bool whole = std::string_view("dixX").find((*kinds)[i]) != std::string_view::npos;
    if (guards::is_tensor(shown[i])) {
      if (!text || !tensor_text_is_plain(shown[i])) return cut(BreakId::k_opaque_operation, "formatting a Tensor");
    } else if (!is_plain_number_or_text(shown[i]) || (whole && !PyLong_CheckExact(shown[i])) || (!text && !is_number(shown[i]))) {
      return cut(BreakId::k_opaque_operation, "formatting");
    }
  }
  return push_late(activation, modulo, {format, values}, 2);
}

bool Recorder::is_plain_number_or_text(PyObject* object) { return object == Py_None || PyBool_Check(object) || is_operand(object); }

/// Whether an instruction may look at the unsettled values among its operands; where not, how the segment ends.
std::optional<Flow> Recorder::settle_operands(vm::Activation& activation, const Instruction& in) {
  if (in.opcode == Opcode::kBuildString || in.opcode == Opcode::kFormatValue) {
    if (auto done = late_text(activation, in)) return done;
  }
  if (in.opcode == Opcode::kBinaryOp) {
    if (auto done = late_binary(activation, in)) return done;
  }
  if (late_.empty() && volatile_.empty()) return std::nullopt;
  PyObject* found = nullptr;
  bool late = false;
  const int count = std::min(operands_of(in), activation.stack_depth());
  for (int i = 1; i <= count; i++) {
    PyObject* operand = activation.peek(i);
    if (operand == nullptr || !is_unsettled(operand)) continue;
    found = operand;
    late = late || is_late(operand);
  }
  if (found == nullptr) return std::nullopt;
  const bool nested = vm::current_machine() != &machine_;
  PyObject *top = activation.peek(1), *below = count > 1 ? activation.peek(2) : nullptr;
  if (!nested && gives_data(activation, in, count)) return std::nullopt;
  if (!nested && in.opcode == Opcode::kBinarySubscr) {
    if (auto done = late_element(activation)) return done;
  }
  if (!nested && in.opcode == Opcode::kCompareOp) {
    if (auto done = assume_comparison(activation, in)) return done;
  }
  switch (in.opcode) {
    case Opcode::kReturnValue: {
      bool truth = activation.continuation == vm::Continuation::kPushTruth || activation.continuation == vm::Continuation::kPushNotTruth;
      if (!truth && !(nested && activation.caller == nullptr)) return std::nullopt;
      break;
    }
    case Opcode::kStoreAttr:
      if (!is_unsettled(top) && !nested) return std::nullopt;
      break;
    case Opcode::kStoreSubscr:
      if (!nested && !is_unsettled(top) && (PyList_CheckExact(below) || PyDict_CheckExact(below))) return std::nullopt;
      break;
    case Opcode::kIsOp:
      if (top == Py_None || below == Py_None) return std::nullopt;
      break;
    case Opcode::kBinaryOp:
    case Opcode::kCompareOp:
      if (!late && !nested) return std::nullopt;
      break;
    case Opcode::kFormatValue:
    case Opcode::kBuildString:
    case Opcode::kUnaryNegative:
      if (!late && !nested) return std::nullopt;
      break;
    case Opcode::kPopJumpIfFalse:
    case Opcode::kPopJumpIfTrue:
      if (!late && !nested) return std::nullopt;
      return cut_unsettled(BreakId::k_data_dependent_bool, "");
    case Opcode::kBinarySubscr:
      if (!late && !nested && is_volatile(top)) return std::nullopt;
      break;
    default: break;
  }
  if (is_array(found)) return cut_unsettled(BreakId::k_opaque_operation, "numpy.ndarray");
  return cut_unsettled(BreakId::k_changing_number, bytecode::info(in.opcode).name);
}

/// The same for a call's arguments.
std::optional<Flow> Recorder::settle_arguments(vm::Activation& activation, CallSite& site) {
  static const python::Kept str = builtin("str"), repr = builtin("repr"), format = builtin("format"), round = builtin("round"), abs = builtin("abs"),
                   single = builtin("float"), whole = builtin("int");
  PyObject* callee = site.callee;
  const bool direct = vm::current_machine() == &machine_ && site.keyword_names == nullptr && !site.arguments.empty();
  PyObject* first = direct ? site.arguments[0] : nullptr;
  const bool textual = callee == str.get() || callee == repr.get() || callee == format.get();
  if (direct && guards::is_tensor(first) && textual && site.arguments.size() == (callee == format.get() && site.arguments.size() > 1 ? 2U : 1U)) {
    PyObject* specification = site.arguments.size() > 1 ? site.arguments[1] : nullptr;
    bool safe = !specification || (!is_unsettled(specification) && is_constant(specification) && is_safe_specification(specification));
    if (!safe || !tensor_text_is_plain(first)) return std::nullopt;
    return push_late(activation, callee, site.arguments, site.slots);
  }
  if (late_.empty() && volatile_.empty()) return std::nullopt;
  bool late = false, any = false;
  for (PyObject* argument : site.arguments) any = any || is_unsettled(argument), late = late || is_late(argument);
  if (!any) return std::nullopt;
  if (auto done = call_from_array(activation, site)) return done;
  if (PyMethod_Check(callee)) return std::nullopt;  // looked at once it is unpacked
  const bool arrays = std::any_of(site.arguments.begin(), site.arguments.end(), is_array);
  if (PyFunction_Check(callee) && (vm::Machine::is_inlinable(callee) || is_log_call(site))) return std::nullopt;
  if (direct && late && is_late(first) && !arrays) {
    const bool alone = site.arguments.size() == 1;
    if (alone && (textual || callee == abs.get() || (callee == single.get() && is_number(first)) || (callee == whole.get() && PyLong_CheckExact(first))))
      return push_late(activation, callee, site.arguments, site.slots);
    PyObject* second = site.arguments.size() == 2 ? site.arguments[1] : nullptr;
    bool fixed = second && !is_unsettled(second) && !is_host(second) && guards::is_constant_like(second);
    if (fixed && callee == round.get() && PyLong_CheckExact(second) && is_number(first)) return push_late(activation, callee, site.arguments, site.slots);
    if (fixed && callee == format.get() && is_safe_specification(second)) return push_late(activation, callee, site.arguments, site.slots);
  }
  CallKind kind = classify_callable(callee);
  const bool shows = ((kind.model == Model::kPrint || kind.model == Model::kWarn) && !arrays) || kind.model == Model::kIsInstance;
  const bool appends = kind.model == Model::kListAppend && !is_unsettled(site.arguments[0]);
  if (kind.call_class == CallClass::kModelled && (shows || appends)) return std::nullopt;
  const bool given = vm::current_machine() == &machine_ && std::all_of(site.arguments.begin(), site.arguments.end(), [this](PyObject* argument) { return may_give(argument); });
  if (late && given && kind.call_class == CallClass::kTransparent) return std::nullopt;
  if (!late && direct && (kind.call_class == CallClass::kTransparent || (kind.call_class == CallClass::kPure && is_number_function(callee)))) return std::nullopt;
  return cut_unsettled(arrays ? BreakId::k_opaque_call : BreakId::k_changing_number, callable_name(callee).c_str());
}

/// A tensor's only element as a number.
std::optional<Flow> Recorder::call_item(vm::Activation& activation, CallSite& site) {
  PyObject* const method = item_method();
  const bool converts = site.callee == reinterpret_cast<PyObject*>(&PyFloat_Type) || site.callee == reinterpret_cast<PyObject*>(&PyLong_Type);
  bool asks = site.callee == method;
  if (!asks && PyCFunction_CheckExact(site.callee)) {
    PyObject* self = bound_object(site.callee);
    asks = self && guards::is_plain_tensor(self) && is_method(site.callee, method);
    if (asks && site.arguments.empty()) site.arguments.push_back(self);
  }
  if (!(asks || converts) || site.arguments.size() != 1 || site.keyword_names || vm::current_machine() != &machine_) return std::nullopt;
  PyObject* object = site.arguments[0];
  if (!guards::is_plain_tensor(object) || !resolve(object)) return std::nullopt;
  const at::Tensor& tensor = guards::tensor_of(object);
  if (asks && tensor.scalar_type() == at::kBool && tensor.numel() == 1) return assume_item(activation, site);
  const bool whole = c10::isIntegralType(tensor.scalar_type(), false);
  const bool real = whole || (tensor.is_floating_point() && !c10::isFloat8Type(tensor.scalar_type()));
  if (tensor.numel() != 1 || !real || tensor.is_meta() || (converts && tensor.requires_grad())) return std::nullopt;
  if (site.callee == reinterpret_cast<PyObject*>(&PyLong_Type) && !whole) return std::nullopt;
  count_operators(1);
  return push_late(activation, asks ? method : site.callee, {object}, site.slots);
}

/// Where the bound of a slice is a tensor of one integer: the number that torch asks it for. (Not of uint64: torch refuses what does not
/// fit a size.)
Ref Recorder::number_of_bound(PyObject* bound) {
  PyObject* const method = item_method();
  if (!guards::is_plain_tensor(bound) || vm::current_machine() != &machine_ || !resolve(bound)) return Ref();
  const at::Tensor& tensor = guards::tensor_of(bound);
  if (tensor.numel() != 1 || !c10::isIntegralType(tensor.scalar_type(), false) || tensor.scalar_type() == at::kUInt64 || tensor.is_meta()) return Ref();
  Ref number = make_late(method, {bound}, 0);
  if (!number) return PyErr_Clear(), Ref();
  operators_.freeze(tensor);
  count_operators(1);
  return number;
}

/// A tensor's elements as a list, which nobody looks into before the segment ends.
std::optional<Flow> Recorder::call_list(vm::Activation& activation, CallSite& site) {
  static PyObject* const method = import_path("torch._C:TensorBase.tolist").release();
  if (site.callee != method || site.arguments.size() != 1 || site.keyword_names || vm::current_machine() != &machine_) return std::nullopt;
  PyObject* object = site.arguments[0];
  if (!guards::is_plain_tensor(object) || !resolve(object)) return std::nullopt;
  const at::Tensor& tensor = guards::tensor_of(object);
  if (tensor.dim() == 0 || tensor.is_meta() || tensor.is_conj() || tensor.is_neg()) return std::nullopt;
  return push_late(activation, method, {object}, site.slots);
}

/// str.join of texts that are late.
std::optional<Flow> Recorder::call_text_method(vm::Activation& activation, CallSite& site, PyObject* self) {
  static PyObject* const join = _PyType_Lookup(&PyUnicode_Type, Ref::steal(PyUnicode_InternFromString("join")).get());
  if (late_.empty() || !self || !PyUnicode_CheckExact(self) || is_unsettled(self) || is_host(self) || site.keyword_names || vm::current_machine() != &machine_)
    return std::nullopt;
  const std::size_t first = !site.arguments.empty() && site.arguments[0] == self ? 1 : 0;
  if (!is_method(site.callee, join) || site.arguments.size() != first + 1) return std::nullopt;
  PyObject* parts = site.arguments[first];
  if (!(PyList_CheckExact(parts) || PyTuple_CheckExact(parts)) || !is_fresh(parts)) return std::nullopt;
  bool late = false;
  for (Py_ssize_t i = 0; i < Py_SIZE(parts); i++) {
    PyObject* part = PySequence_Fast_ITEMS(parts)[i];
    if (!PyUnicode_CheckExact(part)) return std::nullopt;
    late = late || is_late(part);
  }
  if (!late) return std::nullopt;
  // The list may be changed later: what is joined is what it holds now.
  Ref texts = Ref::steal(PySequence_Tuple(parts));
  learn_fresh(texts.get());
  return push_late(activation, join, {self, texts.get()}, site.slots);
}

/// A clock: read when the replay begins, where no operator has been recorded yet, else when its operators have run; then no
/// operator may follow.
std::optional<Flow> Recorder::call_clock(vm::Activation& activation, const Instruction& in, CallSite& site) {
  static const std::unordered_set<std::string_view> names = {"time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns",
                                                             "process_time", "process_time_ns", "thread_time", "thread_time_ns"};
  if (!PyCFunction_CheckExact(site.callee) || !site.arguments.empty() || vm::current_machine() != &machine_) return std::nullopt;
  PyObject* owner = PyCFunction_GET_SELF(site.callee);
  const char* module = owner && PyModule_Check(owner) ? PyModule_GetName(owner) : nullptr;
  PyErr_Clear();
  if (module == nullptr || std::string_view(module) != "time" || !names.count(reinterpret_cast<PyCFunctionObject*>(site.callee)->m_ml->ml_name)) return std::nullopt;
  if (!segment_->host_calls.empty()) return cut_unsettled(BreakId::k_changing_number, "a clock after output");
  if (!operators_.graph()->nodes.empty()) {
    after_clock_ = true;
    return push_late(activation, site.callee, {}, site.slots);
  }
  Flow flow = compute_host(activation, in, HostKind::kCall, 0, {}, site.callee, site.slots);
  if (flow == Flow::kRun) volatile_.insert(pending_.count);
  return flow;
}

/// A draw from one of the random module's generators, or its seeding: made of a copy that takes the generator's place when the
/// replay goes through.
std::optional<Flow> Recorder::call_generator(vm::Activation& activation, CallSite& site, PyObject* callable, PyObject* self) {
  static const python::Kept base = import_path("_random:Random"), random = import_path("random:Random");
  if (!base || !self || Py_TYPE(self) != reinterpret_cast<PyTypeObject*>(random.get()) || site.keyword_names || vm::current_machine() != &machine_) return std::nullopt;
  auto* type = reinterpret_cast<PyTypeObject*>(base.get());
  PyObject* descriptor = nullptr;
  for (const char* text : {"random", "getrandbits", "seed"}) {
    PyObject* found = _PyType_Lookup(type, Ref::steal(PyUnicode_InternFromString(text)).get());
    if (!found || Py_TYPE(found) != &PyMethodDescr_Type) continue;
    if (is_method(callable, found)) descriptor = found;
  }
  if (descriptor && self == shared_generator() && !resolve(self)) learn_external(self, guards_.constant(self));
  if (descriptor && !segment_->host_calls.empty()) return cut_unsettled(BreakId::k_changing_number, "a random number after output");
  SourceId source = descriptor && resolve(self) ? source_of(self) : kNoSource;
  if (source == kNoSource) return std::nullopt;
  const std::size_t first = !site.arguments.empty() && site.arguments[0] == self ? 1 : 0;
  std::vector<PyObject*> arguments{self};
  std::vector<HostId> ids{host_.generator(source)};
  for (std::size_t i = first; i < site.arguments.size(); i++) {
    PyObject* argument = site.arguments[i];
    if (is_late(argument) || !(is_operand(argument) || argument == Py_None)) return std::nullopt;
    arguments.push_back(argument);
    ids.push_back(host_of(argument));
  }
  Ref result = Ref::steal(PyObject_Vectorcall(descriptor, arguments.data(), arguments.size(), nullptr));
  if (!result) return Flow::kRaise;
  mutations_++;
  HostId id = host_.compute(HostKind::kCall, 0, std::move(ids), descriptor, result.get());
  for (int i = 0; i < site.slots; i++) Py_XDECREF(activation.pop());
  activation.push(result.release());
  activation.pc++;
  if (activation.peek(1) == Py_None) return Flow::kResume;
  volatile_.insert(id);
  adopt_host(activation.stack_pointer - 1, id);
  return Flow::kResume;
}

Flow Recorder::settle_leak(Flow flow) {
  leaked_ = false;
  if (flow == Flow::kRun && segment_) return cut_unsettled(BreakId::k_changing_number, "");
  // Done already, by what may have looked at the number.
  if (flow == Flow::kResume) poisoned_ = true;
  return flow;
}

bool Recorder::runs_after_clock(const Instruction& in) const {
  switch (in.opcode) {
    case Opcode::kBinaryOp:
    case Opcode::kCompareOp:
    case Opcode::kUnaryNegative:
    case Opcode::kUnaryInvert:
    case Opcode::kBinarySubscr:
    case Opcode::kCall:
    case Opcode::kCallFunctionEx: break;
    default: return false;
  }
  for (const Ref& operand : pending_.operands) {
    if (operand && guards::is_tensor(operand.get())) return true;
  }
  return false;
}

/// What was given out while recording gets the objects that CPython would have made: small integers are shared, and what was
/// read from outside is what lies there.
void Recorder::restore_originals() {
  if (originals_.empty()) return;
  PyObject* error = PyErr_GetRaisedException();
  auto original = [this](PyObject* object) {
    for (auto at = originals_.find(object); at != originals_.end(); at = originals_.find(object)) object = at->second.get();
    return object;
  };
  auto put = [&](PyObject** slot) {
    if (*slot == nullptr || !originals_.count(*slot)) return;
    Ref old = Ref::steal(std::exchange(*slot, Py_NewRef(original(*slot))));
  };
  auto put_in_dict = [&](PyObject* dict) {
    std::vector<PyObject*> keys;
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (PyDict_Next(dict, &at, &key, &value)) {
      if (originals_.count(value) && PyUnicode_CheckExact(key)) keys.push_back(key);
    }
    for (PyObject* name : keys) PyDict_SetItem(dict, name, original(PyDict_GetItem(dict, name)));
  };
  for (vm::Activation* activation = machine_.top; activation; activation = activation->caller) {
    for (PyObject** slot = activation->locals(); slot < activation->stack_pointer; slot++) put(slot);
    if (activation == base_) break;
  }
  for (const auto& [object, id] : recipe_memo_) {
    if (!is_fresh(object) && !is_open_size(object)) continue;
    if (PyList_CheckExact(object) || PyTuple_Check(object)) {
      for (Py_ssize_t i = 0; i < Py_SIZE(object); i++) put(PySequence_Fast_ITEMS(object) + i);
    } else if (PyDict_CheckExact(object)) {
      put_in_dict(object);
    } else if (PyCell_Check(object)) {
      put(&reinterpret_cast<PyCellObject*>(object)->ob_ref);
    } else if (PyObject* dict = guards::instance_dict(object)) {
      put_in_dict(dict);
    }
  }
  for (const PendingEffect& effect : effects_) {
    PyObject *target = effect.target.get(), *value = effect.value.get();
    if (value == nullptr || !originals_.count(value)) continue;
    if (effect.kind == EffectKind::kSetCell && PyCell_GET(target) == value) PyCell_Set(target, original(value));
    PyObject* dict = effect.kind == EffectKind::kSetAttribute ? guards::instance_dict(target) : effect.kind == EffectKind::kSetItem && PyDict_CheckExact(target) ? target : nullptr;
    if (dict && PyDict_GetItemWithError(dict, effect.key.get()) == value) PyDict_SetItem(dict, effect.key.get(), original(value));
    if (!PyList_CheckExact(target)) continue;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(target); i++) put(PySequence_Fast_ITEMS(target) + i);
  }
  PyErr_Clear();
  PyErr_SetRaisedException(error);
}

RecipeId Recorder::recipe_late(PyObject* object) {
  const Late& late = late_.at(object);
  std::vector<RecipeId> children;
  for (const Ref& argument : late.arguments) {
    children.push_back(recipe(argument.get()));
    if (children.back() == kNullRecipe) return kNullRecipe;
  }
  return segment_->recipes.add({RecipeKind::kCall, 0, late.callee, std::move(children), {}});
}

}  // namespace dynrun::trace
