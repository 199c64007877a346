#pragma once
// dynrun as a library: run Python functions over tensors from a C++ service, recorded and compiled as under `dynrun`.
//
// An engine embeds CPython: one a process. Link libdynrun (see examples/embed), and keep the tensors' libtorch the one that
// dynrun was built for.

#include <ATen/core/Tensor.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace dynrun {

/// What went wrong, in one line; for an exception in Python code its whole traceback.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct EngineOptions {
  std::string python;        // the interpreter whose environment is used; empty: the one dynrun was built with
  std::string cache;         // a folder for compiled kernels, "off" for none; empty: ~/.cache/dynrun/kernels
  bool verify = false;       // run every replay eagerly too, and compare
};

/// A Python callable, held. Calls may come from any thread, one at a time in Python code.
class Callable {
 public:
  Callable(Callable&&) noexcept;
  Callable& operator=(Callable&&) noexcept;
  ~Callable();

  /// Calls it with tensors, under no_grad. Gives the tensors of its result: one, or those of a tuple or list, in order.
  /// Throws Error when the Python code raises, or when the result holds something else.
  std::vector<at::Tensor> operator()(const std::vector<at::Tensor>& arguments) const;

 private:
  friend class Engine;
  struct State;
  explicit Callable(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

class Engine {
 public:
  /// Starts Python, imports torch, starts the VM. Throws Error with the cause and the cure.
  explicit Engine(const EngineOptions& options = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Runs the Python file `path` as a module and takes `name` from it: a function, or a module object (torch.nn.Module),
  /// recorded at its first call. Throws Error.
  Callable load(const std::string& path, const std::string& name);

  /// What has been recorded and replayed so far, as the JSON that `dynrun --stats` writes.
  std::string stats() const;
};

}  // namespace dynrun
