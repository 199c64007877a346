// What the executable finds in libdynrun.so, and the Python module `dynrun`.

#include "engine/exports.h"

#include "engine/engine.h"
#include "engine/module.h"
#include "engine/steady_frames.h"
#include "guards/extensions.h"
#include "guards/storage_watch.h"
#include "guards/tensor_converter.h"
#include "guards/unversioned_operators.h"
#include "report/report.h"
#include "trace/hidden_key.h"
#include "trace/callables.h"
#include "python/compat.h"
#include "trace/operator_recorder.h"

#include <cstdio>
#include <utility>

namespace {

DynrunOptions the_options{};
bool torch_is_ready = false;

bool serves_torch_compile() { return the_options.size != 0 && !the_options.keep_torch_compile && the_options.vm != kDynrunVmOff; }

/// The file of the program: that of `__main__`; empty where it is none.
std::string script_path() {
  PyObject* main = PyImport_AddModule("__main__");
  PyObject* file = main ? PyDict_GetItemString(PyModule_GetDict(main), "__file__") : nullptr;
  const char* text = file && PyUnicode_Check(file) ? PyUnicode_AsUTF8(file) : nullptr;
  PyErr_Clear();
  return text ? text : "";
}

int fail(char* error, size_t size, const std::string& text) {
  std::snprintf(error, size, "%s", text.c_str());
  return 1;
}

}  // namespace

extern "C" DYNRUN_EXPORT int dynrun_engine_start(const DynrunOptions* options, char* error, size_t error_size) {
  if (options->size != sizeof(DynrunOptions)) return fail(error, error_size, "the executable and libdynrun.so are of different builds: build again");
  the_options = *options;
  if (const char* wrong = dynrun::engine::start_hook()) return fail(error, error_size, wrong);
  dynrun::engine::start_engine(the_options);
  dynrun_watch_local_monitoring();
  return 0;
}

extern "C" DYNRUN_EXPORT void dynrun_engine_torch_ready(void) {
  if (torch_is_ready) return;
  torch_is_ready = true;
  dynrun::trace::build_callable_table();
  dynrun::guards::watch_storage_aliases();
  dynrun::guards::watch_dlpack_table();
  dynrun::guards::watch_operators();
  dynrun::trace::hide_recording_key();
  if (dynrun::engine::engine()) dynrun::engine::engine()->loops().consider_running();
  if (the_options.stats_file || the_options.explain_file || the_options.html_file || the_options.explain) dynrun::engine::count_operators_of_all_threads();
  if (serves_torch_compile()) dynrun::engine::run_part("_serve", "install");
}

extern "C" DYNRUN_EXPORT void dynrun_engine_dynamo_ready(void) {
  static bool served = false;
  if (torch_is_ready && serves_torch_compile() && !std::exchange(served, true)) dynrun::engine::run_part("_serve", "serve_dynamo");
}

extern "C" DYNRUN_EXPORT bool dynrun_engine_load_tensor(void* caster, PyObject* object, bool convert, const void* caller) {
  return dynrun::guards::load_tensor(caster, object, convert, caller);
}

/// In programs that link the library.
extern "C" DYNRUN_EXPORT bool dynrun_tensor_converter(void* caster, PyObject* object, bool convert) __asm__(DYNRUN_TENSOR_CONVERTER);
bool dynrun_tensor_converter(void* caster, PyObject* object, bool convert) { return dynrun::guards::load_tensor(caster, object, convert, __builtin_return_address(0)); }

extern "C" DYNRUN_EXPORT int dynrun_engine_stop(char* error, size_t error_size) {
  dynrun::vm::remove_frame_hook();
  dynrun::engine::Engine* engine = dynrun::engine::engine();
  if (engine == nullptr) return 0;
  dynrun::report::Report report = engine->report();
  if (the_options.child && report.segments_compiled == 0) return 0;
  for (const char* file : {the_options.stats_file, the_options.explain_file}) {
    if (file == nullptr) continue;
    if (auto wrong = dynrun::report::write_file(file, dynrun::report::to_json(report))) return fail(error, error_size, *wrong);
  }
  if (the_options.html_file) {
    dynrun::report::Report full = engine->report_in_full();
    full.script = script_path();
    if (auto wrong = dynrun::report::write_file(the_options.html_file, dynrun::report::to_html(full))) return fail(error, error_size, *wrong);
  }
  if (the_options.explain != kDynrunExplainNone) {
    std::string text = the_options.explain == kDynrunExplainJson ? dynrun::report::to_json(report) : dynrun::report::to_text(report);
    std::fputs(text.c_str(), stderr);
  }
  return 0;
}

extern "C" DYNRUN_EXPORT void dynrun_engine_release(void) {
  dynrun::vm::remove_frame_hook();
  if (dynrun::engine::Engine* engine = dynrun::engine::engine()) engine->forget_segments();
}

extern "C" DYNRUN_EXPORT PyObject* PyInit_dynrun(void) {
  dynrun_engine_torch_ready();
  dynrun::engine::count_operators_of_all_threads();
  return dynrun::engine::make_module();
}
