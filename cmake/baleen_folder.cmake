# One folder of src/ is one target. A folder sees the headers of the folders it USES (and theirs), and no others:
# every folder has an include root of its own that holds a single link back to it, so an upward include does not
# build.

# Off: members with defaults may be left out of designated initialisers; g++ 12 sees overlaps in `"x" + std::string`.
set(BALEEN_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror
    -Wno-missing-field-initializers -Wno-restrict)

if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  list(APPEND BALEEN_WARNINGS -Wno-unknown-warning-option)
endif()

# In .cu files the host compiler's warnings come through nvcc, whose own code does not pass all of ours.
set(BALEEN_CUDA_WARNINGS --Werror all-warnings -Xcompiler=-Wall,-Wextra,-Wno-missing-field-initializers,-Wno-restrict
    -Xcudafe=--diag_suppress=554)  # conversions of const views to themselves, in templates

function(baleen_compile_options target)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${BALEEN_WARNINGS}>
                                           $<$<COMPILE_LANGUAGE:CUDA>:${BALEEN_CUDA_WARNINGS}>)
  if(BALEEN_FUZZERS)
    # Without it the fuzzer would be guided by the paths through its own file alone.
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  if(BALEEN_SANITIZE)
    target_compile_options(${target} PUBLIC -fsanitize=${BALEEN_SANITIZE} -fno-omit-frame-pointer
                                            -fno-sanitize-recover=all)
    target_link_options(${target} PUBLIC -fsanitize=${BALEEN_SANITIZE})
  endif()
endfunction()

# Compiles a target's files in groups of `size`, so that headers are read once a group: half the compiler's
# time is theirs. A group includes its files by way of a link, not by where the checkout lies, as CMake's own
# groups do: so the compiler's cache finds what another checkout compiled. A file stays alone if it is no .cc
# file, is generated, includes itself once for each instruction set, or has properties of its own for the
# compiler or SKIP_UNITY_BUILD_INCLUSION.
function(baleen_joint_compilation target size)
  if(BALEEN_JOINT_COMPILATION)
    # When the directory has been read, the target has all its files, and these their properties.
    cmake_language(EVAL CODE "cmake_language(DEFER CALL baleen_join_sources ${target} ${size})")
  endif()
endfunction()

function(baleen_join_sources target size)
  set(root ${CMAKE_BINARY_DIR}/include_roots/joint)
  file(MAKE_DIRECTORY ${root}/joint)
  foreach(folder src tests bench)
    file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${folder} ${root}/joint/${folder} SYMBOLIC)
  endforeach()
  get_target_property(sources ${target} SOURCES)
  set(alone "")
  set(group "")
  foreach(source ${sources})
    get_filename_component(path ${source} ABSOLUTE)
    set(skips OFF)
    foreach(property SKIP_UNITY_BUILD_INCLUSION COMPILE_DEFINITIONS COMPILE_OPTIONS INCLUDE_DIRECTORIES)
      get_source_file_property(value ${source} ${property})
      if(value)
        set(skips ON)
      endif()
    endforeach()
    cmake_path(IS_PREFIX CMAKE_BINARY_DIR ${path} is_generated)
    set(has_own_targets "")
    if(NOT is_generated)
      file(STRINGS ${path} has_own_targets REGEX "hwy/foreach_target.h" LIMIT_COUNT 1)
    endif()
    if(skips OR is_generated OR has_own_targets OR NOT path MATCHES "\\.cc$")
      list(APPEND alone ${source})
    else()
      file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR} ${path})
      list(APPEND group ${path})
    endif()
  endforeach()
  set(number 0)
  while(group)
    list(SUBLIST group 0 ${size} files)
    list(REMOVE_ITEM group ${files})
    list(TRANSFORM files REPLACE "(.+)" "#include \"joint/\\1\"\n")
    list(JOIN files "" text)
    set(joint ${CMAKE_CURRENT_BINARY_DIR}/${target}_joint_${number}.cc)
    file(CONFIGURE OUTPUT ${joint} CONTENT "${text}" @ONLY)  # written if it changes
    set_source_files_properties(${joint} PROPERTIES INCLUDE_DIRECTORIES ${root})
    list(APPEND alone ${joint})
    math(EXPR number "${number} + 1")
  endwhile()
  set_target_properties(${target} PROPERTIES SOURCES "${alone}")
endfunction()

# For tests: what the compiler spends on optimising them would never come back.
function(baleen_quick_compilation target)
  target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)
endfunction()

# baleen_folder(NAME ops/linear SOURCES linear.cc ... USES base tensor ... LIBRARIES
# PkgConfig::hwy ...) defines baleen_ops_linear; `#include "ops/linear/linear.h"` works in every target that
# uses ops/linear. CUDA_SOURCES are left out of builds without CUDA; kernels of a GPU architecture are folders
# of their own (ops/linear/sm90, by baleen_kernels of cmake/gpu_architectures.cmake). TARGET: another name for
# the target.
function(baleen_folder)
  cmake_parse_arguments(FOLDER "" "NAME;TARGET" "SOURCES;CUDA_SOURCES;USES;LIBRARIES" ${ARGN})
  if(BALEEN_CUDA)
    list(APPEND FOLDER_SOURCES ${FOLDER_CUDA_SOURCES})
  endif()
  if(NOT FOLDER_TARGET)
    set(FOLDER_TARGET ${FOLDER_NAME})
  endif()
  string(REPLACE "/" "_" flat ${FOLDER_TARGET})
  set(target baleen_${flat})
  string(REPLACE "/" "_" flat ${FOLDER_NAME})
  set(root ${CMAKE_BINARY_DIR}/include_roots/${flat})
  get_filename_component(parent ${root}/${FOLDER_NAME} DIRECTORY)
  file(MAKE_DIRECTORY ${parent})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR} ${root}/${FOLDER_NAME} SYMBOLIC)
  list(TRANSFORM FOLDER_USES REPLACE "/" "_")
  list(TRANSFORM FOLDER_USES PREPEND baleen_)
  if(FOLDER_SOURCES)
    add_library(${target} STATIC ${FOLDER_SOURCES})
    baleen_joint_compilation(${target} 8)
    target_include_directories(${target} PUBLIC ${root})
    target_link_libraries(${target} PUBLIC ${FOLDER_USES} ${FOLDER_LIBRARIES})
    baleen_compile_options(${target})
  else()
    add_library(${target} INTERFACE)
    target_include_directories(${target} INTERFACE ${root})
    target_link_libraries(${target} INTERFACE ${FOLDER_USES} ${FOLDER_LIBRARIES})
  endif()
endfunction()

# baleen_test(NAME tokenizer/bpe_test SOURCES bpe_test.cc USES tokenizer) adds an entry to ctest: the
# GoogleTest cases of these files. The files of one directory are one program, <directory>_tests, which
# compiles and links several times faster than a program a file. Tests run in the repository root, so that
# committed goldens and models/ are found by relative path.
# VARIANT: what it tests depends on BALEEN_CUDA, so CI runs it in a build without CUDA too (preset cpu).
# LOADS_MODULES: it loads modules of kernels, where there are any.
# RUNS_BALEEN: it starts the program, whose path tests/support/baleen_program.h has. ALONE: not compiled
# together with other files, because helpers have the names of other files' helpers.
add_custom_target(variant_tests)
add_custom_target(untrusted_input_tests)
function(baleen_test)
  set(flags VARIANT LOADS_MODULES RUNS_BALEEN ALONE)
  cmake_parse_arguments(TEST "${flags}" "NAME" "SOURCES;USES;LIBRARIES" ${ARGN})
  baleen_test_program_of_directory(program)
  target_sources(${program} PRIVATE ${TEST_SOURCES})
  if(TEST_ALONE)
    set_source_files_properties(${TEST_SOURCES} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  list(TRANSFORM TEST_USES REPLACE "/" "_")
  list(TRANSFORM TEST_USES PREPEND baleen_)
  target_link_libraries(${program} PRIVATE ${TEST_USES} ${TEST_LIBRARIES})
  list(JOIN TEST_SOURCES "," files)
  add_test(NAME ${TEST_NAME} COMMAND ${program} --files=${files} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  if(TEST_RUNS_BALEEN)
    add_dependencies(${program} baleen)
    target_link_libraries(${program} PRIVATE baleen_tests_support_program)
  endif()
  if(BALEEN_CUDA AND (TEST_VARIANT OR TEST_LOADS_MODULES))
    add_dependencies(${program} gpu_modules)
  endif()
  if(TEST_VARIANT)
    set_property(TEST ${TEST_NAME} APPEND PROPERTY LABELS variant)
    add_dependencies(variant_tests ${program})
  endif()
  baleen_label_untrusted_input(${TEST_NAME} ${program})
endfunction()

# baleen_test_of_missing(NAME app/ranks/mpi_test PACKAGE "Open MPI"): stands for a test that cannot be built
# without a package, so that its absence shows: scripts/print_results.sh counts it as failed.
function(baleen_test_of_missing)
  cmake_parse_arguments(MISSING "" "NAME;PACKAGE" "" ${ARGN})
  add_test(NAME ${MISSING_NAME}
           COMMAND ${CMAKE_COMMAND} -E echo "skipped: ${MISSING_PACKAGE} is not installed")
  set_tests_properties(${MISSING_NAME} PROPERTIES SKIP_REGULAR_EXPRESSION "^skipped: ")
endfunction()

# Tests of directories that set READS_UNTRUSTED_INPUT are those of the preset sanitized.
function(baleen_label_untrusted_input test program)
  if(READS_UNTRUSTED_INPUT)
    set_property(TEST ${test} APPEND PROPERTY LABELS untrusted_input)
    add_dependencies(untrusted_input_tests ${program})
  endif()
endfunction()

# The program that holds the tests of the current directory; the first call makes it.
function(baleen_test_program_of_directory result)
  file(RELATIVE_PATH directory ${CMAKE_SOURCE_DIR}/tests ${CMAKE_CURRENT_SOURCE_DIR})
  string(REPLACE "/" "_" program ${directory}_tests)
  set(${result} ${program} PARENT_SCOPE)
  if(TARGET ${program})
    return()
  endif()
  add_executable(${program} ${CMAKE_SOURCE_DIR}/tests/support/main.cc)
  target_link_libraries(${program} PRIVATE GTest::gtest)
  baleen_compile_options(${program})
  baleen_quick_compilation(${program})
  baleen_joint_compilation(${program} 6)
endfunction()

# The same for a test of kernels, a program of its own that is carried to a machine with a GPU: left out of
# builds without CUDA; its cases skip themselves where there is no GPU. In a folder called cuda it is a test
# of each architecture: ops/cuda/rope_test is ops/sm90/rope_test, ...
function(baleen_cuda_test)
  if(NOT BALEEN_CUDA)
    return()
  endif()
  cmake_parse_arguments(TEST "LOADS_MODULES" "NAME" "SOURCES;USES;LIBRARIES" ${ARGN})
  baleen_architectures_of_folder(architectures)
  if(NOT architectures)
    baleen_cuda_test_for("" ${TEST_NAME})
  endif()
  foreach(architecture ${architectures})
    string(REPLACE "/cuda/" "/${architecture}/" name ${TEST_NAME})
    baleen_cuda_test_for("${architecture}" ${name})
  endforeach()
endfunction()

# One of them, with the caller's TEST_SOURCES, ...; architecture "": all.
function(baleen_cuda_test_for architecture name)
  string(REPLACE "/" "_" flat ${name})
  baleen_folders_for(uses "${architecture}" ${TEST_USES})
  list(TRANSFORM uses REPLACE "/" "_")
  list(TRANSFORM uses PREPEND baleen_)
  add_executable(${flat} ${TEST_SOURCES})
  target_link_libraries(${flat} PRIVATE ${uses} baleen_device ${TEST_LIBRARIES} GTest::gtest_main)
  baleen_compile_program_for(${flat} ${architecture})
  if(TEST_LOADS_MODULES)
    add_dependencies(${flat} gpu_modules)
  endif()
  baleen_compile_options(${flat})
  baleen_quick_compilation(${flat})
  add_test(NAME ${name} COMMAND ${flat} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "[[]  SKIPPED []] [0-9]+ test")
endfunction()

# baleen_fuzzer(NAME safetensors_fuzz SOURCE safetensors_fuzz.cc USES checkpoint CORPUS dir): with clang and
# BALEEN_FUZZERS a libFuzzer program; always a ctest that replays the corpus through the same entry point.
function(baleen_fuzzer)
  cmake_parse_arguments(FUZZ "" "NAME;SOURCE;CORPUS" "USES" ${ARGN})
  list(TRANSFORM FUZZ_USES REPLACE "/" "_")
  list(TRANSFORM FUZZ_USES PREPEND baleen_)
  if(BALEEN_FUZZERS)
    add_executable(${FUZZ_NAME} ${FUZZ_SOURCE})
    target_link_libraries(${FUZZ_NAME} PRIVATE ${FUZZ_USES})
    target_compile_options(${FUZZ_NAME} PRIVATE -fsanitize=fuzzer)
    target_link_options(${FUZZ_NAME} PRIVATE -fsanitize=fuzzer)
    baleen_compile_options(${FUZZ_NAME})
  endif()
  add_executable(${FUZZ_NAME}_replay ${FUZZ_SOURCE} ${CMAKE_SOURCE_DIR}/tests/fuzz/replay_main.cc)
  target_link_libraries(${FUZZ_NAME}_replay PRIVATE ${FUZZ_USES})
  baleen_compile_options(${FUZZ_NAME}_replay)
  add_test(NAME fuzz/${FUZZ_NAME} COMMAND ${FUZZ_NAME}_replay ${FUZZ_CORPUS})
  baleen_label_untrusted_input(fuzz/${FUZZ_NAME} ${FUZZ_NAME}_replay)
endfunction()

# baleen_cuda_benchmark(NAME sm90_linear_bench SOURCES ... USES ...): a program under bench/ that verifies a
# kernel and times it; it prints rows of CSV.
function(baleen_cuda_benchmark)
  cmake_parse_arguments(BENCH "LOADS_MODULES" "NAME" "SOURCES;USES;LIBRARIES" ${ARGN})
  if(NOT BALEEN_CUDA)
    return()
  endif()
  baleen_architectures_of_folder(architecture)
  baleen_folders_for(BENCH_USES "${architecture}" ${BENCH_USES})
  list(TRANSFORM BENCH_USES REPLACE "/" "_")
  list(TRANSFORM BENCH_USES PREPEND baleen_)
  add_executable(${BENCH_NAME} ${BENCH_SOURCES})
  target_link_libraries(${BENCH_NAME} PRIVATE ${BENCH_USES} baleen_device ${BENCH_LIBRARIES})
  baleen_compile_program_for(${BENCH_NAME} ${architecture})
  if(BENCH_LOADS_MODULES)
    add_dependencies(${BENCH_NAME} gpu_modules)
  endif()
  baleen_compile_options(${BENCH_NAME})
endfunction()

# baleen_benchmark(NAME linear_bench SOURCES ... USES ...): one Google Benchmark program under bench/.
function(baleen_benchmark)
  cmake_parse_arguments(BENCH "" "NAME" "SOURCES;USES" ${ARGN})
  list(TRANSFORM BENCH_USES REPLACE "/" "_")
  list(TRANSFORM BENCH_USES PREPEND baleen_)
  add_executable(${BENCH_NAME} ${BENCH_SOURCES})
  target_link_libraries(${BENCH_NAME} PRIVATE ${BENCH_USES} benchmark::benchmark_main)
  baleen_compile_options(${BENCH_NAME})
endfunction()
