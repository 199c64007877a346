#pragma once
// How a replay rebuilds live Python values: from graph outputs, external reads, constants, and containers of these.
// Shared and cyclic structure is kept: a value that appears twice is one recipe.

#include "guards/source.h"
#include "python/reference.h"

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace dynrun::trace {

using RecipeId = std::int32_t;
constexpr RecipeId kNullRecipe = -1;  // an empty slot
constexpr RecipeId kKeepRecipe = -2;  // a slot of an entry frame that keeps what it holds

enum class RecipeKind : std::uint8_t {
  kConstant,         // object
  kSource,           // index: a source of the guards
  kOutput,           // index: an output of the graph
  kHost,             // index: a value of the host program
  kTuple,            // children; object: the class when it is a subclass of tuple
  kStructSequence,   // children; object: the class (torch.return_types)
  kList,             // children
  kSet,              // children
  kFrozenSet,        // children
  kDict,             // children: key, value, key, value, ...; object: set for an OrderedDict
  kInstance,         // object: the class; children: a dict recipe for attributes, a dict recipe for its own items (or null),
                     // then one child for each slot, with the member descriptors in `names`
  kMethod,           // children: function, self
  kBuiltinMethod,    // children: self; object: the name
  kCell,             // children: contents (or null)
  kFunction,         // object: code; children: globals, defaults, keyword defaults, closure, annotations, module, text, attributes; names: name, qualified name
  kIterator,         // children: the container; object: the state for __setstate__ (or null)
  kDictIterator,     // children: the dict; object: dict.keys, values or items; index: how many it has given
  kSlice,            // children: start, stop, step
  kCall,             // object: what is called; children: its arguments
  kClass,            // object: __build_class__; children: its arguments
  kGenerator,        // children: function, then locals and stack; index: the code unit it stands at, negative when its frame is
                     // filled by whoever enters it; object: whether it has begun
  kException,        // object: the class; children: its arguments, dict, cause and context (or null); index: __suppress_context__
  kContextToken,     // children: context variable, value: sets the variable and gives the token
};

/// The class of C code that a class written in Python is built on. Null: something in between has fields of C code.
PyTypeObject* builtin_base(PyTypeObject* type);

struct RecipeNode {
  RecipeKind kind;
  std::int32_t index = 0;
  python::Ref object;
  std::vector<RecipeId> children;
  std::vector<python::Ref> names;
};

struct RecipeBook {
  std::vector<RecipeNode> nodes;
  RecipeId add(RecipeNode node) {
    nodes.push_back(std::move(node));
    return static_cast<RecipeId>(nodes.size() - 1);
  }
};

/// The values of one replay. Needs the GIL.
class Kitchen {
 public:
  /// `sources` by source id, `hosts` by host value, `outputs` by graph output; all must outlive the kitchen.
  Kitchen(const RecipeBook& book, const std::vector<PyObject*>& sources, const std::vector<python::Ref>& hosts,
          const std::vector<at::Tensor>& outputs)
      : book_(book), sources_(sources), hosts_(hosts), outputs_(outputs), values_(book.nodes.size()) {}
  /// Borrowed; null with a Python error set.
  PyObject* make(RecipeId id);

 private:
  PyObject* make_new(const RecipeNode& node, python::Ref& slot);
  PyObject* make_instance(const RecipeNode& node, python::Ref& slot);
  PyObject* make_function(const RecipeNode& node, python::Ref& slot);
  PyObject* make_exception(const RecipeNode& node, python::Ref& slot);
  PyObject* make_generator(const RecipeNode& node, python::Ref& slot);
  bool fill_dict(PyObject* dict, const RecipeNode& node);
  PyObject* make_tuple(const RecipeNode& node);

  const RecipeBook& book_;
  const std::vector<PyObject*>& sources_;
  const std::vector<python::Ref>& hosts_;
  const std::vector<at::Tensor>& outputs_;
  std::vector<python::Ref> values_;
};

}  // namespace dynrun::trace
