/// Brings memory into L2 for kernels to come, while others leave the memory idle.
#pragma once

#include <cstddef>
#include <span>

struct CUstream_st;  // cudaStream_t without the toolkit's headers

namespace baleen {

constexpr std::size_t kMaxPrefetchRanges = 4;

/// Queues it: at most `kMaxPrefetchRanges`, which begin on 16 bytes. Waits for nothing but ends, as any kernel does, when
/// what is before it on `stream` has ended.
void prefetch_to_l2(std::span<const std::span<const std::byte>> ranges, int num_sms, CUstream_st* stream);

}  // namespace baleen
