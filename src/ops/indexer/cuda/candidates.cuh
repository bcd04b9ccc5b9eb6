/// The best of a stream of scored keys, kept by a block in shared memory: top_k.h for a GPU.
///
/// A candidate is one integer that orders as `better` does, so selections are exact, and no two candidates of
/// a query are equal. The k-th best is found by narrowing: a histogram of 256 equal bins over the range of
/// the candidates, then of the bin it lies in, and so on. Scores of one query lie close together, so two
/// histograms usually do.
#pragma once

#include <cstdint>

#include "cuda/ordered_float.cuh"
#include "cuda/warp_reduce.cuh"

namespace baleen::BALEEN_ARCH::index_kernels {

/// The greater the better: the score's bits, reordered, above the complement of the index. Never 0.
using Candidate = std::uint64_t;

/// `score` is not NaN (lowest_if_nan).
__device__ inline Candidate candidate(float score, std::int32_t index) {
  return static_cast<Candidate>(order_of_float(score)) << 32 | ~static_cast<std::uint32_t>(index);
}
__device__ inline std::uint32_t ordered_score(Candidate candidate) {
  return static_cast<std::uint32_t>(candidate >> 32);
}
__device__ inline float score_of(Candidate candidate) { return float_of_order(ordered_score(candidate)); }
__device__ inline std::int32_t index_of(Candidate candidate) {
  return static_cast<std::int32_t>(~static_cast<std::uint32_t>(candidate));
}
__device__ inline float lowest_if_nan(float score) { return fmaxf(score, -__uint_as_float(0x7F800000u)); }

inline constexpr int kNumBins = 256;

/// Shared memory of a block while it selects.
struct SelectionSpace {
  std::uint32_t bins[kNumBins];
  std::uint32_t lowest, highest;  ///< ordered scores
  int bin, above, inside;         ///< where the wanted rank lies, and how many candidates lie above and in it
  int kept;
  int warp_totals[kWarpLanes];
};

/// By one warp: the bin in which the `rank`-th from the top lies.
__device__ inline void find_bin(int rank, SelectionSpace& space) {
  constexpr int kBinsPerLane = kNumBins / kWarpLanes;
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int top = kNumBins - 1 - lane * kBinsPerLane;  // lane 0 has the highest bins
  int own = 0;
  for (int i = 0; i < kBinsPerLane; ++i) own += static_cast<int>(space.bins[top - i]);
  const int until = warp_inclusive_sum(own);
  int above = until - own;
  if (above >= rank || until < rank) return;
  int bin = top;
  while (above + static_cast<int>(space.bins[bin]) < rank) above += static_cast<int>(space.bins[bin--]);
  space.bin = bin;
  space.above = above;
  space.inside = static_cast<int>(space.bins[bin]);
}

/// By the whole block: a bound that at least `keep` and at most `most` of the candidates reach; keep <= most
/// < count. Begins and ends with a barrier.
template <int kThreads>
__device__ Candidate bound_of_best(const Candidate* candidates, int count, int keep, int most,
                                   SelectionSpace& space) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    space.lowest = 0xFFFFFFFFu;
    space.highest = 0;
  }
  __syncthreads();
  std::uint32_t lowest = 0xFFFFFFFFu, highest = 0;
  for (int i = thread; i < count; i += kThreads) {
    const std::uint32_t score = ordered_score(candidates[i]);
    lowest = min(lowest, score);
    highest = max(highest, score);
  }
  lowest = __reduce_min_sync(kAllLanes, lowest);
  highest = __reduce_max_sync(kAllLanes, highest);
  if (thread % kWarpLanes == 0) {
    atomicMin(&space.lowest, lowest);
    atomicMax(&space.highest, highest);
  }
  __syncthreads();
  Candidate first = static_cast<Candidate>(space.lowest) << 32;
  Candidate last = static_cast<Candidate>(space.highest) << 32 | 0xFFFFFFFFu;
  int above = 0;
  while (true) {
    constexpr int kBinBits = 8;
    const int width_bits = 64 - __clzll(static_cast<long long>(last - first));
    const int shift = max(0, width_bits - kBinBits);
    for (int i = thread; i < kNumBins; i += kThreads) space.bins[i] = 0;
    __syncthreads();
    for (int i = thread; i < count; i += kThreads) {
      const Candidate one = candidates[i];
      if (one >= first && one <= last) atomicAdd(&space.bins[(one - first) >> shift], 1u);
    }
    __syncthreads();
    if (thread < kWarpLanes) find_bin(keep - above, space);
    __syncthreads();
    first += static_cast<Candidate>(space.bin) << shift;
    last = first + min(last - first, (Candidate{1} << shift) - 1);
    above += space.above;
    if (shift == 0 || above + space.inside <= most) return first;
  }
}

/// By a warp: makes room for one element for each lane with `wanted`, and says where the lane's goes.
__device__ inline int append_position(bool wanted, int* count) {
  const unsigned wanting = __ballot_sync(kAllLanes, wanted);
  if (wanting == 0) return 0;
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  int first = 0;
  if (lane == 0) first = atomicAdd(count, __popc(wanting));
  return __shfl_sync(kAllLanes, first, 0) + __popc(wanting & ((1u << lane) - 1));
}

/// By the whole block: only candidates that reach `bound` stay, at the front; how many. Begins and ends with
/// a barrier.
template <int kThreads>
__device__ int drop_below(Candidate bound, Candidate* candidates, int count, SelectionSpace& space) {
  constexpr int kBatch = 4;
  if (threadIdx.x == 0) space.kept = 0;
  for (int begin = 0; begin < count; begin += kBatch * kThreads) {
    Candidate own[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int at = begin + i * kThreads + static_cast<int>(threadIdx.x);
      own[i] = at < count ? candidates[at] : 0;
    }
    __syncthreads();  // what is written below, at the front, has been read
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int to = append_position(own[i] >= bound, &space.kept);
      if (own[i] >= bound) candidates[to] = own[i];
    }
  }
  __syncthreads();
  return space.kept;
}

/// By the whole block: the indices of the candidates that reach `bound`, ascending, then -1, `top_k` in all.
/// Indices are below `num_keys`. They pass through a bitmap of `bitmap_words` words, as often as it takes.
/// Begins and ends with a barrier.
template <int kThreads>
__device__ void write_ascending(Candidate bound, const Candidate* candidates, int count, int num_keys,
                                std::uint32_t* bitmap, int bitmap_words, std::int32_t* selected, int top_k,
                                SelectionSpace& space) {
  constexpr int kWarps = kThreads / kWarpLanes;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarpLanes, lane = thread % kWarpLanes;
  int written = 0;
  for (int first = 0; first < num_keys; first += 32 * bitmap_words) {
    const int words = min(bitmap_words, (num_keys - first + 31) / 32);
    __syncthreads();
    for (int i = thread; i < words; i += kThreads) bitmap[i] = 0;
    __syncthreads();
    for (int i = thread; i < count; i += kThreads) {
      const int bit = index_of(candidates[i]) - first;
      if (candidates[i] >= bound && bit >= 0 && bit < 32 * words) atomicOr(&bitmap[bit / 32], 1u << bit % 32);
    }
    __syncthreads();
    const int words_each = (words + kThreads - 1) / kThreads;
    const int begin = min(words, thread * words_each), end = min(words, begin + words_each);
    int own = 0;
    for (int i = begin; i < end; ++i) own += __popc(bitmap[i]);
    const int until = warp_inclusive_sum(own);
    if (lane == kWarpLanes - 1) space.warp_totals[warp] = until;
    __syncthreads();
    int at = written + until - own;
    for (int i = 0; i < kWarps; ++i) {
      const int total = space.warp_totals[i];
      if (i < warp) at += total;
      written += total;
    }
    for (int i = begin; i < end; ++i) {
      for (std::uint32_t bits = bitmap[i]; bits != 0; bits &= bits - 1) {
        selected[at++] = first + 32 * i + __ffs(static_cast<int>(bits)) - 1;
      }
    }
  }
  for (int i = written + thread; i < top_k; i += kThreads) selected[i] = -1;
  __syncthreads();
}

/// By the whole block: 0, 1, ... count - 1, then -1: what is selected when no more than fit are visible.
template <int kThreads>
__device__ void write_all(int count, std::int32_t* selected, int top_k) {
  for (int i = static_cast<int>(threadIdx.x); i < top_k; i += kThreads) selected[i] = i < count ? i : -1;
}

}  // namespace baleen::BALEEN_ARCH::index_kernels
