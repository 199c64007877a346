// Host values: numbers and texts that each replay computes anew.
//
// A live host value is an object of its own (a copy where CPython would share it), so that its identity tells where it came
// from, whatever stack slot, local or container it lies in. Whoever needs the number itself asks `is_constant`, which makes
// it a constant of the segment; so what does not know of host values is right, only less general.

#include "guards/torch_python.h"
#include "python/compat.h"
#include "python/numbers.h"
#include "python/text.h"
#include "trace/recorder.h"
#include "trace/shape_plans.h"

#include <cmath>
#include <string_view>
#include <unordered_set>

namespace dynrun::trace {

using bytecode::Instruction;
using bytecode::Opcode;
using guards::SourceId;
using python::is_number;
using python::Ref;

Ref unique_copy(PyObject* object) {
  if (PyFloat_CheckExact(object)) return Ref::steal(PyFloat_FromDouble(PyFloat_AS_DOUBLE(object)));
  if (PyLong_CheckExact(object)) return Ref::steal(dynrun_unique_int(object));
  if (PyUnicode_GET_LENGTH(object) == 0) return Ref();
  Ref copy = Ref::steal(PyUnicode_New(PyUnicode_GET_LENGTH(object), PyUnicode_MAX_CHAR_VALUE(object)));
  if (copy && PyUnicode_CopyCharacters(copy.get(), 0, object, 0, PyUnicode_GET_LENGTH(object)) < 0) PyErr_Clear();
  return copy;
}

bool Recorder::is_operand(PyObject* object) const { return is_number(object) || PyUnicode_CheckExact(object); }

HostId Recorder::host_of(PyObject* object) {
  auto at = hosts_.find(object);
  return at != hosts_.end() ? at->second.second : host_.constant(object);
}

/// Whether a loop that has begun, and may be over, gives the local that this is another number on each of its turns.
bool Recorder::is_counter(SourceId source) const {
  if (guards_.kind(source) != guards::SourceKind::kLocal || !limits_.varying) return false;
  const guards::Program::Root root = guards_.root_of(source);
  const auto& [code, pc] = segment_->entry.frames[static_cast<std::size_t>(root.depth)];
  return code->has_backward_jump && pc >= code->counted_from[static_cast<std::size_t>(root.slot)];
}

/// Numbers and texts that were another one before, or will be; and what lives across a break and is rarely the same twice: floats,
/// texts that were computed.
bool Recorder::wants_host(PyObject* object, SourceId source) {
  if (!is_operand(object) || source == guards::kNoSource) return false;
  if (PyFloat_CheckExact(object) && std::isnan(PyFloat_AS_DOUBLE(object))) return false;  // containers find it by identity: no copies
  if (limits_.varying && !limits_.varying->empty() && limits_.varying->count(guards_.describe(source))) return true;
  if (PyLong_CheckExact(object) && is_counter(source)) return true;
  bool after_break = segment_->entry.frames.back().second > 0;
  guards::SourceKind kind = guards_.kind(source);
  if (PyUnicode_CheckExact(object)) return after_break && kind == guards::SourceKind::kStack && !PyUnicode_CHECK_INTERNED(object);
  return after_break && PyFloat_CheckExact(object) && (kind == guards::SourceKind::kStack || kind == guards::SourceKind::kLocal);
}

HostId Recorder::read_host(PyObject* object, SourceId source) {
  guards_.check_type(source, Py_TYPE(object));
  return host_.read(source, object);
}

void Recorder::adopt_host(PyObject** slot, HostId id) {
  Ref unique = unique_copy(*slot);
  if (!unique) {
    host_.require_equal(id, *slot);
    return;
  }
  hosts_.insert_or_assign(unique.get(), std::pair(unique, id));
  originals_[unique.get()] = Ref::borrow(*slot);
  Ref old = Ref::steal(std::exchange(*slot, unique.release()));
}

void Recorder::specialise(PyObject* object) {
  auto at = hosts_.find(object);
  if (volatile_.count(at->second.second)) {
    leaked_ = true;
    return;
  }
  host_.require_equal(at->second.second, object);
  kept_hosts_.push_back(std::move(at->second.first));
  hosts_.erase(at);
}

void Recorder::specialise_all() {
  // Volatile ones never get to C code that is not seen: `settle_operands` keeps them from it.
  std::vector<PyObject*> settled;
  for (const auto& [object, known] : hosts_) {
    if (!volatile_.count(known.second)) settled.push_back(object);
  }
  for (PyObject* object : settled) specialise(object);
}

namespace {

/// Follows references from an object, as the garbage collector does.
struct Walk {
  std::size_t most = 20000;  // objects
  std::vector<PyObject*> waiting;
  std::unordered_set<PyObject*> seen;

  void add(PyObject* object) {
    if (object && seen.insert(object).second) waiting.push_back(object);
  }
  bool is_done() const { return waiting.empty() || seen.size() > most; }
  PyObject* next() {
    PyObject* object = waiting.back();
    waiting.pop_back();
    return object;
  }
  static int visit(PyObject* object, void* walk) {
    static_cast<Walk*>(walk)->add(object);
    return 0;
  }
  void follow(PyObject* object) {
    if (PyType_Check(object) || PyModule_Check(object) || PyCode_Check(object) || guards::is_tensor(object)) return;
    if (PyFunction_Check(object)) {
      // Its globals are named by Python code alone, which is recorded.
      auto* function = reinterpret_cast<PyFunctionObject*>(object);
      for (PyObject* part : {function->func_closure, function->func_defaults, function->func_kwdefaults, function->func_dict}) add(part);
    } else if (PyObject_IS_GC(object) && Py_TYPE(object)->tp_traverse) {
      Py_TYPE(object)->tp_traverse(object, &Walk::visit, this);
    }
  }
};

/// What a write leaves is found in its target alone.
bool lies_in_target(EffectKind kind) {
  return kind == EffectKind::kSetAttribute || kind == EffectKind::kSetItem || kind == EffectKind::kAppend || kind == EffectKind::kSetCell || kind == EffectKind::kAddToSet || kind == EffectKind::kDiscard ||
         kind == EffectKind::kDeleteItem || kind == EffectKind::kDeleteAttribute;
}

}  // namespace

/// Whether C code that gets these objects may come upon what the segment is to write outside of it.
bool Recorder::reaches_writes(const std::vector<Ref>& objects) const {
  std::unordered_set<PyObject*> written(dirty_.begin(), dirty_.end());
  for (const PendingEffect& effect : effects_) written.insert(effect.target.get());
  for (const auto& [container, keys] : written_keys_) written.insert(container);
  if (written.empty()) return false;
  Walk walk{4000, {}, {}};
  for (const Ref& object : objects) walk.add(object.get());
  while (!walk.is_done()) {
    PyObject* object = walk.next();
    if (written.count(object) || (PyModule_Check(object) && written.count(PyModule_GetDict(object)))) return true;
    if (PyType_Check(object)) walk.add(reinterpret_cast<PyTypeObject*>(object)->tp_mro);
    walk.follow(object);
  }
  return !walk.waiting.empty();
}

/// Visits what C code can get at from these objects and what the segment has made or written; `known` says that it is not to be
/// followed any further. False: there is too much of it.
bool Recorder::visit_reachable(const std::vector<Ref>& objects, const std::function<bool(PyObject*)>& known) {
  Walk walk;
  for (const Ref& object : objects) walk.add(object.get());
  // What is not of this recording holds no number of its own but those that it was given.
  const bool writes = reaches_writes(objects);
  for (const PendingEffect& effect : effects_) {
    if (writes || !lies_in_target(effect.kind)) walk.add(effect.value.get());
  }
  for (PyObject* list : dirty_) {
    if (writes) walk.follow(list);
  }
  while (!walk.is_done()) {
    PyObject* object = walk.next();
    if (!known(object) && (is_fresh(object) || source_of(object) == guards::kNoSource)) walk.follow(object);
  }
  return walk.waiting.empty();
}

void Recorder::specialise_reachable(const std::vector<Ref>& objects) {
  if (hosts_.empty() || objects.empty()) return;
  std::vector<PyObject*> met;
  const bool all = visit_reachable(objects, [&](PyObject* object) {
    auto known = hosts_.find(object);
    if (known != hosts_.end() && !volatile_.count(known->second.second)) met.push_back(object);
    return known != hosts_.end();
  });
  if (!all) return specialise_all();
  for (PyObject* object : met) specialise(object);
}

bool Recorder::settle_hidden(PyObject* object) {
  specialise_reachable({Ref::borrow(object)});
  if (!any_unsettled()) return true;
  bool met = false;
  const bool all = visit_reachable({Ref::borrow(object)}, [&](PyObject* part) {
    const bool unsettled = is_unsettled(part);
    met = met || unsettled;
    return unsettled;
  });
  return all && !met;
}

bool Recorder::passes_values_through(const Instruction& in, const Pending& pending) {
  switch (in.opcode) {
    case Opcode::kBinaryOp:
    case Opcode::kCompareOp:
    case Opcode::kUnaryNegative:
    case Opcode::kUnaryInvert:
    case Opcode::kLoadAttr:
    case Opcode::kStoreAttr:
    case Opcode::kStoreSubscr:
    case Opcode::kStoreSlice:
    case Opcode::kGetIter: return true;
    case Opcode::kForIter:
    case Opcode::kCall: return pending.passes_through;
    default: return false;
  }
}

/// Whether the instruction's C code hands on what Python code gives it, and does not look into it.
bool Recorder::hands_on(const Pending& pending) {
  return pending.activation && passes_values_through(pending.activation->code->instructions[static_cast<std::size_t>(pending.pc)], pending);
}

/// What the instruction loads becomes a host value when it lies on the stack; read on the way to something else, a constant.
void Recorder::settle_host_loads(Flow flow, const Instruction& in) {
  bool loads = in.opcode == Opcode::kLoadAttr || in.opcode == Opcode::kLoadGlobal || in.opcode == Opcode::kLoadName || in.opcode == Opcode::kLoadDeref || in.opcode == Opcode::kBinarySubscr;
  bool plain = flow == Flow::kRun && pending_.then == Then::kNothing && loaded_hosts_.size() == 1;
  if (loads && plain) {
    pending_.then = Then::kHostTop;
    pending_.count = loaded_hosts_[0].second;
    loaded_hosts_.clear();
  }
  require_loaded_hosts();
}

void Recorder::require_loaded_hosts() {
  for (const auto& [object, id] : loaded_hosts_) {
    if (segment_) host_.require_equal(id, object.get());
  }
  loaded_hosts_.clear();
}

Flow Recorder::compute_host(vm::Activation& activation, const Instruction& in, HostKind kind, std::int32_t index, std::vector<PyObject*> operands,
                            PyObject* callee, int slots) {
  HostStep step{kind, index, {}, Ref::borrow(callee)};
  Ref result = HostProgram::evaluate(step, operands);
  if (!result) {
    // It raises: the segment ends before it, and the numbers that make it so are required.
    PyErr_Clear();
    for (PyObject* operand : operands) is_constant(operand);
    return cut(BreakId::k_raise);
  }
  std::vector<HostId> ids;
  bool changing = false;
  for (PyObject* operand : operands) changing = changing || is_volatile(operand), ids.push_back(host_of(operand));
  HostId id = host_.compute(kind, index, std::move(ids), callee, result.get());
  Flow flow = prepare(activation, in, slots, Then::kHostTop);
  pending_.count = id;
  if (changing && is_operand(result.get())) volatile_.insert(id);
  if (!is_operand(result.get())) {
    host_.require_equal(id, result.get());
    pending_.then = Then::kLearnTop;
  }
  return flow;
}

Flow Recorder::host_comparison(vm::Activation&, int op, PyObject* left, PyObject* right) {
  int truth = PyObject_RichCompareBool(left, right, op);
  if (truth < 0) {
    PyErr_Clear();
    return cut(BreakId::k_raise);
  }
  // RichCompareBool takes one object for equal to itself; only a NaN is not.
  if (left == right && PyFloat_CheckExact(left) && PyFloat_AS_DOUBLE(left) != PyFloat_AS_DOUBLE(left)) {
    is_constant(left);
    return Flow::kRun;
  }
  host_.require_comparison(op, host_of(left), host_of(right), truth == 1);
  return Flow::kRun;
}

/// Pure C functions of numbers and texts that neither look at identity nor keep what they are given.
bool Recorder::is_number_function(PyObject* callable) const {
  static const std::unordered_set<std::string_view> builtin = {"abs", "min", "max", "round", "pow", "format", "chr"};
  if (callable == reinterpret_cast<PyObject*>(&PyLong_Type) || callable == reinterpret_cast<PyObject*>(&PyFloat_Type) ||
      callable == reinterpret_cast<PyObject*>(&PyUnicode_Type))
    return true;
  if (!PyCFunction_CheckExact(callable)) return false;
  PyObject* owner = PyCFunction_GET_SELF(callable);
  if (owner == nullptr || !PyModule_Check(owner)) return false;
  const char* module = PyModule_GetName(owner);
  if (module == nullptr) PyErr_Clear();
  std::string_view name = module ? module : "";
  return name == "math" || (name == "builtins" && builtin.count(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name));
}

bool Recorder::holds_hosts(PyObject* object) const {
  const bool hosts = records_sizes() && !hosts_.empty();
  if ((!hosts && late_.empty()) || is_late(object) || !(PyTuple_Check(object) || PyList_CheckExact(object))) return false;
  PyObject** items = PySequence_Fast_ITEMS(object);
  return std::all_of(items, items + Py_SIZE(object), [this](PyObject* item) { return is_number(item) && (!is_unsettled(item) || is_data_number(item)); }) &&
         std::any_of(items, items + Py_SIZE(object), [&](PyObject* item) { return hosts ? is_host(item) || is_late(item) : is_late(item); });
}

void Recorder::offer_hosts(const std::vector<PyObject*>& arguments, std::size_t first, PyObject* keyword_names, std::string_view callee) {
  std::size_t named = keyword_names ? static_cast<std::size_t>(PyTuple_GET_SIZE(keyword_names)) : 0;
  bool listed = false;
  for (std::size_t i = 0; i < arguments.size(); i++) {
    OperatorRecorder::HostArgument place;
    place.position = i + first;
    place.behind_list = listed;
    listed = listed || PyTuple_Check(arguments[i]) || PyList_Check(arguments[i]);
    if (i >= arguments.size() - named) place.name = python::text_of(PyTuple_GET_ITEM(keyword_names, static_cast<Py_ssize_t>(i - (arguments.size() - named))));
    if (is_host(arguments[i])) offer_host(arguments[i], place);
    if (is_late(arguments[i])) offer_data(arguments[i], place);
    offer_tensor(arguments[i], callee, place);
    if (!holds_hosts(arguments[i])) continue;
    for (Py_ssize_t item = 0; item < Py_SIZE(arguments[i]); item++) {
      place.item = static_cast<std::int32_t>(item);
      PyObject* number = PySequence_Fast_ITEMS(arguments[i])[item];
      if (is_host(number)) offer_host(number, place);
      if (is_late(number)) offer_data(number, place);
    }
  }
}

void Recorder::offer_host(PyObject* object, OperatorRecorder::HostArgument place) {
  int overflow = 0;
  long long value = PyLong_CheckExact(object) ? PyLong_AsLongLongAndOverflow(object, &overflow) : 0;
  if (!is_number(object) || overflow != 0) return specialise(object);
  place.value = PyLong_CheckExact(object) ? c10::Scalar(static_cast<std::int64_t>(value)) : c10::Scalar(PyFloat_AS_DOUBLE(object));
  place.host = host_of(object);
  if (sizes_vary() && ShapePlans::follows_from_sizes(host_, place.host)) operators_.note_size_number(place.host);
  pending_.offered.emplace_back(Ref::borrow(object), place.host);
  operators_.host_arguments.push_back(std::move(place));
}

/// A host value that was handed to torch, and is not where it was looked for, is required to stay what it is. Where C code
/// called Python code with it (a reflected operator), that code was recorded and used the very object.
void Recorder::settle_offered_hosts() {
  bool one_each = operators_.host_arguments.size() == pending_.offered.size();
  for (std::size_t i = 0; i < pending_.offered.size(); i++) {
    PyObject* object = pending_.offered[i].first.get();
    bool bound = one_each && operators_.host_arguments[i].bound;
    const bool taken_back = operators_.refusal() != Refusal::kNone;  // the segment ends in front of the call
    if (guards::is_tensor(object) && pending_.offered[i].second != kNoHost) {
      if (!bound && !taken_back && segment_ && !require_content(object)) leaked_ = true;
      continue;
    }
    if (is_late(object) || guards::is_tensor(object)) {
      const bool given = is_late(object) || !one_each || operators_.host_arguments[i].data != graph::kNoValue;
      leaked_ = leaked_ || (given && !bound && !taken_back);
      continue;
    }
    if (!bound && !taken_back && !pending_.calls_python && is_host(object) && segment_) specialise(object);
  }
  if (operators_.refusal() == Refusal::kNone && !operators_.took_answers()) leaked_ = true;
  pending_.offered.clear();
  operators_.host_arguments.clear();
}

}  // namespace dynrun::trace
