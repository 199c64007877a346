#include "guards/armed.h"

#include "guards/torch_python.h"
#include "python/weak_references.h"

#include <algorithm>
#include <unordered_set>

namespace dynrun::guards {

using python::Ref;

namespace {

constexpr std::uint32_t kHeldBefore = 2;    // runs of the long form before it is worth it
constexpr std::uint8_t kMaxChanges = 3;     // then a source or a step is loose
constexpr std::uint32_t kMaxArms = 40;      // beyond, arming must pay: at least kRunsPerArm runs each
constexpr std::uint32_t kRunsPerArm = 8;
constexpr std::size_t kMaxRestless = 1000;
constexpr std::size_t kAhead = 8;           // what is asked so much later is on its way into the cache

std::size_t at(SourceId id) { return static_cast<std::size_t>(id); }

/// Whether an object of this class may become one of another class.
bool may_change_class(PyTypeObject* type) { return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) || PyType_IsSubtype(type, &PyModule_Type); }

bool is_list_like(PyObject* object) { return PyList_Check(object) || PyAnySet_Check(object); }

}  // namespace

bool Armed::is_restless(const void* object) const {
  auto changes = restless_.find(object);
  return changes != restless_.end() && changes->second >= kMaxChanges;
}

/// The class of an instance, and its dict where `with_dict`.
bool Armed::pin_instance(PyObject* object, bool with_dict) {
  if (is_restless(object)) return false;
  PyTypeObject* type = Py_TYPE(object);
  if (!with_dict && !may_change_class(type)) return true;
  const auto [known, fresh] = instances_.try_emplace(object, steps_.size());
  if (fresh) steps_.push_back({Kind::kInstance, 0, object, type});
  Step& step = steps_[known->second];
  if (!with_dict || step.fourth != nullptr) return true;
  PyObject** slot = _PyObject_GetDictPtr(object);
  PyErr_Clear();
  if (slot != nullptr) step.third = *slot, step.fourth = slot;
  return true;
}

bool Armed::pin_function(PyObject* object) {
  // CPython takes the version away when the code or the defaults are set, and never gives it a second time. Addresses would not do:
  // nothing holds the defaults, and others may come to lie where they lay.
  const std::uint32_t version = reinterpret_cast<PyFunctionObject*>(object)->func_version;
  if (version == 0 || is_restless(object)) return false;
  std::uint8_t& kinds = pinned_[object];
  if (kinds & 2) return true;
  kinds |= 2;
  steps_.push_back({Kind::kFunction, static_cast<std::int32_t>(version), object});
  return true;
}

bool Armed::pin_type(PyTypeObject* type) {
  if (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) return true;
  if (is_restless(type)) return false;
  std::uint8_t& kinds = pinned_[type];
  if (kinds & 4) return true;
  PyUnstable_Type_AssignVersionTag(type);
  if (type->tp_version_tag == 0) return false;
  kinds |= 4;
  steps_.push_back({Kind::kType, static_cast<std::int32_t>(type->tp_version_tag), type});
  return true;
}

bool Armed::pin_tensor(PyObject* object, std::size_t name) {
  const std::optional<TensorImage> image = TensorImage::of(object);
  if (!image) return false;
  tensors_.push_back(*image);
  tensor_names_.push_back(name);
  return true;
}

/// True always: what is loose has a step of its own.
bool Armed::pin_distinct(const Program& program, const Program::Group& group) {
  Group known;
  auto sort_out = [&](const std::vector<SourceId>& sources, std::vector<const char*>& places, std::vector<SourceId>& loose) {
    for (SourceId source : sources) {
      if (is_known(source)) places.push_back(program.place_of(source, snapshot_));
      else loose.push_back(source);
    }
    std::sort(places.begin(), places.end());
  };
  sort_out(group.written, known.written, known.loose_written);
  sort_out(group.others, known.others, known.loose_others);
  if (known.loose_written.empty() && known.loose_others.empty()) return true;
  steps_.push_back({Kind::kDistinct, static_cast<std::int32_t>(groups_.size())});
  groups_.push_back(std::move(known));
  return true;
}

bool Armed::are_distinct(const Program& program, const Group& group, const std::vector<PyObject*>& registers) const {
  auto is_in = [](const std::vector<const char*>& places, const char* place) { return std::binary_search(places.begin(), places.end(), place); };
  for (std::size_t i = 0; i < group.loose_written.size(); i++) {
    const char* place = program.place_of(group.loose_written[i], registers);
    if (place == nullptr || is_in(group.written, place) || is_in(group.others, place)) return false;
    auto is_here = [&](SourceId source) { return program.place_of(source, registers) == place; };
    if (std::any_of(group.loose_written.begin() + static_cast<std::ptrdiff_t>(i) + 1, group.loose_written.end(), is_here)) return false;
    if (std::any_of(group.loose_others.begin(), group.loose_others.end(), is_here)) return false;
  }
  return std::none_of(group.loose_others.begin(), group.loose_others.end(), [&](SourceId source) { return is_in(group.written, program.place_of(source, registers)); });
}

/// A source that is read again: the step that says whether it gives the very object of before, if that holds anything.
Armed::Trust Armed::anchor(SourceId source) {
  steps_.push_back({Kind::kRead, source});
  PyObject* object = snapshot_[at(source)];
  if (object == nullptr || !has_dependents_[at(source)] || changes_[at(source)] >= kMaxChanges) return Trust::kLoose;
  if (is_tensor(object) || is_constant_like(object)) return Trust::kLoose;
  PyObject* weak = nullptr;
  if (PyDict_CheckExact(object)) {
    if (!dicts_.watch_life(object, source)) return Trust::kLoose;
  } else {
    if (!python::clears_weak_references(object)) return Trust::kLoose;
    weak_.push_back(Ref::steal(PyWeakref_NewRef(object, nullptr)));
    weak = weak_.back().get();
    if (weak == nullptr) {
      PyErr_Clear();
      return Trust::kLoose;
    }
  }
  steps_.push_back({Kind::kAnchor, source, object, weak});
  return Trust::kAnchored;
}

Armed::Trust Armed::place(const Program& program, SourceId id) {
  const Program::Source& source = program.sources_[at(id)];
  switch (source.kind) {
    case SourceKind::kModules:
    case SourceKind::kConstant: return Trust::kPinned;
    case SourceKind::kLocal:
    case SourceKind::kStack:
    case SourceKind::kFrameFunction: return anchor(id);
    default: break;
  }
  if (!is_known(source.parent)) return anchor(id);
  PyObject* parent = snapshot_[at(source.parent)];
  if (parent == nullptr) return Trust::kPinned;  // nothing is nothing
  if (changes_[at(id)] >= kMaxChanges) return anchor(id);
  bool pinned = false;
  switch (source.kind) {
    case SourceKind::kInstanceDict: pinned = pin_instance(parent, true); break;
    case SourceKind::kTypeOf: pinned = pin_instance(parent, false); break;
    case SourceKind::kModuleDict:
    case SourceKind::kFunctionClosure:
    case SourceKind::kFunctionGlobals:
    case SourceKind::kFunctionBuiltins:
    case SourceKind::kMethodFunction:
    case SourceKind::kMethodSelf: pinned = true; break;
    case SourceKind::kDictItem: pinned = PyDict_Check(parent) && dicts_.watch_key(parent, source.key.get(), id); break;
    case SourceKind::kSequenceItem: pinned = PyTuple_Check(parent); break;
    case SourceKind::kFunctionDefaults:
    case SourceKind::kFunctionKeywordDefaults: pinned = !PyFunction_Check(parent) || pin_function(parent); break;
    case SourceKind::kTypeAttribute:
    case SourceKind::kSuperAttribute: pinned = !PyType_Check(parent) || pin_type(reinterpret_cast<PyTypeObject*>(parent)); break;
    default: break;
  }
  return pinned ? Trust::kPinned : anchor(id);
}

void Armed::pin_check(const Program& program, std::size_t index) {
  const Program::Step& step = program.steps_[index];
  std::size_t name = program.sources_.size() + index;
  bool known = is_known(step.source), pinned = false;
  PyObject* object = snapshot_[at(step.source)];
  auto dict = [&](PyObject* candidate, auto watch) { return candidate && PyDict_Check(candidate) && watch(candidate); };
  auto key_in = [&](PyObject* candidate) {
    return dict(candidate, [&](PyObject* d) { return dicts_.watch_key(d, step.object.get(), static_cast<std::int32_t>(name)); });
  };
  auto keys_of = [&](PyObject* candidate) {
    return dict(candidate, [&](PyObject* d) { return dicts_.watch_keys(d, static_cast<std::int32_t>(name)); });
  };
  if (known && changes_[name] < kMaxChanges) {
    switch (step.kind) {
      case CheckKind::kNull:
      case CheckKind::kIs:
      case CheckKind::kEquals: pinned = true; break;
      case CheckKind::kType: pinned = object && pin_instance(object, false) && pin_type(Py_TYPE(object)); break;
      case CheckKind::kTensor: pinned = object && trust_[at(step.source)] == Trust::kPinned && pin_tensor(object, name); break;
      case CheckKind::kIsType: pinned = object && pin_type(reinterpret_cast<PyTypeObject*>(object)); break;
      case CheckKind::kCode: pinned = object && pin_function(object); break;
      case CheckKind::kAbsent: pinned = object == nullptr || key_in(object); break;
      case CheckKind::kNoInstanceDict: {
        PyObject* attributes = object ? instance_dict(object) : nullptr;
        pinned = object && pin_instance(object, true) && (attributes == nullptr || key_in(attributes));
        break;
      }
      case CheckKind::kLength: pinned = object && (PyTuple_Check(object) || (!is_list_like(object) && keys_of(object))); break;
      case CheckKind::kKeys: pinned = object && !PyODict_Check(object) && keys_of(object); break;
      case CheckKind::kSame:
      case CheckKind::kNotSame: pinned = is_known(step.index); break;
      default: break;
    }
  }
  if (step.kind == CheckKind::kDistinct) pinned = pin_distinct(program, program.groups_[at(step.index)]);
  if (!pinned) steps_.push_back({Kind::kCheck, static_cast<std::int32_t>(index)});
}

/// Steps for the class of a tensor whose image says it too.
void Armed::drop_doubles() {
  std::unordered_set<const void*> imaged;
  for (const TensorImage& image : tensors_) imaged.insert(image.object());
  std::erase_if(steps_, [&](const Step& step) { return step.kind == Kind::kInstance && !step.fourth && imaged.contains(step.object); });
}

void Armed::disarm() {
  armed_ = false;
  steps_.clear();
  groups_.clear();
  tensors_.clear();
  tensor_names_.clear();
  pinned_.clear();
  instances_.clear();
  weak_.clear();
  dicts_.clear();
}

void Armed::arm(const Program& program, const std::vector<PyObject*>& registers) {
  std::size_t sources = program.sources_.size();
  if (changes_.empty()) {
    changes_.assign(sources + program.steps_.size(), 0);
    has_dependents_.assign(sources, false);
    for (std::size_t i = 0; i < sources; i++) {
      const Program::Source& source = program.sources_[i];
      bool root = source.kind == SourceKind::kLocal || source.kind == SourceKind::kStack || source.kind == SourceKind::kFrameFunction;
      if (!root && source.parent != kNoSource) has_dependents_[at(source.parent)] = true;
    }
  }
  snapshot_ = registers;
  trust_.assign(sources, Trust::kLoose);
  for (std::size_t i = 0; i < program.steps_.size(); i++) {
    const Program::Step& step = program.steps_[i];
    if (step.kind == CheckKind::kRead) trust_[at(step.source)] = place(program, step.source);
    else pin_check(program, i);
  }
  drop_doubles();
  arms_++;
  armed_ = true;
}

void Armed::note_change(std::size_t name) {
  if (name < changes_.size() && changes_[name] < kMaxChanges) changes_[name]++;
}

void Armed::held(const Program& program, const std::vector<PyObject*>& registers) {
  if (given_up_ || ++held_ < kHeldBefore) return;
  for (std::int32_t name : dicts_.fired()) note_change(static_cast<std::size_t>(name));
  disarm();
  if (arms_ >= kMaxArms && runs_ / kRunsPerArm < arms_) {
    given_up_ = true;
    return;
  }
  arm(program, registers);
}

bool Armed::holds(const Step& step) const {
  switch (step.kind) {
    case Kind::kInstance: {
      auto* object = static_cast<PyObject*>(step.object);
      return Py_TYPE(object) == step.other && (step.fourth == nullptr || *static_cast<PyObject**>(step.fourth) == step.third);
    }
    case Kind::kFunction: return static_cast<PyFunctionObject*>(step.object)->func_version == static_cast<std::uint32_t>(step.index);
    case Kind::kType: return static_cast<PyTypeObject*>(step.object)->tp_version_tag == static_cast<unsigned>(step.index);
    default: return true;
  }
}

bool Armed::tensors_hold() {
  for (std::size_t i = 0; i < tensors_.size(); i++) {
    if (i + kAhead < tensors_.size()) tensors_[i + kAhead].prefetch();
    if (tensors_[i].still()) continue;
    note_change(tensor_names_[i]);
    return false;
  }
  return true;
}

Armed::Answer Armed::run_steps(const Program& program, const std::vector<EntryFrame>& frames, std::vector<PyObject*>& registers) {
  for (std::size_t i = 0; i < steps_.size(); i++) {
    if (i + kAhead < steps_.size()) __builtin_prefetch(steps_[i + kAhead].object);
    const Step& step = steps_[i];
    switch (step.kind) {
      case Kind::kRead: registers[at(step.index)] = program.load(program.sources_[at(step.index)], frames, registers); break;
      case Kind::kAnchor: {
        auto* weak = static_cast<PyObject*>(step.other);
        if (registers[at(step.index)] == step.object && (weak == nullptr || PyWeakref_GET_OBJECT(weak) == step.object)) break;
        note_change(at(step.index));
        return Answer::kUnknown;
      }
      case Kind::kCheck:
        if (!program.check(program.steps_[at(step.index)], registers)) return Answer::kMisses;
        break;
      case Kind::kDistinct:
        if (!are_distinct(program, groups_[at(step.index)], registers)) return Answer::kMisses;
        break;
      default:
        if (holds(step)) break;
        if (restless_.size() < kMaxRestless) restless_[step.object]++;
        return Answer::kUnknown;
    }
  }
  return Answer::kHolds;
}

Armed::Answer Armed::run(const Program& program, const std::vector<EntryFrame>& frames, std::vector<PyObject*>& registers) {
  if (!armed_ || !dicts_.quiet()) return Answer::kUnknown;
  runs_++;
  registers = snapshot_;
  const Answer answer = run_steps(program, frames, registers);
  return answer == Answer::kHolds && !tensors_hold() ? Answer::kUnknown : answer;
}

}  // namespace dynrun::guards
