#pragma once
// The short form of a guard program whose long form has held: what is left to ask while the world stays as it was.
//
// A source is *pinned* when its object cannot have become another one without notice: it hangs on pinned objects by links that
// cannot change (a tuple's items, a function's globals), that a dict watcher looks after, or that one comparison here checks (an
// instance's class and dict, the version of a function or a class). Where a path starts, or passes a list, a cell
// or a slot, the object is read again; it is *anchored*, and so holds further pinned ones, when it is the very object of before, not
// another one at its address: a weak reference (for a dict: its watcher) says so. All else is *loose*: read and checked as in the
// long form. What changes again and again becomes loose. Needs the GIL; runs no Python code.

#include "guards/program.h"
#include "guards/tensor_image.h"
#include "guards/watch.h"

namespace dynrun::guards {

class Armed {
 public:
  enum class Answer : std::uint8_t {
    kHolds,
    kMisses,   // a check of the long form fails
    kUnknown,  // something that was taken for granted has changed: ask the long form
  };

  /// Cheap; `registers` is filled when it holds.
  Answer run(const Program& program, const std::vector<EntryFrame>& frames, std::vector<PyObject*>& registers);
  /// The long form has just held with these registers.
  void held(const Program& program, const std::vector<PyObject*>& registers);

 private:
  enum class Trust : std::uint8_t { kLoose, kAnchored, kPinned };
  enum class Kind : std::uint8_t {
    kRead,      // source
    kAnchor,    // source still gives `object`, which `other` (a weak reference; null for a dict) says is alive
    kInstance,  // `object` has the class `other`, and `third` in its dict slot `fourth` (null: it has none)
    kFunction,  // `object` has the version `index`: its code and defaults are what they were
    kType,      // the class `object` has the version tag `index`
    kCheck,     // step `index` of the program
    kDistinct,  // the group `index` of this
  };
  struct Step {
    Kind kind;
    std::int32_t index = 0;  // source, step or version
    void *object = nullptr, *other = nullptr, *third = nullptr, *fourth = nullptr;
  };

  /// What is left to ask of places that are to be distinct, when most are known and have been found so.
  struct Group {
    std::vector<const char*> written, others;  // known, sorted
    std::vector<SourceId> loose_written, loose_others;
  };

  void arm(const Program& program, const std::vector<PyObject*>& registers);
  void drop_doubles();
  void disarm();
  Trust place(const Program& program, SourceId source);
  Trust anchor(SourceId source);
  void pin_check(const Program& program, std::size_t step);
  bool pin_instance(PyObject* object, bool with_dict);
  bool is_restless(const void* object) const;
  bool pin_function(PyObject* object);
  bool pin_type(PyTypeObject* type);
  bool pin_tensor(PyObject* object, std::size_t name);
  bool pin_distinct(const Program& program, const Program::Group& group);
  bool are_distinct(const Program& program, const Group& group, const std::vector<PyObject*>& registers) const;
  Answer run_steps(const Program& program, const std::vector<EntryFrame>& frames, std::vector<PyObject*>& registers);
  bool tensors_hold();
  bool holds(const Step& step) const;
  bool is_known(SourceId source) const { return trust_[static_cast<std::size_t>(source)] != Trust::kLoose; }
  void note_change(std::size_t name);

  bool armed_ = false, given_up_ = false;
  std::uint32_t held_ = 0, arms_ = 0, runs_ = 0;
  std::vector<PyObject*> snapshot_;          // borrowed, valid while armed
  std::vector<Trust> trust_;                 // by source
  std::vector<Step> steps_;
  std::vector<Group> groups_;                // of kDistinct
  std::vector<TensorImage> tensors_;         // of pinned sources; asked last, when these are known to be what they were
  std::vector<std::size_t> tensor_names_;    // their checks, as in `changes_`
  std::vector<std::uint8_t> changes_;        // how often, by source and then by step of the program
  std::vector<bool> has_dependents_;         // by source
  std::unordered_map<const void*, std::uint8_t> pinned_;      // functions and classes with a step of their own: bit a kind
  std::unordered_map<const void*, std::size_t> instances_;    // objects with a kInstance step: which
  std::unordered_map<const void*, std::uint8_t> restless_;    // what a step of its own found changed, how often; addresses only
  std::vector<python::Ref> weak_;
  DictWatch dicts_;
};

}  // namespace dynrun::guards
