// The module of sm80.

#include "base/program_module.h"
#include "device/cuda/cuda_module.h"
#include "device/sm80/kernels.h"

BALEEN_EXPORTED const char* baleen_gpu_module_sources() { return baleen::gpu_module_sources(); }

BALEEN_EXPORTED const baleen::GpuModule* baleen_gpu_module() {
  static const baleen::CudaModule module("sm80", baleen::sm80::kernels());
  return &module;
}
