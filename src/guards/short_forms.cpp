#include "guards/short_forms.h"

#include "guards/torch_python.h"
#include "python/weak_references.h"

#include <algorithm>
#include <unordered_set>

namespace dynrun::guards {

using python::Ref;

namespace {

constexpr std::size_t kMostForms = 64;    // beyond, what tells so many apart is left out
constexpr std::uint32_t kFewRuns = 8;     // of objects that come and go: a form of their own would not pay
constexpr std::uint8_t kMostPassing = 3;  // such objects, before their root is left out

std::size_t at(SourceId id) { return static_cast<std::size_t>(id); }

bool can_tell(PyObject* object) {
  return object != nullptr && python::clears_weak_references(object) && !is_tensor(object) && !is_constant_like(object);
}

}  // namespace

bool ShortForms::Form::is_dead(std::size_t root) const { return weak[root] && PyWeakref_GET_OBJECT(weak[root].get()) != roots[root]; }

bool ShortForms::Form::starts_at(const std::vector<PyObject*>& objects) const {
  if (roots != objects) return false;
  for (std::size_t i = 0; i < roots.size(); ++i) {
    if (is_dead(i)) return false;  // another object at its address
  }
  return true;
}

/// Places where paths start that go further than to a value.
void ShortForms::find_roots(const Program& program, const std::vector<PyObject*>& registers) {
  std::vector<bool> goes_on(program.sources_.size(), false);
  for (const Program::Source& source : program.sources_) {
    const bool starts = source.kind == SourceKind::kLocal || source.kind == SourceKind::kStack || source.kind == SourceKind::kFrameFunction;
    if (!starts && source.parent != kNoSource) goes_on[at(source.parent)] = true;
  }
  for (std::size_t i = 0; i < program.sources_.size(); ++i) {
    const SourceKind kind = program.sources_[i].kind;
    const bool starts = kind == SourceKind::kLocal || kind == SourceKind::kStack || kind == SourceKind::kFrameFunction;
    if (starts && goes_on[i] && can_tell(registers[i])) roots_.push_back(static_cast<SourceId>(i));
  }
  passing_.assign(roots_.size(), 0);
  known_ = true;
}

/// Looks at the one of last time first, then at those behind it: in turns, the next one.
ShortForms::Form* ShortForms::find(const std::vector<PyObject*>& objects) {
  for (std::size_t i = 0; i < forms_.size(); ++i) {
    const std::size_t place = (last_ + i) % forms_.size();
    if (!forms_[place]->starts_at(objects)) continue;
    last_ = place;
    return forms_[place].get();
  }
  return nullptr;
}

/// Forms whose objects are gone. What hardly served counts against its place.
void ShortForms::drop_dead() {
  std::erase_if(forms_, [&](const std::unique_ptr<Form>& form) {
    bool dead = false;
    for (std::size_t i = 0; i < roots_.size(); ++i) {
      if (!form->is_dead(i)) continue;
      dead = true;
      if (form->runs < kFewRuns && passing_[i] < kMostPassing) ++passing_[i];
    }
    return dead;
  });
}

/// Whether the objects at this place are so many that they leave no room for others.
bool ShortForms::is_crowded(std::size_t root) const {
  if (forms_.size() < kMostForms) return false;
  std::unordered_set<const void*> objects;
  for (const std::unique_ptr<Form>& form : forms_) objects.insert(form->roots[root]);
  return objects.size() > kMostForms / 2;
}

/// Leaves out the places where objects come and go, and where there are too many.
void ShortForms::leave_out() {
  std::vector<SourceId> staying;
  for (std::size_t i = 0; i < roots_.size(); ++i) {
    if (passing_[i] < kMostPassing && !is_crowded(i)) staying.push_back(roots_[i]);
  }
  if (staying.size() == roots_.size() && forms_.size() >= kMostForms) staying.clear();
  if (staying.size() == roots_.size()) return;
  roots_ = std::move(staying);
  passing_.assign(roots_.size(), 0);
  forms_.clear();
}

ShortForms::Form* ShortForms::add(const std::vector<PyObject*>& objects) {
  auto form = std::make_unique<Form>();
  form->roots = objects;
  for (PyObject* object : objects) {
    form->weak.push_back(can_tell(object) ? Ref::steal(PyWeakref_NewRef(object, nullptr)) : Ref());
    PyErr_Clear();
  }
  forms_.push_back(std::move(form));
  return forms_.back().get();
}

Armed::Answer ShortForms::run(const Program& program, const std::vector<EntryFrame>& frames, std::vector<PyObject*>& registers) {
  if (forms_.empty()) return Armed::Answer::kUnknown;
  now_.clear();
  for (SourceId root : roots_) now_.push_back(program.load(program.sources_[at(root)], frames, registers));
  Form* form = find(now_);
  if (form == nullptr) return Armed::Answer::kUnknown;
  ++form->runs;
  return form->armed.run(program, frames, registers);
}

void ShortForms::held(const Program& program, const std::vector<PyObject*>& registers) {
  if (!known_) find_roots(program, registers);
  auto look = [&] {
    now_.clear();
    for (SourceId root : roots_) now_.push_back(registers[at(root)]);
  };
  look();
  Form* form = find(now_);
  if (form == nullptr) {
    drop_dead();
    leave_out();
    look();
    form = find(now_);
    if (form == nullptr) form = add(now_);
  }
  form->armed.held(program, registers);
}

}  // namespace dynrun::guards
