/// How a hyper-connection site is cut over blocks and warps.
///
/// The channels, the same of all four streams, are cut into up to 16 slices, of "ranks", each for a block. A
/// slice is whole blocks of channels and goes to the warps in chunks of 32 channels, chunk c to warp c %
/// 8. The cut depends on the width alone: so does the order in which products are added, and a token's
/// results are the same in any batch.
#pragma once

#include <cstdint>

#include "numeric/block_scale.h"

namespace baleen::sm90 {

inline constexpr int kHcStreams = 4;
inline constexpr int kHcMixes = (2 + kHcStreams) * kHcStreams;
inline constexpr int kHcBlock = kActivationBlock;  ///< channels that share a scale
inline constexpr int kHcChunk = 32;
inline constexpr int kHcChunksPerBlock = kHcBlock / kHcChunk;
inline constexpr int kHcStreamWarps = 8;  ///< of a block
inline constexpr int kHcStreamThreads = 32 * kHcStreamWarps;
inline constexpr int kHcMaxRanks = 16;
inline constexpr int kHcMaxSlice = 1024;    ///< channels of a rank
inline constexpr int kHcOctet = 8;          ///< tokens that a matrix instruction takes
inline constexpr int kHcMaxBatchUnits = 4;  ///< (octet, chunk) pairs that a warp holds of one batch of tokens
inline constexpr int kHcMaxBatchTokens = kHcMaxBatchUnits * kHcOctet;

/// Slices of streams of that width.
__host__ __device__ constexpr int hc_ranks(int width) {
  return width / kHcBlock < kHcMaxRanks ? width / kHcBlock : kHcMaxRanks;
}

/// Chunks that a warp has at most.
__host__ __device__ constexpr int hc_chunks_per_warp(int width) {
  const int blocks = (width / kHcBlock + hc_ranks(width) - 1) / hc_ranks(width);
  return (blocks * kHcChunksPerBlock + kHcStreamWarps - 1) / kHcStreamWarps;
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

  [[nodiscard]] __device__ int first_channel() const { return first_block(rank_) * kHcBlock; }
  [[nodiscard]] __device__ int num_channels() const { return num_blocks() * kHcBlock; }
  [[nodiscard]] __device__ int num_blocks() const {
    if (blocks() % ranks() == 0) return blocks() / ranks();
    return first_block(rank_ + 1) - first_block(rank_);
  }
  [[nodiscard]] __device__ int num_chunks() const { return num_blocks() * kHcChunksPerBlock; }
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
  [[nodiscard]] __device__ int blocks() const { return width() / kHcBlock; }
  [[nodiscard]] __device__ int first_block(int rank) const { return rank * blocks() / ranks(); }

  int width_, rank_;
};

}  // namespace baleen::sm90
