#pragma once
// Tells guard programs when a dict (a subclass's too, which changes by what changes dicts) that they have read changes: CPython's
// dict watchers, shared out by (dict, key). A write to a
// key that nobody reads costs one look-up and disturbs nobody. Needs the GIL.

#include "python/reference.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace dynrun::guards {

/// One reader of dicts. What it watches is named by numbers of the reader's own. It never touches a watched dict: a dict that has
/// died is gone from the books by itself.
class DictWatch {
 public:
  DictWatch() = default;
  ~DictWatch() { clear(); }
  DictWatch(const DictWatch&) = delete;
  DictWatch& operator=(const DictWatch&) = delete;

  /// The value under `key`, whether it is there or not. False where the dict cannot be watched.
  bool watch_key(PyObject* dict, PyObject* key, std::int32_t name);
  /// Which keys there are, and their order (that of an ordered dict is its own, and not watched).
  bool watch_keys(PyObject* dict, std::int32_t name);
  /// Only that the dict lives and is not emptied as a whole.
  bool watch_life(PyObject* dict, std::int32_t name);
  /// Forgets everything, `fired` too.
  void clear();

  /// Names of what has changed since the last `clear`.
  const std::vector<std::int32_t>& fired() const { return fired_; }
  bool quiet() const { return fired_.empty(); }

 private:
  friend struct Books;
  std::vector<std::pair<PyObject*, PyObject*>> watched_;  // dict (maybe dead), key (null for other kinds of watch; held by the books)
  std::vector<std::int32_t> fired_;
};

}  // namespace dynrun::guards
