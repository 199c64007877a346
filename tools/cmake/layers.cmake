# dynrun_layer(NAME FOLDERS f... USES t...): the static library of one layer, made of every source in its folders.

add_library(dynrun_options INTERFACE)
# -Wrestrict is wrong about std::string in g++ 12 (GCC bug 105651).
target_compile_options(dynrun_options INTERFACE
  -Wall -Wextra -Werror $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess> $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
target_include_directories(dynrun_options INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
if(DYNRUN_SANITIZE)
  # The sanitizers' checks make g++ see uninitialised reads where there are none.
  target_compile_options(dynrun_options INTERFACE -fsanitize=${DYNRUN_SANITIZE} -fno-omit-frame-pointer -Wno-maybe-uninitialized)
  target_link_options(dynrun_options INTERFACE -fsanitize=${DYNRUN_SANITIZE})
endif()
target_link_libraries(dynrun_options INTERFACE fmt::fmt-header-only)

function(dynrun_layer name)
  cmake_parse_arguments(LAYER "" "" "FOLDERS;USES" ${ARGN})
  set(sources)
  foreach(folder ${LAYER_FOLDERS})
    file(GLOB found CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cpp ${CMAKE_SOURCE_DIR}/${folder}/*.c)
    list(APPEND sources ${found})
  endforeach()
  if(sources)
    add_library(${name} STATIC ${sources})
    target_link_libraries(${name} PUBLIC dynrun_options ${LAYER_USES})
    if("dynrun::torch" IN_LIST LAYER_USES OR "dynrun::torch_python" IN_LIST LAYER_USES OR "graph" IN_LIST LAYER_USES)
      if(EXISTS ${CMAKE_SOURCE_DIR}/src/graph/torch_headers.h)
        target_precompile_headers(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${CMAKE_SOURCE_DIR}/src/graph/torch_headers.h>)
      endif()
    endif()
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE dynrun_options ${LAYER_USES})
  endif()
endfunction()

# dynrun_write(FILE TEXT): writes a file where it would change.
function(dynrun_write file text)
  set(before "")
  if(EXISTS ${file})
    file(READ ${file} before)
  endif()
  if(NOT before STREQUAL text)
    file(WRITE ${file} "${text}")
  endif()
endfunction()

# dynrun_embed_python(TARGET FOLDER): compiles the Python files of a folder into a layer, as engine/python_sources.h gives them, with the
# project's version in the place of @PROJECT_VERSION@.
function(dynrun_embed_python target folder)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.py)
  set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${files})
  set(text "#include \"engine/python_sources.h\"\n\nnamespace dynrun::engine {\n\nstd::optional<std::string_view> python_source(std::string_view name) {\n")
  foreach(file ${files})
    get_filename_component(name ${file} NAME_WE)
    file(READ ${file} content)
    string(REPLACE "@PROJECT_VERSION@" "${PROJECT_VERSION}" content "${content}")
    string(APPEND text "  if (name == \"${name}\") return R\"python(${content})python\";\n")
  endforeach()
  string(APPEND text "  return std::nullopt;\n}\n\n}  // namespace dynrun::engine\n")
  dynrun_write(${CMAKE_BINARY_DIR}/python_sources.cpp "${text}")
  target_sources(${target} PRIVATE ${CMAKE_BINARY_DIR}/python_sources.cpp)
endfunction()

# dynrun_embed_page(TARGET FILE): compiles an HTML file into a layer, as report/page.h gives it.
function(dynrun_embed_page target file)
  set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${file})
  file(READ ${CMAKE_SOURCE_DIR}/${file} content)
  set(text "#include \"report/page.h\"\n\nnamespace dynrun::report {\n\nstd::string_view page() {\n  return R\"page(${content})page\";\n}\n\n}  // namespace dynrun::report\n")
  dynrun_write(${CMAKE_BINARY_DIR}/report_page.cpp "${text}")
  target_sources(${target} PRIVATE ${CMAKE_BINARY_DIR}/report_page.cpp)
endfunction()

# dynrun_engine_library(): libdynrun.so, and the package file that other CMake projects find it by.
function(dynrun_engine_library)
  # Sources of its own: what libraries hold is hidden from programs that link it.
  add_library(dynrun_shared SHARED ${CMAKE_SOURCE_DIR}/src/engine/exports.cc ${CMAKE_SOURCE_DIR}/src/engine/api.cc)
  target_compile_definitions(dynrun_shared PRIVATE DYNRUN_BUILT_PYTHON="${DYNRUN_PYTHON}")
  set_target_properties(dynrun_shared PROPERTIES OUTPUT_NAME dynrun)
  target_link_libraries(dynrun_shared PRIVATE engine ${DYNRUN_PYTHON_LIBRARY})
  target_link_options(dynrun_shared PRIVATE -Wl,--exclude-libs,ALL -Wl,--gc-sections)
  configure_file(${CMAKE_SOURCE_DIR}/tools/cmake/dynrunConfig.cmake.in ${CMAKE_BINARY_DIR}/dynrunConfig.cmake @ONLY)
endfunction()

# dynrun_executable(): the program. It sees Python's headers, but links neither libpython nor libtorch.
function(dynrun_executable)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/cli/*.cpp)
  add_executable(dynrun ${sources})
  target_link_libraries(dynrun PRIVATE report dynrun::python ${CMAKE_DL_LIBS})
  # Extension modules are to find this one before libtorch_python's (src/cli/tensor_converter.cpp).
  target_link_options(dynrun PRIVATE -Wl,--export-dynamic-symbol=_ZN8pybind116detail11type_casterIN2at6TensorEvE4loadENS_6handleEb)
  target_compile_definitions(dynrun PRIVATE
    DYNRUN_VERSION="${PROJECT_VERSION}" DYNRUN_BUILT_PYTHON_VERSION="${DYNRUN_PYTHON_VERSION}" DYNRUN_BUILT_PYTHON="${DYNRUN_PYTHON}" DYNRUN_TORCH_VERSION="${DYNRUN_TORCH_VERSION}")
endfunction()
