/// What a pass over the logits of a row adds up, and what top-k and top-p ask of the sum.
#pragma once

#include <cstdint>

#include "cuda/warp_reduce.cuh"

namespace baleen::BALEEN_ARCH::sample_kernels {

/// How many candidates, and their probability: the likeliest's is kUnits. Integers: any order of additions
/// gives one sum.
struct Share {
  std::uint64_t mass;
  std::int32_t count;
};
inline constexpr int kHighBits = 14, kLowBits = 24;  // of a unit, see PackedShare
inline constexpr double kUnits = static_cast<double>(std::uint64_t{1} << (kHighBits + kLowBits));

/// A share as a warp tells it. Sums of a row's 128 fit each of the words, so that a warp adds them up by its
/// reductions of 32-bit integers.
struct PackedShare {
  std::uint32_t high;  ///< units of 2^-14 of the mass: at most 2^31 in a row
  std::uint32_t low;   ///< the rest, in units of 2^-38: 24 bits
  std::uint32_t count;

  /// `mass` of a lane, at most kMaxSteps.
  __device__ static PackedShare sum_of_warp(float mass, int count) {
    constexpr float kHigh = 1 << kHighBits, kLow = 1 << kLowBits;
    const float scaled = mass * kHigh, whole = truncf(scaled);
    PackedShare sum =
        of_warp({static_cast<std::uint32_t>(whole), static_cast<std::uint32_t>((scaled - whole) * kLow),
                 static_cast<std::uint32_t>(count)});
    sum.high += sum.low >> kLowBits;
    sum.low &= (1u << kLowBits) - 1;
    return sum;
  }
  __device__ static PackedShare of_warp(const PackedShare& mine) {
    return {__reduce_add_sync(kAllLanes, mine.high), __reduce_add_sync(kAllLanes, mine.low),
            __reduce_add_sync(kAllLanes, mine.count)};
  }
  __device__ std::uint64_t mass() const { return (std::uint64_t{high} << kLowBits) + low; }
  __device__ Share share() const { return {mass(), static_cast<std::int32_t>(count)}; }
};

/// Of some logits: the order of the largest and its id (the lowest of equals), and the order of the smallest.
struct Extremes {
  std::uint32_t best;
  std::uint32_t id;
  std::uint32_t worst;
};

/// A candidate near the end of a prefix, or the last one kept.
struct Candidate {
  std::uint32_t order;
  std::uint32_t id;
  float weight;

  __device__ bool before(const Candidate& other) const {
    return order > other.order || (order == other.order && id < other.id);
  }
};

/// At least k candidates.
struct TopK {
  int k;
  __device__ bool reached(const Share& share) const { return share.count >= k; }
  /// How many of equal candidates to add to `above`; one has that weight.
  __device__ int wanted(const Share& above, float /*weight*/) const { return k - above.count; }
};

/// At least that mass.
struct TopP {
  std::uint64_t mass;
  __device__ bool reached(const Share& share) const { return share.mass >= mass; }
  __device__ int wanted(const Share& above, float weight) const {
    constexpr double kMaxEquals = 1 << 30;
    const double count =
        ceil(static_cast<double>(mass - above.mass) / (kUnits * static_cast<double>(weight)));
    return static_cast<int>(fmin(fmax(count, 1.0), kMaxEquals));
  }
};

/// The first lane whose share of a line of masses, laid end to end, holds `target`; what is left of that
/// inside it.
__device__ inline int pick(double mass, double& target) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const double end = warp_inclusive_sum(mass);
  const double before = __shfl_up_sync(kAllLanes, end, 1);
  const unsigned with_mass = __ballot_sync(kAllLanes, mass > 0.0);
  const unsigned holds = __ballot_sync(kAllLanes, mass > 0.0 && target < end);
  // Rounding can leave a target just past the end: it belongs to the last that has any.
  const int chosen =
      holds != 0 ? __ffs(static_cast<int>(holds)) - 1 : kWarpLanes - 1 - __clz(static_cast<int>(with_mass));
  target -= __shfl_sync(kAllLanes, lane == 0 ? 0.0 : before, chosen);
  return chosen;
}

}  // namespace baleen::BALEEN_ARCH::sample_kernels
