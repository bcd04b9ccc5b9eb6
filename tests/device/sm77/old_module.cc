// A module that another revision of the sources made.

#include "base/program_module.h"
#include "device/gpu_module.h"

BALEEN_EXPORTED const char* baleen_gpu_module_sources() { return "of yesterday"; }

BALEEN_EXPORTED const baleen::GpuModule* baleen_gpu_module() { return nullptr; }
