# CUDA: modules of kernels are targets where nvcc is found. The runtime is linked into them statically and
# finds the driver at run time.

option(BALEEN_CUDA "Kernels for GPUs are targets (on by default where nvcc 12.3 or later is)" ON)
if(CMAKE_CROSSCOMPILING OR BALEEN_SANITIZE OR BALEEN_FUZZERS)
  set(BALEEN_CUDA OFF)
endif()
if(BALEEN_CUDA)
  find_program(BALEEN_NVCC nvcc HINTS /usr/local/cuda/bin $ENV{CUDA_HOME}/bin)
  if(NOT BALEEN_NVCC)
    message(STATUS "no nvcc: building without CUDA")
    set(BALEEN_CUDA OFF)
  endif()
endif()

if(BALEEN_CUDA)
  set(CMAKE_CUDA_COMPILER ${BALEEN_NVCC})
  set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
  set(CMAKE_CUDA_ARCHITECTURES OFF)  # cmake/gpu_architectures.cmake gives the flags
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  if(CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  endif()
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 knows of nvcc's C++20 with Microsoft's compiler alone
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  # -lineinfo lets profilers name lines. fmt 9 believes that nvcc has no constexpr and then uses it all the
  # same.
  add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-lineinfo;-DFMT_USE_CONSTEXPR=1>")
  find_package(CUDAToolkit REQUIRED)
endif()
