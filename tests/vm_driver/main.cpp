// vm_driver [--vm=all|auto|off] [--stress-hand-over] ARGS: python's own main with the VM's frame hook installed, for running
// CPython's test suite through the VM before and without the rest of dynrun.

#include "python/compat.h"
#include "vm/machine.h"

#include <Python.h>
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

namespace {

int argument_count;
char** arguments;
int exit_code;
ucontext_t main_context, python_context;

// The second start of a code object, and whatever runs in it from then on.
bool is_warm(dynrun::python::Frame* frame) {
  static std::unordered_map<PyCodeObject*, int> starts;
  return ++starts[frame->code] > 1;
}

void fail(PyStatus status) {
  if (PyStatus_IsExit(status)) std::exit(status.exitcode);
  Py_ExitStatusException(status);
}

void run_python() {
  auto policy = dynrun::vm::FramePolicy::kAll;
  bool stress = false;
  int first = 1;
  for (; first < argument_count &&
         (std::strncmp(arguments[first], "--vm=", 5) == 0 || std::strcmp(arguments[first], "--stress-hand-over") == 0);
       ++first) {
    const char* text = arguments[first];
    if (std::strcmp(text, "--stress-hand-over") == 0) stress = true;
    if (std::strcmp(text, "--vm=off") == 0) policy = dynrun::vm::FramePolicy::kOff;
    if (std::strcmp(text, "--vm=auto") == 0) policy = dynrun::vm::FramePolicy::kAuto;
  }
  if (const char* inherited = std::getenv("VM_DRIVER")) {
    if (std::strcmp(inherited, "off") == 0) policy = dynrun::vm::FramePolicy::kOff;
  }
  if (std::getenv("VM_DRIVER_STRESS")) stress = true;
  arguments[first - 1] = arguments[0];
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  PyStatus status = PyConfig_SetBytesArgv(&config, argument_count - first + 1, arguments + first - 1);
  if (PyStatus_Exception(status)) fail(status);
  if (const char* program = std::getenv("VM_DRIVER_PYTHON")) {
    status = PyConfig_SetBytesString(&config, &config.program_name, program);
    if (PyStatus_Exception(status)) fail(status);
    if (char self[4096]; realpath("/proc/self/exe", self)) PyConfig_SetBytesString(&config, &config.executable, self);
  }
  status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  if (PyStatus_Exception(status)) fail(status);
  dynrun::vm::set_frame_policy(policy);
  dynrun::vm::set_frame_filter(is_warm);
  dynrun::vm::set_hand_over_stress(stress);
  if (const char* wrong = dynrun::vm::install_frame_hook()) {
    std::fprintf(stderr, "vm_driver: %s\n", wrong);
    std::exit(2);
  }
  exit_code = Py_RunMain();
  if (std::getenv("VM_DRIVER_COUNTERS")) {
    const dynrun::vm::Counters& counters = dynrun::vm::counters();
    std::fprintf(stderr, "frames: %llu in the VM, %llu in CPython, %llu handed over\n",
                 static_cast<unsigned long long>(counters.frames_vm), static_cast<unsigned long long>(counters.frames_cpython),
                 static_cast<unsigned long long>(counters.handed_over));
  }
}

}  // namespace

int main(int argc, char** argv) {
  argument_count = argc;
  arguments = argv;
  constexpr std::size_t kStackBytes = std::size_t{1} << 30;
  void* stack =
      mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) return 2;
  dynrun_set_stack_low(stack);
  // Python's threads too: their stacks are mapped as they are used.
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, std::size_t{1} << 28);
  pthread_setattr_default_np(&attributes);
  getcontext(&python_context);
  python_context.uc_stack.ss_sp = stack;
  python_context.uc_stack.ss_size = kStackBytes;
  python_context.uc_link = &main_context;
  makecontext(&python_context, run_python, 0);
  swapcontext(&main_context, &python_context);
  return exit_code;
}
