/// Experts' outputs of a token, wherever they are, added up in the order of one rank.
#pragma once

#include "cuda/bf16_vector.cuh"
#include "cuda/ptx/system_memory.h"
#include "ops/dispatch/cuda/dispatch.h"

namespace baleen::BALEEN_ARCH {

inline constexpr int kSumValues = 8;  ///< values that a thread adds

/// The expert of the lane's slot of a token; -1: there is none.
__device__ inline std::int32_t id_of_lane(const CombineLaunch& p, int token) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return token < p.num_tokens && lane < p.num_selected ? p.ids[token * p.num_selected + lane] : -1;
}

/// Holders and addresses of the token's outputs, in ascending expert, then slot. `id`: id_of_lane().
/// `row_of(place, slot)`: that of a slot whose expert is at `place`; null: it never came. One warp's work.
template <class RowOf>
__device__ void find_rows(const CombineLaunch& p, int token, std::int32_t id, const Bf16Bits** rows,
                          int* holders, int* count, RowOf&& row_of) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first = token * p.num_selected;
  int place = 0;
  for (int other = 0; other < p.num_selected; ++other) {
    const std::int32_t other_id = __shfl_sync(0xFFFFFFFFu, id, other);
    place += other_id >= 0 && (other_id < id || (other_id == id && other < lane)) ? 1 : 0;
  }
  if (id >= 0) {
    holders[place] = p.holders.place_of(p.holders.physical(id, first + lane));
    rows[place] = row_of(holders[place], first + lane);
  }
  const int found = __popc(__ballot_sync(0xFFFFFFFFu, id >= 0));
  if (lane == 0) *count = found;
}

__device__ inline void add_values(float (&sum)[kSumValues], const uint4& words) {
  float values[kSumValues];
  unpack_bf16(words, values);
#pragma unroll
  for (int i = 0; i < kSumValues; ++i) sum[i] += values[i];
}

/// The token's values at `column`: `count` rows that this or another GPU has, and the shared expert's.
/// `settle(i, at, words)`: the words of row i, of which a first load has given `words`.
template <class Settle>
__device__ void add_rows(const CombineLaunch& p, const Bf16Bits* const* rows, int count, int token,
                         std::int64_t column, Settle&& settle) {
  constexpr int kLoadsInFlight = 8;
  float sum[kSumValues] = {};
  for (int first = 0; first < count; first += kLoadsInFlight) {
    uint4 words[kLoadsInFlight] = {};
    const auto at = [&](int i) { return reinterpret_cast<const uint4*>(rows[first + i] + column); };
#pragma unroll
    for (int i = 0; i < kLoadsInFlight; ++i) {
      if (first + i < count && rows[first + i] != nullptr) words[i] = ptx::load_remote(at(i));
    }
#pragma unroll
    for (int i = 0; i < kLoadsInFlight; ++i) {
      if (first + i < count) add_values(sum, settle(first + i, at(i), words[i]));
    }
  }
  if (p.shared != nullptr)
    add_values(sum, *reinterpret_cast<const uint4*>(p.shared + token * p.width + column));
  *reinterpret_cast<uint4*>(p.out + token * p.width + column) = pack_bf16(sum);
}

}  // namespace baleen::BALEEN_ARCH
