// The module of the made-up architecture: a real one's says CudaModule.

#include "base/program_module.h"
#include "tests/device/sm77/made_up_module.h"
#include "tests/device/sm77/sm77.h"

BALEEN_EXPORTED const char* baleen_gpu_module_sources() { return baleen::gpu_module_sources(); }

BALEEN_EXPORTED const baleen::GpuModule* baleen_gpu_module() {
  static const baleen::MadeUpModule module(baleen::sm77::kernels());
  return &module;
}
