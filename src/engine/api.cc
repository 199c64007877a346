// The C++ API of include/dynrun/engine.h.

#include "dynrun/engine.h"

#include "engine/engine.h"
#include "engine/exports.h"
#include "guards/torch_python.h"
#include "python/gil.h"
#include "python/reference.h"
#include "report/report.h"

#include <c10/core/GradMode.h>

extern "C" PyObject* PyInit_dynrun(void);

#define DYNRUN_API __attribute__((visibility("default")))

namespace dynrun {

using python::Ref;

namespace {

/// The Python error that is set, as python would print it, and clears it.
std::string take_python_error() {
  Ref error = Ref::steal(PyErr_GetRaisedException());
  if (!error) return "unknown error";
  Ref module = Ref::steal(PyImport_ImportModule("traceback"));
  Ref lines = module ? Ref::steal(PyObject_CallMethod(module.get(), "format_exception", "O", error.get())) : Ref();
  Ref empty = Ref::steal(PyUnicode_FromString(""));
  Ref text = lines ? Ref::steal(PyUnicode_Join(empty.get(), lines.get())) : Ref::steal(PyObject_Str(error.get()));
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  std::string result = utf8 ? utf8 : "unknown error";
  PyErr_Clear();
  return result;
}

void check(const PyStatus& status) {
  if (PyStatus_Exception(status)) throw Error(std::string("Python does not start: ") + (status.err_msg ? status.err_msg : "unknown error"));
}

void start_python(const std::string& program) {
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  config.install_signal_handlers = 0;
  check(PyConfig_SetBytesString(&config, &config.program_name, program.c_str()));
  check(PyConfig_SetBytesString(&config, &config.executable, program.c_str()));
  check(Py_InitializeFromConfig(&config));
  PyConfig_Clear(&config);
}

void collect_tensors(PyObject* value, std::vector<at::Tensor>& tensors) {
  if (guards::is_tensor(value)) {
    tensors.push_back(guards::tensor_of(value));
    return;
  }
  if (!PyTuple_Check(value) && !PyList_Check(value)) throw Error(std::string("the result holds a ") + Py_TYPE(value)->tp_name + ": return tensors, or a tuple of them");
  for (Py_ssize_t i = 0; i < Py_SIZE(value); i++) collect_tensors(PyTuple_Check(value) ? PyTuple_GET_ITEM(value, i) : PyList_GET_ITEM(value, i), tensors);
}

PyThreadState* main_thread = nullptr;

}  // namespace

struct Callable::State {
  PyObject* callable;
  ~State() {
    python::Gil gil;
    Py_DECREF(callable);
  }
};

DYNRUN_API Callable::Callable(std::unique_ptr<State> state) : state_(std::move(state)) {}
DYNRUN_API Callable::Callable(Callable&&) noexcept = default;
DYNRUN_API Callable& Callable::operator=(Callable&&) noexcept = default;
DYNRUN_API Callable::~Callable() = default;

DYNRUN_API std::vector<at::Tensor> Callable::operator()(const std::vector<at::Tensor>& arguments) const {
  python::Gil gil;
  c10::NoGradGuard no_grad;
  Ref tuple = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(arguments.size())));
  for (std::size_t i = 0; i < arguments.size(); i++) PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), guards::wrap(arguments[i]));
  Ref result = Ref::steal(PyObject_Call(state_->callable, tuple.get(), nullptr));
  if (!result) throw Error(take_python_error());
  std::vector<at::Tensor> tensors;
  collect_tensors(result.get(), tensors);
  return tensors;
}

DYNRUN_API Engine::Engine(const EngineOptions& options) {
  if (Py_IsInitialized()) throw Error("an engine is running already, or Python is: make one engine a process, before Python is used");
  start_python(options.python.empty() ? DYNRUN_BUILT_PYTHON : options.python);
  std::string wrong;
  Ref torch = Ref::steal(PyImport_ImportModule("torch"));
  if (!torch) {
    wrong = take_python_error();
  } else {
    static DynrunOptions settings{};
    settings.size = sizeof settings;
    settings.verify = options.verify;
    static std::string cache;
    cache = options.cache;
    settings.cache = cache.empty() ? nullptr : cache.c_str();
    char text[512] = "";
    if (dynrun_engine_start(&settings, text, sizeof text) != 0) wrong = text;
    else dynrun_engine_torch_ready();
  }
  torch = Ref();
  main_thread = PyEval_SaveThread();
  if (!wrong.empty()) throw Error(wrong);
}

DYNRUN_API Engine::~Engine() {
  // Python is left to the process's end: libtorch and its threads do not survive a second start.
  python::Gil gil;
  char text[512];
  dynrun_engine_stop(text, sizeof text);
  dynrun_engine_release();
}

DYNRUN_API Callable Engine::load(const std::string& path, const std::string& name) {
  python::Gil gil;
  Ref runpy = Ref::steal(PyImport_ImportModule("runpy"));
  Ref globals = runpy ? Ref::steal(PyObject_CallMethod(runpy.get(), "run_path", "s", path.c_str())) : Ref();
  if (!globals) throw Error(take_python_error());
  PyObject* found = PyDict_GetItemString(globals.get(), name.c_str());
  if (found == nullptr) throw Error(path + " defines no " + name);
  if (!PyCallable_Check(found)) throw Error(name + " in " + path + " cannot be called");
  engine::engine()->mark(found);
  return Callable(std::unique_ptr<Callable::State>(new Callable::State{Py_NewRef(found)}));
}

DYNRUN_API std::string Engine::stats() const {
  python::Gil gil;
  return report::to_json(engine::engine()->report());
}

}  // namespace dynrun
