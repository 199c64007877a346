#pragma once
// The short forms of one guard program, one for each set of objects that its paths start at: a segment that serves several instances
// of a class in turns (an ensemble, the layers of a model) takes for granted, of each, what it has seen of each.
//
// What tells them apart is the objects in the locals, stack slots and functions that paths start at, if these can be weakly
// referenced. Where ever new ones come and go (a cache made for each call), the place tells nothing and is left out. Needs the GIL.

#include "guards/armed.h"

#include <memory>

namespace dynrun::guards {

class ShortForms {
 public:
  /// As Armed's.
  Armed::Answer run(const Program& program, const std::vector<EntryFrame>& frames, std::vector<PyObject*>& registers);
  /// The long form has just held with these registers.
  void held(const Program& program, const std::vector<PyObject*>& registers);

 private:
  struct Form {
    std::vector<PyObject*> roots;   // as `roots_`; addresses only
    std::vector<python::Ref> weak;  // references to them
    std::uint32_t runs = 0;
    Armed armed;

    bool starts_at(const std::vector<PyObject*>& objects) const;
    bool is_dead(std::size_t root) const;
  };

  void find_roots(const Program& program, const std::vector<PyObject*>& registers);
  Form* find(const std::vector<PyObject*>& objects);
  Form* add(const std::vector<PyObject*>& objects);
  void drop_dead();
  bool is_crowded(std::size_t root) const;
  void leave_out();

  std::vector<SourceId> roots_;         // the sources that tell forms apart
  std::vector<std::uint8_t> passing_;   // by root: how many objects have gone again that hardly served
  std::vector<PyObject*> now_;          // the roots' objects in the run at hand
  std::vector<std::unique_ptr<Form>> forms_;
  std::size_t last_ = 0;
  bool known_ = false;                  // roots have been found
};

}  // namespace dynrun::guards
