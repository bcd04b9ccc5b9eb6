# The rows of src/device/gpu_architectures.cc, as the build needs them: BALEEN_GPU_ARCHITECTURES, their names,
# and BALEEN_FLAGS_OF_<name>, what nvcc gets for their kernels.
set(rows ${CMAKE_SOURCE_DIR}/src/device/gpu_architectures.cc)
set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${rows})
file(STRINGS ${rows} fields REGEX "[.](name|compiler_flags) = ")
set(BALEEN_GPU_ARCHITECTURES "")
foreach(field ${fields})
  string(REGEX REPLACE ".*[.](name|compiler_flags) = \"([^\"]*)\".*" "\\1;\\2" field "${field}")
  list(POP_FRONT field key value)
  if(key STREQUAL "name")
    list(APPEND BALEEN_GPU_ARCHITECTURES ${value})
    set(name ${value})
  else()
    separate_arguments(BALEEN_FLAGS_OF_${name} UNIX_COMMAND "${value}")
  endif()
endforeach()
foreach(name ${BALEEN_GPU_ARCHITECTURES})
  if(NOT BALEEN_FLAGS_OF_${name})
    message(FATAL_ERROR "${rows}: the row ${name} has no compiler_flags")
  endif()
endforeach()

# baleen_compile_for(TARGET ARCHITECTURE...): what nvcc compiles of a target is for these architectures.
function(baleen_compile_for target)
  foreach(name ${ARGN})
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${BALEEN_FLAGS_OF_${name}}>")
  endforeach()
endfunction()

# baleen_kernels(ARCH sm90 NAME ops/linear/sm90 SOURCES ... USES ...): baleen_folder, for one architecture.
function(baleen_kernels)
  cmake_parse_arguments(KERNELS "" "ARCH;NAME" "" ${ARGN})
  baleen_folder(NAME ${KERNELS_NAME} ${KERNELS_UNPARSED_ARGUMENTS})
  string(REPLACE "/" "_" flat ${KERNELS_NAME})
  baleen_compile_for(baleen_${flat} ${KERNELS_ARCH})
endfunction()

# baleen_compile_for_folder(TARGET): for the architecture whose name the current folder has
# (tests/ops/linear/sm90); in other folders for all of them.
function(baleen_compile_for_folder target)
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME name)
  if(name IN_LIST BALEEN_GPU_ARCHITECTURES)
    baleen_compile_for(${target} ${name})
  else()
    baleen_compile_for(${target} ${BALEEN_GPU_ARCHITECTURES})
  endif()
endfunction()

# baleen_gpu_module(ARCH sm90 SOURCE module.cc USES device/sm90 FOLDER dir): the module of an architecture,
# built into a folder: that of the program, which looks for it there.
function(baleen_gpu_module)
  cmake_parse_arguments(MODULE "" "ARCH;SOURCE;USES;FOLDER" "" ${ARGN})
  string(REPLACE "/" "_" flat ${MODULE_USES})
  set(target baleen_${MODULE_ARCH})
  add_library(${target} MODULE ${MODULE_SOURCE})
  set_target_properties(${target} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${MODULE_FOLDER})
  target_link_libraries(${target} PRIVATE baleen_${flat})
  target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL)  # what it exports its source says
  baleen_compile_options(${target})
endfunction()
