/// What measurements of a GPU's limits have in common. For files that nvcc compiles.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "cuda/cuda_error.h"
#include "cuda/cuda_memory.h"
#include "cuda/cuda_stream.h"
#include "tensor/buffer.h"

namespace baleen {

/// Of nine runs of what `work` queues on `stream`, after one that does not count.
template <class Work>
[[nodiscard]] double median_seconds(cudaStream_t stream, Work&& work) {
  constexpr int kRepeats = 9;
  std::array<double, kRepeats> seconds{};
  work();
  for (double& time : seconds) {
    CudaEvent begin, end;
    begin.record(stream);
    work();
    end.record(stream);
    end.wait();
    time = begin.seconds_until(end);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[kRepeats / 2];
}

/// From device to device memory: bytes read plus bytes written.
[[nodiscard]] inline double copied_bytes_per_second(cudaStream_t stream) {
  std::size_t free_bytes = 0, total_bytes = 0;
  check_cuda(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for free memory");
  constexpr std::int64_t kCopyBytes = std::int64_t{1} << 30;
  const std::int64_t size = std::min(kCopyBytes, static_cast<std::int64_t>(free_bytes / 4) / 1024 * 1024);
  CudaMemory memory(stream);
  const Buffer from(size, memory), to(size, memory);
  return 2.0 * static_cast<double>(size) /
         median_seconds(stream, [&] { memory.copy(to.data(), from.data(), size); });
}

}  // namespace baleen
