/// The streams of some tokens in the hands of a block: copied into shared memory, out of a half-block, and
/// into the products with fn.
///
/// A block has a slice of the channels (hc_slices.cuh) of a batch of up to 32 tokens at a time. A thread
/// always has the same eight channels of the same token of an octet, from the copy into shared memory that it
/// makes itself to the last use:
/// no thread waits for another's copy.
#pragma once

#include <cstdint>

#include "cuda/bf16_vector.cuh"
#include "cuda/ptx/cp_async.h"
#include "cuda/warp_reduce.cuh"
#include "ops/hc_pre/sm90/hc_leave.cuh"
#include "ops/hc_pre/sm90/hc_products.cuh"
#include "ops/hc_pre/sm90/hc_site_args.h"
#include "ops/hc_pre/sm90/hc_slices.cuh"

namespace baleen::sm90 {

/// What a thread has of a token's eight channels, 16 bytes each: x, then x', of every stream; f.
inline constexpr int kHcPieces = kHcStreams + 1;
inline constexpr int kHcPieceF = kHcStreams;

/// Sums of a token: of squares, then (from the fourth on) the 24 products.
inline constexpr int kHcFirstProduct = 4;
inline constexpr int kHcSums = kHcFirstProduct + kHcMixes;

struct alignas(16) HcStreamsShared {
  float warp_sums[kHcStreamWarps][kHcMaxBatchTokens][kHcSums];
  /// comb, then post, of the half-block that is left; batches alternate.
  float left[2][kHcMaxBatchTokens][kHcStreams * kHcStreams + kHcStreams];
};

/// Octets of a batch for streams of that width, and the bytes of `buffers` batches of `octets`.
__host__ __device__ constexpr int hc_most_octets(int width) {
  const int octets = kHcMaxBatchUnits / hc_chunks_per_warp(width);
  return octets > 1 ? octets : 1;
}
__host__ __device__ constexpr std::int64_t hc_slot_bytes(int width, int buffers, int octets) {
  return std::int64_t{buffers} * octets * hc_chunks_per_warp(width) * kHcPieces * kHcStreamThreads * 16;
}
__host__ __device__ constexpr int hc_octets(int tokens) { return (tokens + kHcOctet - 1) / kHcOctet; }

template <bool kLeaving, int kWidth>
class HcStreams {
 public:
  /// `slots`: `hc_slot_bytes` of shared memory for batches of `octets_per_batch`.
  __device__ HcStreams(const HcSiteArgs& args, const HcSlice<kWidth>& slice, HcStreamsShared& shared,
                       std::byte* slots, int octets_per_batch)
      : args_(args),
        slice_(slice),
        shared_(shared),
        slots_(reinterpret_cast<uint4*>(slots)),
        octets_per_batch_(octets_per_batch),
        thread_(static_cast<int>(threadIdx.x)),
        warp_(thread_ / kWarpLanes),
        lane_(thread_ % kWarpLanes),
        group_(lane_ / 4),
        quarter_(lane_ % 4) {}

  /// Of fn, where a warp's part stays in its registers; else `multiply` loads what it needs.
  __device__ void load(HcFragments& fragments) const {
    if (slice_.chunks_per_warp() == 1 && slice_.has_chunk(warp_, 0)) {
      fragments.load(args_.fn + channel_of_chunk(0), slice_.width(), lane_);
    }
  }

  /// Begins to copy what batch `batch`, of `tokens` rows from `first_row` on, needs.
  __device__ void copy(int batch, int first_row, int tokens) const {
    // Unrolled, because a copy holds on to the registers with its addresses until it is done.
#pragma unroll
    for (int octet = 0; octet < kHcMaxBatchUnits; ++octet) {
      if (octet >= hc_octets(tokens)) break;
      const int token = octet * kHcOctet + group_;
      const bool valid = token < tokens;
      const int row = valid ? first_row + token : first_row;
      for (int i = 0; slice_.has_chunk(warp_, i); ++i) {
        const int channel = channel_of_chunk(i);
        const std::uint16_t* const x = stream_values(row, channel);
        uint4* const to = slot(batch, octet, i, thread_);
#pragma unroll
        for (int j = 0; j < kHcStreams; ++j) {
          ptx::cp_async_16(to + j * kHcStreamThreads, x + j * slice_.width(), valid);
        }
        if constexpr (kLeaving) {
          ptx::cp_async_16(to + kHcPieceF * kHcStreamThreads,
                           args_.f + std::int64_t{row} * slice_.width() + channel, valid);
        }
      }
    }
    if constexpr (kLeaving) {
      constexpr int kQuads = kHcStreams + 1;  // rows of comb, and post
      const int token = thread_ / kQuads, quad = thread_ % kQuads;
      if (token < tokens) {
        const std::int64_t row = first_row + token;
        const float* from = quad < kHcStreams ? args_.left_comb + (row * kHcStreams + quad) * kHcStreams
                                              : args_.left_post + row * kHcStreams;
        ptx::cp_async_16(&shared_.left[batch % 2][token][quad * kHcStreams], from);
      }
    }
    ptx::cp_async_commit();
  }

  /// Streams out of the half-block that is left, into memory and over x in the slots; their products and
  /// squares, by warps.
  /// The copies are there, `left` for all threads.
  __device__ void multiply(int batch, int first_row, int tokens, HcFragments& fragments) const {
    for (int i = 0; slice_.has_chunk(warp_, i); ++i) {
      if (slice_.chunks_per_warp() > 1) {
        fragments.load(args_.fn + channel_of_chunk(i), slice_.width(), lane_);
      }
#pragma unroll 1
      for (int octet = 0; octet < hc_octets(tokens); ++octet) {
        HcProductSums sums;
        float squares = 0.0F;
        multiply_octet(batch, octet, i, fragments, sums, squares);
        squares = warp_sum<4>(squares);
        keep_sums(octet, i == 0, sums, squares);
        if constexpr (kLeaving) {
          const int token = octet * kHcOctet + group_;
          if (token < tokens) {
            std::uint16_t* const x = stream_values(first_row + token, channel_of_chunk(i));
            const uint4* const from = slot(batch, octet, i, thread_);
#pragma unroll
            for (int j = 0; j < kHcStreams; ++j) {
              *reinterpret_cast<uint4*>(x + j * slice_.width()) = from[j * kHcStreamThreads];
            }
          }
        }
      }
    }
  }

  /// Four of a token's sums, of all warps.
  [[nodiscard]] __device__ float4 block_sums(int token, int first) const {
    float4 sum = *reinterpret_cast<const float4*>(&shared_.warp_sums[0][token][first]);
#pragma unroll
    for (int warp = 1; warp < slice_.num_warps(); ++warp) {
      const float4 more = *reinterpret_cast<const float4*>(&shared_.warp_sums[warp][token][first]);
      sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
    }
    return sum;
  }
  [[nodiscard]] __device__ float block_squares(int token) const {
    float sum = shared_.warp_sums[0][token][0];
#pragma unroll
    for (int warp = 1; warp < slice_.num_warps(); ++warp) sum += shared_.warp_sums[warp][token][0];
    return sum;
  }

  /// Where thread `thread` has its first piece; the next are kHcStreamThreads further each.
  [[nodiscard]] __device__ uint4* slot(int batch, int octet, int chunk_index, int thread) const {
    const int unit = (batch % 2 * octets_per_batch_ + octet) * slice_.chunks_per_warp() + chunk_index;
    return slots_ + unit * (kHcPieces * kHcStreamThreads) + thread;
  }

 private:
  /// First of this thread's eight channels in its warp's chunk number `index`.
  [[nodiscard]] __device__ int channel_of_chunk(int index) const {
    return slice_.first_channel() + (warp_ + index * kHcStreamWarps) * kHcChunk + quarter_ * 8;
  }
  /// Where row `row` has that channel of its first stream.
  [[nodiscard]] __device__ std::uint16_t* stream_values(int row, int channel) const {
    return args_.streams + std::int64_t{row} * (kHcStreams * slice_.width()) + channel;
  }

  __device__ void multiply_octet(int batch, int octet, int chunk_index, const HcFragments& fragments,
                                 HcProductSums& sums, float& squares) const {
    constexpr int n = kHcStreams;
    const float* left = shared_.left[batch % 2][octet * kHcOctet + group_];
    uint4* const pieces = slot(batch, octet, chunk_index, thread_);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint2 words[n];
      const auto half_piece = [&](int piece) {
        return reinterpret_cast<uint2*>(pieces + piece * kHcStreamThreads) + half;
      };
#pragma unroll
      for (int j = 0; j < n; ++j) words[j] = *half_piece(j);
      if constexpr (kLeaving) leave(left, *half_piece(kHcPieceF), words);
#pragma unroll
      for (int j = 0; j < n; ++j) {
        if constexpr (kLeaving) *half_piece(j) = words[j];
        const float values[4] = {bf16_low(words[j].x), bf16_high(words[j].x), bf16_low(words[j].y),
                                 bf16_high(words[j].y)};
#pragma unroll
        for (const float value : values) squares = fmaf(value, value, squares);
        fragments.multiply(j, half, words[j].x, words[j].y, sums);
      }
    }
  }

  /// words <- bf(post f + comb^T words), four channels of all streams.
  static __device__ void leave(const float* left, const uint2& f_words, uint2 (&words)[kHcStreams]) {
    constexpr int n = kHcStreams;
    const float* post = left + n * n;
    const float f[4] = {bf16_low(f_words.x), bf16_high(f_words.x), bf16_low(f_words.y), bf16_high(f_words.y)};
    float x[n][4];
#pragma unroll
    for (int j = 0; j < n; ++j) {
      x[j][0] = bf16_low(words[j].x), x[j][1] = bf16_high(words[j].x);
      x[j][2] = bf16_low(words[j].y), x[j][3] = bf16_high(words[j].y);
    }
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const float column[n] = {left[k], left[n + k], left[2 * n + k], left[3 * n + k]};
      float sum[4];
      leave_half_block(post[k], column, f, x, sum);
      words[k] = {pack_bf16(sum[0], sum[1]), pack_bf16(sum[2], sum[3])};
    }
  }

  /// Adds a chunk's sums to those of the warp.
  __device__ void keep_sums(int octet, bool first, const HcProductSums& sums, float squares) const {
    auto& kept = shared_.warp_sums[warp_];
    const auto add = [first](float& to, float value) { to = first ? value : to + value; };
    if (quarter_ == 0) add(kept[octet * kHcOctet + group_][0], squares);
#pragma unroll
    for (int third = 0; third < 3; ++third) {
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        add(kept[octet * kHcOctet + 2 * quarter_ + odd][kHcFirstProduct + 8 * third + group_],
            sums.sum(third, odd));
      }
    }
  }

  const HcSiteArgs& args_;
  const HcSlice<kWidth> slice_;
  HcStreamsShared& shared_;
  uint4* const slots_;
  const int octets_per_batch_;
  const int thread_, warp_, lane_;
  const int group_;    ///< token of an octet
  const int quarter_;  ///< eight channels of a chunk
};

}  // namespace baleen::sm90
