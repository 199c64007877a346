#pragma once
// What the executable and libdynrun.so say to each other. Plain C: the executable links neither libpython nor libtorch, and
// finds these functions with dlsym after it has opened the library. Every function needs the GIL.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DYNRUN_EXPORT __attribute__((visibility("default")))

enum DynrunVm { kDynrunVmAuto = 0, kDynrunVmAll = 1, kDynrunVmOff = 2 };
enum DynrunExplain { kDynrunExplainNone = 0, kDynrunExplainText = 1, kDynrunExplainJson = 2 };

/// `--stress=MODE[,MODE]`: test modes, a bit each.
enum DynrunStress {
  kDynrunStressBreak = 1 << 0,     // break: end the segment after every operation
  kDynrunStressGuards = 1 << 1,    // guards: fail every guard once
  kDynrunStressFirst = 1 << 2,     // first: record at first sight, not when hot
  kDynrunStressExtern = 1 << 3,    // extern: compile nothing, every operator is an extern call
  kDynrunStressDrop = 1 << 4,      // drop: drop every cached segment at random
  kDynrunStressHandover = 1 << 5,  // handover: hand each distinct instruction boundary to CPython once
};

/// `--dump=STAGE[:FILTER]`. The stages are bytecode, graph, loops, llvm, asm and guards; the filter is a substring of
/// "file:line:function", and empty for all. Dumps go to stderr.
typedef struct DynrunDump {
  const char* stage;
  const char* filter;
} DynrunDump;

/// `--dynamic`: which sizes of tensors are left open. auto: those that were others before; on: those of all tensors but
/// parameters, from the first recording; off: none.
enum DynrunDynamic { kDynrunDynamicAuto = 0, kDynrunDynamicOn = 1, kDynrunDynamicOff = 2 };

/// The command line, checked. Everything it points to lives as long as the process.
typedef struct DynrunOptions {
  size_t size;                 // sizeof(DynrunOptions) of the caller; another value is a mismatched build
  enum DynrunVm vm;
  enum DynrunExplain explain;  // to stderr, by dynrun_engine_stop
  const char* stats_file;      // null: none. Absolute, known to be writable; written by dynrun_engine_stop
  const char* explain_file;    // likewise
  const char* html_file;       // likewise
  const DynrunDump* dumps;
  size_t dump_count;
  uint32_t stress;             // DynrunStress bits
  enum DynrunDynamic dynamic;
  const char* cache;           // a folder for compiled kernels, "off", or null for the user's
  int fullgraph;               // a graph break is an error
  int keep_torch_compile;      // torch.compile stays torch's own
  int quiet;                   // no status lines
  int verify;                  // run every replay eagerly too, and compare
  int child;                   // started by another dynrun: write no report when nothing was recorded
  void* stack_low;             // the main thread's stack that Python runs on, lowest and one past the highest address;
  void* stack_high;            //   null when it is the thread's own
} DynrunOptions;

/// Starts the engine: once, when torch has been imported completely, or at start-up without torch for --vm=all and --dump.
/// Returns 0, or another value with one line of text (cause and cure, no newline) in `error`: the executable then prints it
/// and ends. With kDynrunVmOff the engine is only started by `import dynrun`.
DYNRUN_EXPORT int dynrun_engine_start(const DynrunOptions* options, char* error, size_t error_size);

/// Called once when torch is completely imported: right after dynrun_engine_start, unless that was before torch. Optional.
DYNRUN_EXPORT void dynrun_engine_torch_ready(void);

/// Called when torch._dynamo has been imported. Optional.
DYNRUN_EXPORT void dynrun_engine_dynamo_ready(void);

/// Stands in for libtorch_python's converter of tensors for extension modules (guards/tensor_converter.h), called by the code at `caller`:
/// whether the object is a tensor, which it puts into the caster.
DYNRUN_EXPORT bool dynrun_engine_load_tensor(void* caster, struct _object* object, bool convert, const void* caller);

/// Stops: the frame hook is removed, the report is written (src/report). Called last of the interpreter's atexit functions,
/// after the script's output was flushed, in the process that started the engine (not in forked children). Returns 0, or
/// another value with one line of text in `error` when the report could not be written.
DYNRUN_EXPORT int dynrun_engine_stop(char* error, size_t error_size);

/// Called after it, in forked children too: the frame hook is removed, and what segments hold is let go, so that the program's own
/// objects are finalised as under python.
DYNRUN_EXPORT void dynrun_engine_release(void);

/// libdynrun.so also exports `PyObject* PyInit_dynrun(void)`, the Python module; torch is imported and the engine started
/// before it is called.

#ifdef __cplusplus
}
#endif
