# What dynrun builds on, as imported targets: dynrun::python, dynrun::torch, dynrun::torch_cuda, dynrun::torch_python, dynrun::llvm.

if(NOT DYNRUN_PYTHON)
  message(FATAL_ERROR "DYNRUN_PYTHON is not set: run tools/dynrun, which makes the environment and passes it here")
endif()

execute_process(
  COMMAND ${DYNRUN_PYTHON} -c
    "import sys, sysconfig as s, importlib.util as u, os; v=s.get_config_vars(); print(s.get_path('include'), os.path.join(v['LIBDIR'], v['INSTSONAME']), os.path.dirname(u.find_spec('torch').origin), '%d.%d.%d' % sys.version_info[:3], sep=';')"
  OUTPUT_VARIABLE DYNRUN_PYTHON_FACTS OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "${DYNRUN_PYTHON} cannot import torch: run tools/dynrun, which makes the environment")
endif()
list(GET DYNRUN_PYTHON_FACTS 0 DYNRUN_PYTHON_INCLUDE)
list(GET DYNRUN_PYTHON_FACTS 1 DYNRUN_PYTHON_LIBRARY)
list(GET DYNRUN_PYTHON_FACTS 2 DYNRUN_TORCH)
list(GET DYNRUN_PYTHON_FACTS 3 DYNRUN_PYTHON_VERSION)
file(STRINGS ${DYNRUN_TORCH}/version.py DYNRUN_TORCH_VERSION REGEX "^__version__ = ")
string(REGEX REPLACE ".*'([0-9.]+).*" "\\1" DYNRUN_TORCH_VERSION "${DYNRUN_TORCH_VERSION}")

add_library(dynrun_python_headers INTERFACE)
target_include_directories(dynrun_python_headers SYSTEM INTERFACE ${DYNRUN_PYTHON_INCLUDE})
add_library(dynrun::python ALIAS dynrun_python_headers)

add_library(dynrun_torch INTERFACE)
target_include_directories(dynrun_torch SYSTEM INTERFACE
  ${DYNRUN_TORCH}/include ${DYNRUN_TORCH}/include/torch/csrc/api/include)
target_link_libraries(dynrun_torch INTERFACE ${DYNRUN_TORCH}/lib/libtorch_cpu.so ${DYNRUN_TORCH}/lib/libc10.so
  # at::parallel_for is inline: it must meet the very OpenMP runtime that libtorch runs on.
  ${DYNRUN_TORCH}/lib/libgomp.so.1)
add_library(dynrun::torch ALIAS dynrun_torch)

# torch's CUDA half, with the headers and libdevice of the packages that come with it. A torch without them gives a dynrun without
# GPUs; the driver itself is loaded at run time.
get_filename_component(DYNRUN_SITE_PACKAGES ${DYNRUN_TORCH} DIRECTORY)
set(DYNRUN_CUDA_ROOT ${DYNRUN_SITE_PACKAGES}/nvidia/cu13)
set(DYNRUN_LIBDEVICE ${DYNRUN_SITE_PACKAGES}/triton/backends/nvidia/lib/libdevice.10.bc)
set(DYNRUN_CUDA OFF)
if(EXISTS ${DYNRUN_TORCH}/lib/libtorch_cuda.so AND EXISTS ${DYNRUN_CUDA_ROOT}/include/cuda.h AND EXISTS ${DYNRUN_LIBDEVICE})
  set(DYNRUN_CUDA ON)
endif()
add_library(dynrun_torch_cuda INTERFACE)
target_link_libraries(dynrun_torch_cuda INTERFACE dynrun_torch)
if(DYNRUN_CUDA)
  target_include_directories(dynrun_torch_cuda SYSTEM INTERFACE ${DYNRUN_CUDA_ROOT}/include)
  target_compile_definitions(dynrun_torch_cuda INTERFACE DYNRUN_CUDA=1)
  target_link_libraries(dynrun_torch_cuda INTERFACE
    ${DYNRUN_TORCH}/lib/libtorch_cuda.so ${DYNRUN_TORCH}/lib/libc10_cuda.so ${DYNRUN_CUDA_ROOT}/lib/libcudart.so.13
    ${DYNRUN_CUDA_ROOT}/lib/libcublasLt.so.13)
endif()
add_library(dynrun::torch_cuda ALIAS dynrun_torch_cuda)

add_library(dynrun_torch_python INTERFACE)
target_link_libraries(dynrun_torch_python INTERFACE
  dynrun_torch dynrun_python_headers ${DYNRUN_TORCH}/lib/libtorch_python.so)
add_library(dynrun::torch_python ALIAS dynrun_torch_python)

find_package(LLVM 19.1 REQUIRED CONFIG PATHS /usr/lib/llvm-19)
llvm_map_components_to_libnames(DYNRUN_LLVM_LIBRARIES
  core orcjit passes bitreader linker X86 NVPTX native target targetparser analysis support)
add_library(dynrun_llvm INTERFACE)
target_include_directories(dynrun_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
target_link_libraries(dynrun_llvm INTERFACE ${DYNRUN_LLVM_LIBRARIES})
add_library(dynrun::llvm ALIAS dynrun_llvm)

find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Catch2 REQUIRED)

# One cache for all clones: paths below the checkout count as relative, the working folder does not count.
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=true
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()
