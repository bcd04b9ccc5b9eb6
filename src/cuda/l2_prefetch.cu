#include "cuda/l2_prefetch.h"

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/bulk_copy.h"
#include "cuda/ptx/grid_dependency.h"

namespace baleen {
namespace {

constexpr int kThreads = 32;
constexpr std::int64_t kPieceBytes = 4096;
constexpr std::int64_t kGranule = 16;

struct PrefetchRanges {
  const std::byte* begin[kMaxPrefetchRanges];
  std::int64_t bytes[kMaxPrefetchRanges];
  int count;
};

__global__ void __launch_bounds__(kThreads) prefetch_kernel(const __grid_constant__ PrefetchRanges ranges) {
  ptx::launch_next_kernel();
  const std::int64_t first = (std::int64_t{threadIdx.x} * gridDim.x + blockIdx.x) * kPieceBytes;
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads * kPieceBytes;
  for (int range = 0; range < ranges.count; ++range) {
    const std::int64_t bytes = ranges.bytes[range];
    for (std::int64_t at = first; at < bytes; at += stride) {
      ptx::bulk_prefetch_l2(ranges.begin[range] + at,
                            static_cast<std::uint32_t>(min(kPieceBytes, bytes - at)));
    }
  }
  ptx::wait_for_previous_kernel();  // whoever waits for this kernel means what came before it too
}

}  // namespace

void prefetch_to_l2(std::span<const std::span<const std::byte>> ranges, int num_sms, CUstream_st* stream) {
  BALEEN_CHECK_LE(ranges.size(), kMaxPrefetchRanges);
  PrefetchRanges all{};
  for (const std::span<const std::byte> range : ranges) {
    BALEEN_CHECK_EQ(reinterpret_cast<std::uintptr_t>(range.data()) % kGranule, 0U);
    all.begin[all.count] = range.data();
    all.bytes[all.count++] = static_cast<std::int64_t>(range.size()) / kGranule * kGranule;
  }
  launch_kernel("prefetching", prefetch_kernel,
                {.grid = dim3(static_cast<unsigned>(num_sms)), .threads = kThreads}, stream, all);
}

}  // namespace baleen
