// Ownership: the books hold the keys strongly and the dicts not at all. A dict's entry goes when the dict dies (its watcher says
// so) or when the last reader lets go. The callback runs inside dict operations: it allocates little, runs no Python code and
// leaves no error set.

#include "guards/watch.h"

#include <algorithm>
#include <unordered_map>

namespace dynrun::guards {

namespace {

constexpr std::size_t kMaxFired = 64;  // one is enough to look again; names tell what changes often

struct KeyHash {
  std::size_t operator()(PyObject* key) const { return static_cast<std::size_t>(PyObject_Hash(key)); }  // exact str: no Python code
};
struct KeyEqual {
  bool operator()(PyObject* a, PyObject* b) const { return a == b || PyUnicode_Compare(a, b) == 0; }
};

}  // namespace

struct Books {
  struct Reader {
    DictWatch* watch;
    std::int32_t name;
  };
  using Readers = std::vector<Reader>;
  struct Dict {
    std::unordered_map<PyObject*, Readers, KeyHash, KeyEqual> texts;  // keys of exact type str
    Readers other_keys, keys, life;
  };

  std::unordered_map<PyObject*, Dict> dicts;
  int id = -1;  // CPython's, or -2: there was none left

  static Books& instance() {
    static auto* books = new Books();
    return *books;
  }

  static void fire(const Readers& readers) {
    for (const Reader& reader : readers) {
      if (reader.watch->fired_.size() < kMaxFired) reader.watch->fired_.push_back(reader.name);
    }
  }

  static int changed(PyDict_WatchEvent event, PyObject* dict, PyObject* key, PyObject*) {
    Books& books = instance();
    auto at = books.dicts.find(dict);
    if (at == books.dicts.end()) return 0;
    Dict& entry = at->second;
    bool whole = event == PyDict_EVENT_CLEARED || event == PyDict_EVENT_CLONED || event == PyDict_EVENT_DEALLOCATED;
    bool text = key != nullptr && PyUnicode_CheckExact(key);
    if (whole || !text) {
      for (const auto& [name, readers] : entry.texts) fire(readers);
      fire(entry.other_keys);
    } else if (!entry.texts.empty()) {
      auto readers = entry.texts.find(key);
      if (readers != entry.texts.end()) fire(readers->second);
    }
    if (event != PyDict_EVENT_MODIFIED) fire(entry.keys);
    if (whole) fire(entry.life);
    if (event == PyDict_EVENT_DEALLOCATED) {
      Dict dead = std::move(entry);
      books.dicts.erase(at);
      for (const auto& [name, readers] : dead.texts) Py_DECREF(name);
    }
    return 0;
  }

  /// Null where the dict cannot be watched.
  Dict* open(PyObject* dict) {
    if (!PyDict_Check(dict)) return nullptr;
    if (id == -1) {
      id = PyDict_AddWatcher(&changed);
      if (id < 0) {
        PyErr_Clear();
        id = -2;
      }
    }
    if (id < 0) return nullptr;
    auto [at, fresh] = dicts.try_emplace(dict);
    if (fresh && PyDict_Watch(id, dict) < 0) {
      PyErr_Clear();
      dicts.erase(at);
      return nullptr;
    }
    return &at->second;
  }

  static void drop(Readers& readers, const DictWatch* watch) {
    std::erase_if(readers, [&](const Reader& reader) { return reader.watch == watch; });
  }

  void close(PyObject* dict, PyObject* key, const DictWatch* watch) {
    auto at = dicts.find(dict);
    if (at == dicts.end()) return;
    Dict& entry = at->second;
    if (key != nullptr) {
      auto readers = entry.texts.find(key);
      if (readers == entry.texts.end()) return;
      drop(readers->second, watch);
      if (readers->second.empty()) {
        PyObject* name = readers->first;
        entry.texts.erase(readers);
        Py_DECREF(name);
      }
    } else {
      drop(entry.other_keys, watch), drop(entry.keys, watch), drop(entry.life, watch);
    }
    if (!entry.texts.empty() || !entry.other_keys.empty() || !entry.keys.empty() || !entry.life.empty()) return;
    dicts.erase(at);
    if (PyDict_Unwatch(id, dict) < 0) PyErr_Clear();
  }
};

bool DictWatch::watch_key(PyObject* dict, PyObject* key, std::int32_t name) {
  Books::Dict* entry = Books::instance().open(dict);
  if (entry == nullptr) return false;
  if (!PyUnicode_CheckExact(key)) {
    entry->other_keys.push_back({this, name});
    watched_.emplace_back(dict, nullptr);
    return true;
  }
  auto [at, fresh] = entry->texts.try_emplace(key);
  if (fresh) Py_INCREF(key);
  at->second.push_back({this, name});
  watched_.emplace_back(dict, python::Ref::borrow(key).release());
  return true;
}

bool DictWatch::watch_keys(PyObject* dict, std::int32_t name) {
  Books::Dict* entry = Books::instance().open(dict);
  if (entry == nullptr) return false;
  entry->keys.push_back({this, name});
  watched_.emplace_back(dict, nullptr);
  return true;
}

bool DictWatch::watch_life(PyObject* dict, std::int32_t name) {
  Books::Dict* entry = Books::instance().open(dict);
  if (entry == nullptr) return false;
  entry->life.push_back({this, name});
  watched_.emplace_back(dict, nullptr);
  return true;
}

void DictWatch::clear() {
  for (auto [dict, key] : watched_) {
    Books::instance().close(dict, key, this);
    Py_XDECREF(key);
  }
  watched_.clear();
  fired_.clear();
}

}  // namespace dynrun::guards
