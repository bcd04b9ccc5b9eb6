/// What this machine can do at most, measured: the two limits that every operation is held against.
#pragma once

#include <string>

#include "parallel/thread_pool.h"

namespace baleen {

struct MachineLimits {
  double read_bytes_per_second = 0;  ///< streaming reads from memory by all threads
  double fma_flops_per_second = 0;   ///< float32 multiply-adds from registers by all threads, two FLOPs each
};

/// Takes about a second. Medians of 15 runs (on a shared machine a single burst is no limit that can be
/// held), on the pool that will do the work; instruction set as limited.
[[nodiscard]] MachineLimits measure_machine_limits(ThreadPool& pool);

/// What the processor calls itself, e.g. "AMD EPYC 9554"; "unknown" where the system does not say.
[[nodiscard]] std::string processor_name();

}  // namespace baleen
