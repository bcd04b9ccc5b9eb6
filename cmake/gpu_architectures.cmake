# The rows of src/device/gpu_architectures.cc, as the build needs them: BALEEN_GPU_ARCHITECTURES, their names,
# and BALEEN_FLAGS_OF_<name>, what nvcc gets for their kernels, less what this one does not know
# (BALEEN_NVCC_FLAGS_OF_<name>).
set(rows ${CMAKE_SOURCE_DIR}/src/device/gpu_architectures.cc)
set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${rows})
file(READ ${rows} text)
string(REGEX REPLACE "\"[ \n]+\"" "" text "${text}")  # a string over several lines is one
string(REGEX MATCHALL "[.](name|compiler_flags) = \"[^\"]*\"" fields "${text}")
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

# Beside PTX, machine code is a start without the driver's compiler, and no more: what this nvcc does not know
# is left out.
if(BALEEN_CUDA)
  execute_process(COMMAND ${BALEEN_NVCC} --list-gpu-code OUTPUT_VARIABLE known COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "sm_[0-9]+" known "${known}")
endif()
foreach(name ${BALEEN_GPU_ARCHITECTURES})
  set(flags "${BALEEN_FLAGS_OF_${name}}")
  if(BALEEN_CUDA AND flags MATCHES "code=.compute_")
    string(REGEX MATCHALL "sm_[0-9]+" codes "${flags}")
    list(REMOVE_ITEM codes ${known})
    foreach(code ${codes})
      message(STATUS "${BALEEN_NVCC} does not know ${code}: such GPUs get PTX of ${name}")
      string(REGEX REPLACE ",${code}([],])" "\\1" flags "${flags}")
    endforeach()
  endif()
  set(BALEEN_NVCC_FLAGS_OF_${name} "${flags}")
endforeach()

# baleen_compile_for(TARGET ARCHITECTURE...): what nvcc compiles of a target is for these architectures.
function(baleen_compile_for target)
  foreach(name ${ARGN})
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${BALEEN_NVCC_FLAGS_OF_${name}}>")
  endforeach()
endfunction()

# baleen_folders_for(RESULT ARCHITECTURE FOLDER...): these folders as one architecture has them. Kernels of
# all architectures (ops/rope/cuda) are compiled for each, as targets called ops/rope/cuda/sm90;
# ops/matmul/arch is what they use of its own (ops/matmul/sm90).
function(baleen_folders_for result architecture)
  list(TRANSFORM ARGN APPEND "/${architecture}" REGEX "^ops/.+/cuda$")
  list(TRANSFORM ARGN REPLACE "/arch$" "/${architecture}")
  set(${result} ${ARGN} PARENT_SCOPE)
endfunction()

# baleen_kernels(ARCH sm90 NAME ops/linear/sm90 SOURCES ... USES ...): baleen_folder, for one architecture.
# Without ARCH for each of them, from the same sources: NAME ops/rope/cuda. Whoever uses the folder sees
# BALEEN_ARCH, the namespace of the architecture's kernels, and BALEEN_ARCH_NAME, the same as a string.
function(baleen_kernels)
  cmake_parse_arguments(KERNELS "" "ARCH;NAME" "SOURCES;USES" ${ARGN})
  set(architectures ${KERNELS_ARCH})
  if(NOT architectures)
    set(architectures ${BALEEN_GPU_ARCHITECTURES})
  endif()
  foreach(architecture ${architectures})
    baleen_folders_for(uses ${architecture} ${KERNELS_USES})
    baleen_folders_for(name ${architecture} ${KERNELS_NAME})
    baleen_folder(NAME ${KERNELS_NAME} TARGET ${name} SOURCES ${KERNELS_SOURCES} USES ${uses})
    string(REPLACE "/" "_" flat ${name})
    set(definitions BALEEN_ARCH=${architecture} BALEEN_ARCH_NAME="${architecture}")
    if(KERNELS_SOURCES)
      baleen_compile_for(baleen_${flat} ${architecture})
      target_compile_definitions(baleen_${flat} PUBLIC ${definitions})
    else()
      target_compile_definitions(baleen_${flat} INTERFACE ${definitions})
    endif()
  endforeach()
endfunction()

# baleen_architectures_of_folder(RESULT): the architecture whose name the current folder has
# (tests/ops/linear/sm90), or all of them, one by one, in folders called cuda; in others none.
function(baleen_architectures_of_folder result)
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME name)
  set(architectures "")
  if(name IN_LIST BALEEN_GPU_ARCHITECTURES)
    set(architectures ${name})
  elseif(name STREQUAL "cuda")
    set(architectures ${BALEEN_GPU_ARCHITECTURES})
  endif()
  set(${result} ${architectures} PARENT_SCOPE)
endfunction()

# baleen_compile_program_for(TARGET ARCHITECTURE...): a program of that architecture; if none is named, for
# all of them.
function(baleen_compile_program_for target)
  if(ARGN)
    baleen_compile_for(${target} ${ARGN})
    target_compile_definitions(${target} PRIVATE BALEEN_ARCH=${ARGN} BALEEN_ARCH_NAME="${ARGN}")
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
