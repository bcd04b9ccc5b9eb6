/// How a hyper-connection site is cut over blocks and warps.
///
/// The channels, the same of all four streams, are cut into up to 32 slices, of "ranks", each for a block. A
/// slice is whole scale groups of channels and goes to the warps in chunks of 32 channels, chunk c to warp
/// c % 8. Two groups are a chunk for each warp, whose part of `fn` then stays in registers. The cut depends
/// on the width alone: so does the order in which products are added, and a token's results are the same in
/// any batch.
#pragma once

#include <cstdint>

#include "numeric/block_scale.h"

namespace baleen::BALEEN_ARCH {

inline constexpr int kHcStreams = 4;
inline constexpr int kHcMixes = (2 + kHcStreams) * kHcStreams;
inline constexpr int kHcChunk = 32;
inline constexpr int kHcChunksPerGroup = kActivationGroup / kHcChunk;
inline constexpr int kHcStreamWarps = 8;  ///< warps that a block has
inline constexpr int kHcStreamThreads = 32 * kHcStreamWarps;
inline constexpr int kHcMaxRanks = 32;
inline constexpr int kHcMaxWidth = 16 * 1024;
inline constexpr int kHcOctet = 8;          ///< tokens that a matrix instruction takes
inline constexpr int kHcMaxBatchUnits = 4;  ///< (octet, chunk) pairs that a warp holds of one batch of tokens
inline constexpr int kHcMaxBatchTokens = kHcMaxBatchUnits * kHcOctet;

/// Slices of streams of that width: of one group up to 16 of them, then of one or two, as long as there are
/// ranks for that.
__host__ __device__ constexpr int hc_ranks(int width) {
  constexpr int kSingle = 16;
  const int groups = width / kActivationGroup, halves = (groups + 1) / 2;
  if (groups < kSingle) return groups;
  return halves < kSingle ? kSingle : halves < kHcMaxRanks ? halves : kHcMaxRanks;
}

/// Chunks that a warp has at most.
__host__ __device__ constexpr int hc_chunks_per_warp(int width) {
  const int groups = (width / kActivationGroup + hc_ranks(width) - 1) / hc_ranks(width);
  return (groups * kHcChunksPerGroup + kHcStreamWarps - 1) / kHcStreamWarps;
}

/// The part of one rank. `kWidth` 0: streams of the width given at run time, else of that one, which leaves
/// no arithmetic to the kernel.
template <int kWidth>
class HcSlice {
 public:
  __device__ HcSlice(int width, int rank) : width_(width), rank_(rank) {}

  [[nodiscard]] __device__ int width() const { return kWidth > 0 ? kWidth : width_; }
  [[nodiscard]] __device__ int rank() const { return rank_; }
  [[nodiscard]] __device__ int ranks() const { return hc_ranks(width()); }
  [[nodiscard]] __device__ int chunks_per_warp() const { return hc_chunks_per_warp(width()); }

  [[nodiscard]] __device__ int first_channel() const { return first_group(rank_) * kActivationGroup; }
  [[nodiscard]] __device__ int num_groups() const {
    if (groups() % ranks() == 0) return groups() / ranks();
    return first_group(rank_ + 1) - first_group(rank_);
  }
  [[nodiscard]] __device__ int num_chunks() const { return num_groups() * kHcChunksPerGroup; }
  /// Warps that have a chunk.
  [[nodiscard]] __device__ int num_warps() const {
    return num_chunks() < kHcStreamWarps ? num_chunks() : kHcStreamWarps;
  }
  /// Whether warp `warp` has a chunk number `index`, which is chunk warp + 8 index.
  [[nodiscard]] __device__ bool has_chunk(int warp, int index) const {
    if (num_chunks() == chunks_per_warp() * kHcStreamWarps) return index < chunks_per_warp();
    return warp + index * kHcStreamWarps < num_chunks();
  }

 private:
  [[nodiscard]] __device__ int groups() const { return width() / kActivationGroup; }
  [[nodiscard]] __device__ int first_group(int rank) const { return rank * groups() / ranks(); }

  int width_, rank_;
};

/// sum = post f + sum_j comb[j] x[j], not yet rounded; `post` and `comb` [source] of the stream that is
/// computed.
template <int kChannels>
__device__ inline void leave_sublayer(float post, const float (&comb)[kHcStreams],
                                      const float (&f)[kChannels], const float (&x)[kHcStreams][kChannels],
                                      float (&sum)[kChannels]) {
#pragma unroll
  for (int c = 0; c < kChannels; ++c) sum[c] = post * f[c];
#pragma unroll
  for (int j = 0; j < kHcStreams; ++j) {
#pragma unroll
    for (int c = 0; c < kChannels; ++c) sum[c] = fmaf(comb[j], x[j][c], sum[c]);
  }
}

}  // namespace baleen::BALEEN_ARCH
