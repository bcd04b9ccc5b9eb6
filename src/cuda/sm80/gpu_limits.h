/// The limits of a GPU, as far as instructions of sm_80 reach them.
#pragma once

#include "cuda/gpu_limits.h"

struct CUstream_st;

namespace baleen::sm80 {

/// Of the current GPU. Takes some 50 ms and 2 GB of device memory for as long (less where less is free).
/// Medians. Throws `Error`.
[[nodiscard]] GpuLimits measure_gpu_limits(CUstream_st* stream, int num_sms);

}  // namespace baleen::sm80
