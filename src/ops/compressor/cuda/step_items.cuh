/// A step's positions by the entries that they make, `ratio` positions each: what one thread block (or
/// cluster) of the compressor works on.
///
/// Where entries overlap, the first two of a sequence that goes on inside an entry both reach back into
/// its ring, and what the step writes to the ring may overwrite what they read. So they are one item, which
/// writes the ring when it has read it. Other items read nothing but the step's own rows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/device_batch.h"
#include "cuda/warp_reduce.cuh"

namespace baleen::BALEEN_ARCH {

inline constexpr int kOverlappingRatio = 4;

/// No batch of these extents has more items, whatever its positions: graphs are captured for extents. A
/// sequence of n rows touches at most ceil(n / ratio) entries, and one more where it begins inside an entry.
template <int kRatio>
constexpr std::int64_t max_step_items(std::int64_t num_rows, std::int64_t num_sequences) {
  const std::int64_t sum_of_ceilings = (num_rows + (kRatio - 1) * num_sequences) / kRatio;
  const bool first_two_are_one = kRatio == kOverlappingRatio;
  return std::min(num_rows, sum_of_ceilings + (first_two_are_one ? 0 : num_sequences));
}

struct StepItem {
  DeviceSequence sequence;
  int first_entry = 0;
  int last_entry = 0;
  bool first_of_sequence = false;
};

/// How many items a sequence has. `start` and `num_tokens` as in DeviceSequence.
template <int kRatio>
__device__ int num_step_items(int start, int num_tokens) {
  if (num_tokens <= 0) return 0;
  const int num_entries = (start + num_tokens - 1) / kRatio - start / kRatio + 1;
  const bool first_two_are_one = kRatio == kOverlappingRatio && start % kRatio != 0;
  return first_two_are_one ? max(1, num_entries - 1) : num_entries;
}

/// Item `index` of the batch, to all lanes of the calling warp; false when there are fewer.
template <int kRatio>
__device__ bool find_step_item(const DeviceBatch& batch, int index, StepItem& item) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  for (int first = 0; first < batch.num_sequences; first += kWarpLanes) {
    int count = 0;
    if (first + lane < batch.num_sequences) {
      const DeviceSequence& sequence = batch.sequences[first + lane];
      count = num_step_items<kRatio>(sequence.start, sequence.num_tokens);
    }
    const int end = warp_inclusive_sum(count);
    const unsigned beyond = __ballot_sync(kAllLanes, index < end);
    if (beyond == 0) {
      index -= __shfl_sync(kAllLanes, end, kWarpLanes - 1);
      continue;
    }
    const int holder = __ffs(static_cast<int>(beyond)) - 1;
    item.sequence = batch.sequences[first + holder];
    const int local = index - __shfl_sync(kAllLanes, end - count, holder);
    const int start = item.sequence.start;
    const int last_of_step = (start + item.sequence.num_tokens - 1) / kRatio;
    const int merged = kRatio == kOverlappingRatio && start % kRatio != 0 ? 1 : 0;
    item.first_of_sequence = local == 0;
    item.last_entry = min(start / kRatio + local + merged, last_of_step);
    item.first_entry = local == 0 ? start / kRatio : item.last_entry;
    return true;
  }
  return false;
}

}  // namespace baleen::BALEEN_ARCH
