#pragma once
// The guards of one segment, as a straight list of steps: each reads one source or checks one fact about a source read before.
// Running them runs no Python code and allocates nothing. Needs the GIL.
//
// Nothing here keeps a model alive: types and functions are held weakly or compared by content; what is held strongly are
// immutable constants, code objects and built-in functions. Addresses are compared only while their owner is known to live.

#include "guards/class_lookup.h"
#include "guards/source.h"
#include "graph/graph.h"
#include "python/frame.h"
#include "python/reference.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace dynrun::guards {

/// The frames at a segment's entry, outermost first: the roots of every path.
struct EntryFrame {
  python::Frame* frame = nullptr;
  PyObject** stack = nullptr;  // stack base
};

/// What is guarded about a tensor read from outside.
struct TensorFacts {
  c10::ScalarType dtype;
  c10::Device device = c10::kCPU;
  c10::DispatchKeySet keys;
  std::vector<std::int64_t> sizes, strides;
  bool requires_grad = false;
  bool inference = false;
  bool leaf = true;
  bool has_strides = true;
  std::uint64_t open = 0;           // bit a dimension: of any size from 2 on, or from 1 on
  bool ones = false;                // with `open`: from 1 on
  std::vector<std::int8_t> order;   // with `open`: dense, dimensions from the outermost in memory; empty: strides as they are

  static TensorFacts of(const at::Tensor& tensor);
  /// Leaves these dimensions open, as far as they are of 1 or more now. False when none is, or strides follow from sizes in no known way.
  bool open_sizes(std::uint64_t dimensions);
  /// Those that are open are of 2 or more; one of 1 now is so at all times.
  void close_ones();
  bool same_kind(const at::Tensor& tensor) const;  // all but sizes and strides
  bool holds(const at::Tensor& tensor) const;
  std::string describe() const;
};

enum class CheckKind : std::uint8_t {
  kRead,      // not a check: reads a source into its register
  kType,      // exact type, and the class attributes that were looked up on it
  kIs,        // the very object (held strongly: a singleton, a built-in function)
  kEquals,    // same exact type and value: int, float, str, bytes, bool, complex, dtype, device, ...
  kIsType,    // the very class, with the class attributes that were looked up on it
  kCode,      // a Python function that runs this code object
  kAbsent,    // the dict has no such key
  kLength,    // list, tuple, dict or set length
  kSetItems,  // the set's items, all constants
  kKeys,      // the dict's keys, in order
  kTensor,    // TensorFacts
  kSame,      // two sources, one object
  kNotSame,   // two sources, two objects
  kNull,      // the slot is empty (an unbound local, an empty cell)
  kPresent,         // the source is there
  kOutputStream,    // a stream whose writing runs no Python code: see output.h
  kPlainLogger,     // see output.h
  kToken,           // a context token by which the variable can be reset now
  kNoInstanceDict,  // the instance has no __dict__ entry of that name (key), or no dict at all
  kDistinct,        // each of the group's first objects is none of the group's others
};

struct Miss {
  std::string guard, was, now;
  std::int32_t line = -1;  // the number that was set then
  bool other_value = false;  // the same guard holds another int, float or str
};

class Armed;
class ShortForms;

/// "args[0].size(2)": a dimension of a tensor by its path.
std::string size_path(const std::string& tensor, std::size_t dimension);

class Program {
 public:
  /// Reads `parent`'s part; the same path is read once. `aux` serves kSuperAttribute (a borrowed type).
  SourceId read(SourceKind kind, SourceId parent, std::int32_t index, PyObject* key, PyObject* aux = nullptr);
  /// Makes an object that the segment keeps addressable as a source.
  SourceId constant(PyObject* object);

  void check_type(SourceId source, PyTypeObject* type);
  void check_is(SourceId source, PyObject* object);
  void check_equals(SourceId source, PyObject* value);
  void check_is_type(SourceId source, PyTypeObject* type);
  void check_code(SourceId source, PyObject* function);
  void check_absent(SourceId dict, PyObject* key);
  void check_no_instance_attribute(SourceId object, PyObject* key);
  void check_length(SourceId source, Py_ssize_t length);
  void check_keys(SourceId dict, PyObject* dict_object);
  void check_set(SourceId source, PyObject* set);
  /// The same, in the same order.
  void check_set_in_order(SourceId source, PyObject* set);
  /// `open`: bit a dimension that may have any size from 1 on; those that cannot be left open are fixed. Gives what is open.
  std::uint64_t check_tensor(SourceId source, const at::Tensor& tensor, std::uint64_t open = 0);
  /// What is open of the tensor there, bit a dimension.
  std::uint64_t open_of(SourceId tensor) const;
  /// Open sizes of all tensors are of 2 or more.
  void close_ones();
  void check_same(SourceId a, SourceId b, bool same);
  /// What lies at each of `written` is there, and lies at none of the other sources of both lists.
  void check_distinct(std::vector<SourceId> written, std::vector<SourceId> others);
  /// The source of that kind that was read of its parent, or kNoSource.
  SourceId known(SourceKind kind, SourceId parent) const;
  void check_null(SourceId source);
  void check_present(SourceId source) { add(CheckKind::kPresent, source); }
  void check_token(SourceId source, PyObject* variable) { add(CheckKind::kToken, source, variable); }
  void check_plain_logger(SourceId source) { add(CheckKind::kPlainLogger, source); }
  void check_output_stream(SourceId source) { add(CheckKind::kOutputStream, source); }
  /// A class attribute was looked up on `type` and gave `found` (borrowed; null: not there). Part of every check of that type.
  void note_type_lookup(PyTypeObject* type, PyObject* name, PyObject* found);

  /// C code looked up methods of `type` on its own: any change to the class fails the guards.
  void require_unchanged(PyTypeObject* type);
  /// C code is given an object of `type`, made here or found by it: the class keeps its special methods.
  void require_special_methods(PyTypeObject* type);

  /// Later steps bear this number, the caller's, of a source line.
  void set_line(std::int32_t line) { line_ = line; }

  std::size_t size() const { return steps_.size(); }
  SourceKind kind(SourceId source) const { return sources_[static_cast<std::size_t>(source)].kind; }
  /// Whether the path goes through an instance's attributes: a module's own tensor, say.
  bool is_of_instance(SourceId source) const;
  /// Where the path begins: a source whose parent is no source.
  struct Root {
    SourceKind kind;
    std::int32_t depth, slot;  // of a local
  };
  Root root_of(SourceId source) const;
  std::size_t source_count() const { return sources_.size(); }
  void truncate(std::size_t steps);
  /// Leaves out checks that have been made before. Once nothing more is added or truncated.
  void drop_repeated();

  /// Runs the guards. On success `registers[source]` holds each source's object, borrowed (null where checked to be so).
  bool run(const std::vector<EntryFrame>& frames, std::vector<PyObject*>& registers) const;
  /// After a failed run: what failed, in words.
  Miss explain_miss(const std::vector<EntryFrame>& frames) const;
  /// Dimensions in which tensors differ from those of the recording and in nothing else, as `size_path`s; of tensors that are no
  /// object's attribute also those that tend to vary with them. Of objects' attributes only where no object is of another class and no
  /// parameter has another size: such objects are other models.
  std::unordered_set<std::string> changed_sizes(const std::vector<EntryFrame>& frames) const;
  /// Numbers and texts that are others, where nothing but those and sizes is; none elsewhere.
  std::unordered_set<std::string> changed_values(const std::vector<EntryFrame>& frames) const;
  /// "args[0].layers[3].weight"
  std::string describe(SourceId source) const;
  std::string print() const;

  /// False once an object that the guards need has died: the segment can never match again.
  bool alive() const;

 private:
  friend class Armed;
  friend class ShortForms;
  struct Source {
    SourceKind kind;
    SourceId parent;
    std::int32_t index;
    python::Ref key;
    python::Ref aux;
  };
  struct Step {
    CheckKind kind;
    SourceId source;
    std::int32_t index = 0;       // length, other source, index of facts or of a type record
    std::int32_t line = -1;
    python::Ref object;
  };
  struct TypeRecord {
    PyTypeObject* type = nullptr;
    python::Ref weak;             // null for a static type
    mutable unsigned version = 0;
    bool strict = false;          // any change fails, not only to what was looked up
    bool held = false;            // checked through the class itself
    bool abstract = false;        // has methods that a subclass must give
    std::vector<python::Ref> bases;  // weak references to the rest of its MRO
    std::vector<ClassLookup> lookups;
    std::shared_ptr<const SpecialMethods> special;

    bool is_living() const { return !weak || PyWeakref_GET_OBJECT(weak.get()) != Py_None; }
  };

  void describe_appeared(const Step& step, PyObject* now, Miss& miss) const;
  std::int32_t type_record(PyTypeObject* type);
  bool type_holds(const TypeRecord& record, PyTypeObject* type) const;
  PyObject* load(const Source& source, const std::vector<EntryFrame>& frames, const std::vector<PyObject*>& registers) const;
  bool check(const Step& step, const std::vector<PyObject*>& registers) const;
  bool run_in_full(const std::vector<EntryFrame>& frames, std::vector<PyObject*>& registers) const;
  Step& add(CheckKind kind, SourceId source, PyObject* object = nullptr);

  std::vector<Source> sources_;
  std::vector<Step> steps_;
  std::vector<TypeRecord> types_;
  std::vector<TensorFacts> facts_;
  struct Group {
    std::vector<SourceId> written, others;
  };
  std::vector<Group> groups_;  // of kDistinct steps
  /// Where a source of a group lies, as an address that tells it from all others.
  const char* place_of(SourceId source, const std::vector<PyObject*>& registers) const;
  bool are_distinct(const Group& group, const std::vector<PyObject*>& registers) const;
  std::unordered_map<std::string, SourceId> paths_;
  std::unordered_map<PyTypeObject*, std::int32_t> type_index_;
  std::int32_t line_ = -1;
  mutable std::shared_ptr<ShortForms> short_forms_;
};

/// From now on the short form of guards is compared with the long one at each run; a difference ends the process.
void set_verify_guards(bool on);

/// True for values that are guarded by value and then count as constants: they cannot hold other objects or be mutated.
bool is_constant_like(PyObject* object);
bool is_enum_member(PyObject* object);
/// What `super(after, self).name` finds for a self of class `type`, unbound; borrowed, or null.
PyObject* attribute_behind(PyTypeObject* type, PyTypeObject* after, PyObject* name);
/// What a class of Python code is called, as kClassField says; borrowed, or null.
PyObject* class_field(PyTypeObject* type, int index);
/// Raw attribute table of an instance, or null; no Python code runs. Borrowed.
PyObject* instance_dict(PyObject* object);

}  // namespace dynrun::guards
