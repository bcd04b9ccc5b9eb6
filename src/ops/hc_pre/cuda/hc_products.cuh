/// The first kernel of a hyper-connection site (hc_site.cuh): out of a sublayer, and what every rank's slice
/// adds to squares and products. A block has one rank and an equal part of the rows, and waits for no other.
#pragma once

#include <cstdint>

#include "cuda/bf16_vector.cuh"
#include "cuda/ptx/cp_async.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/mma_bf16.h"
#include "cuda/warp_reduce.cuh"
#include "ops/hc_pre/cuda/hc_site_args.h"
#include "ops/hc_pre/cuda/hc_slices.cuh"

namespace baleen::BALEEN_ARCH {

// Products of float32 weights with BF16 values on the tensor cores, exact to float32.
//
// A float32 number is the sum of three BF16 numbers of eight significant bits each: its upper eight bits,
// the next eight and the last eight. Each of the three times a BF16 value is exact in float32, as the
// product with FFMA is; sums are float32 either way. So the 24 rows of `fn` become 72 rows of BF16, and a
// warp needs 40 matrix instructions for what would take 768 FFMA.

/// Two float32 numbers as three words of two BF16 numbers each.
struct SplitPair {
  std::uint32_t high, middle, low;

  __device__ SplitPair(float a, float b) {
    high = upper_halves(a, b);
    const float a_rest = a - upper(a), b_rest = b - upper(b);
    middle = upper_halves(a_rest, b_rest);
    low = upper_halves(a_rest - upper(a_rest), b_rest - upper(b_rest));
  }

 private:
  static __device__ float upper(float x) { return __uint_as_float(__float_as_uint(x) & 0xFFFF0000u); }
  static __device__ std::uint32_t upper_halves(float a, float b) {
    constexpr std::uint32_t kUpperOfBoth = 0x7632;
    return __byte_perm(__float_as_uint(a), __float_as_uint(b), kUpperOfBoth);
  }
};

/// The sums of one chunk for eight tokens, in the lanes as mma_16x8x16 leaves them.
struct HcProductSums {
  float high[4] = {};  ///< rows 0 to 15
  float middle[4] = {};
  float low[4] = {};
  float tail[4] = {};  ///< rows 16 to 23: upper parts in [0], [1], the others in [2], [3]

  /// Of fn's row `lane / 4 + 8 third` and token `2 (lane % 4) + odd`.
  [[nodiscard]] __device__ float sum(int third, int odd) const {
    if (third == 2) return tail[odd] + tail[2 + odd];
    const int i = 2 * third + odd;
    return high[i] + (middle[i] + low[i]);
  }
};

/// A warp's part of `fn`: 24 rows, one chunk of every stream. Lane 4 g + q holds of rows g, g + 8 and g + 16
/// the columns of eight neighbouring channels of each stream, those whose values it has of token g: a step of
/// the inner product takes four of them ("half" 0 or 1) from every lane.
class HcFragments {
 public:
  /// `fn`: [24, 4 width], from its first column of the lane's channels on.
  __device__ void load(const float* fn, int width, int lane) {
    const std::int64_t row_stride = std::int64_t{kHcStreams} * width;
    const float* row = fn + lane / 4 * row_stride;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const float* from = row + step / 2 * width + step % 2 * 4;
      const float4 first = *reinterpret_cast<const float4*>(from);
      const float4 second = *reinterpret_cast<const float4*>(from + 8 * row_stride);
      const float4 third = *reinterpret_cast<const float4*>(from + 16 * row_stride);
      set(step, 0, {first.x, first.y}, {second.x, second.y}, {third.x, third.y});
      set(step, 1, {first.z, first.w}, {second.z, second.w}, {third.z, third.w});
    }
  }

  /// Adds the products with four channels of one stream: `word0` has the first two, `word1` the others.
  __device__ void multiply(int stream, int half, std::uint32_t word0, std::uint32_t word1,
                           HcProductSums& sums) const {
    const int step = 2 * stream + half;
    ptx::mma_16x8x16(sums.high, words_[step][0][0], words_[step][0][1], words_[step][1][0],
                     words_[step][1][1], word0, word1);
    ptx::mma_16x8x16(sums.middle, words_[step][0][2], words_[step][0][3], words_[step][1][2],
                     words_[step][1][3], word0, word1);
    ptx::mma_16x8x16(sums.tail, words_[step][0][6], words_[step][0][7], words_[step][1][6],
                     words_[step][1][7], word0, word1);
    ptx::mma_16x8x16(sums.low, words_[step][0][4], words_[step][0][5], words_[step][1][4], words_[step][1][5],
                     word0, word1);
    ptx::mma_16x8x16(sums.tail, 0, words_[step][0][8], 0, words_[step][1][8], word0, word1);
  }

 private:
  static constexpr int kSteps = 2 * kHcStreams;

  __device__ void set(int step, int pair, float2 first, float2 second, float2 third) {
    const SplitPair a(first.x, first.y), b(second.x, second.y), c(third.x, third.y);
    std::uint32_t(&words)[9] = words_[step][pair];
    words[0] = a.high, words[1] = b.high;
    words[2] = a.middle, words[3] = b.middle;
    words[4] = a.low, words[5] = b.low;
    words[6] = c.high, words[7] = c.middle, words[8] = c.low;
  }

  std::uint32_t words_[kSteps][2][9];
};

// The streams of some tokens in the hands of a block: copied into shared memory, out of a sublayer, and
// into the products with fn.
//
// A block has a slice of the channels (hc_slices.cuh) of a batch of up to 32 tokens at a time. A thread
// always has the same eight channels of the same token of an octet, from the copy into shared memory that it
// makes itself to the last use:
// no thread waits for another's copy.

/// What a thread has of a token's eight channels, 16 bytes each: x, then x', of every stream; f.
inline constexpr int kHcPieces = kHcStreams + 1;
inline constexpr int kHcPieceF = kHcStreams;

/// Sums of a token: of squares, then (from the fourth on) the 24 products.
inline constexpr int kHcFirstProduct = 4;
inline constexpr int kHcSums = kHcFirstProduct + kHcMixes;

struct alignas(16) HcStreamsShared {
  /// comb, then post, of the sublayer that is left; batches alternate.
  float left[2][kHcMaxBatchTokens][kHcStreams * kHcStreams + kHcStreams];
};

/// Octets of a batch for streams of that width.
__host__ __device__ constexpr int hc_most_octets(int width) {
  const int octets = kHcMaxBatchUnits / hc_chunks_per_warp(width);
  return octets > 1 ? octets : 1;
}
__host__ __device__ constexpr int hc_octets(int tokens) { return (tokens + kHcOctet - 1) / kHcOctet; }

/// Shared memory: `HcStreamsShared`, every warp's sums of a batch, then slots of `buffers` batches.
__host__ __device__ constexpr std::int64_t hc_sums_bytes(int octets) {
  return std::int64_t{kHcStreamWarps} * octets * kHcOctet * kHcSums * static_cast<int>(sizeof(float));
}
__host__ __device__ constexpr std::int64_t hc_shared_bytes(int width, int buffers, int octets) {
  const std::int64_t slot_bytes =
      std::int64_t{buffers} * octets * hc_chunks_per_warp(width) * kHcPieces * kHcStreamThreads * 16;
  return static_cast<std::int64_t>(sizeof(HcStreamsShared)) + hc_sums_bytes(octets) + slot_bytes;
}

/// How a rank's rows go over blocks, and a block's over batches.
struct HcCut {
  int octets_per_block, octets_per_batch, buffers;
};

/// As few batches as `most_shared_bytes` lets be, on at most `most_blocks` of a rank unless the batches of a
/// block do not fit there: then a block has one batch.
__host__ __device__ constexpr HcCut hc_cut(int octets, int width, int most_blocks,
                                           std::int64_t most_shared_bytes) {
  const int of_block = (octets + most_blocks - 1) / most_blocks;
  const int most = of_block < hc_most_octets(width) ? of_block : hc_most_octets(width);
  for (int of_batch = most; of_batch > 0; --of_batch) {
    const int buffers = of_batch < of_block ? 2 : 1;
    if (hc_shared_bytes(width, buffers, of_batch) <= most_shared_bytes) return {of_block, of_batch, buffers};
  }
  return {1, 1, 1};
}

template <bool kLeaving, int kWidth>
class HcStreams {
 public:
  /// `memory`: `hc_shared_bytes` for batches of `octets_per_batch`.
  __device__ HcStreams(const HcSiteArgs& args, const HcSlice<kWidth>& slice, std::byte* memory,
                       int octets_per_batch)
      : args_(args),
        slice_(slice),
        shared_(*reinterpret_cast<HcStreamsShared*>(memory)),
        warp_sums_(reinterpret_cast<float*>(memory + sizeof(HcStreamsShared))),
        slots_(reinterpret_cast<uint4*>(memory + sizeof(HcStreamsShared) + hc_sums_bytes(octets_per_batch))),
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

  /// Streams out of the sublayer that is left, into memory and over x in the slots; their products and
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
    float4 sum = *reinterpret_cast<const float4*>(warp_sums(0, token) + first);
#pragma unroll
    for (int warp = 1; warp < slice_.num_warps(); ++warp) {
      const float4 more = *reinterpret_cast<const float4*>(warp_sums(warp, token) + first);
      sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
    }
    return sum;
  }
  [[nodiscard]] __device__ float block_squares(int token) const {
    float sum = *warp_sums(0, token);
#pragma unroll
    for (int warp = 1; warp < slice_.num_warps(); ++warp) sum += *warp_sums(warp, token);
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

  /// [kHcSums] of a warp and a token of the batch.
  [[nodiscard]] __device__ float* warp_sums(int warp, int token) const {
    return warp_sums_ + (warp * octets_per_batch_ * kHcOctet + token) * kHcSums;
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
        float values[4];
        unpack_bf16(words[j], values);
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
    float f[4], x[n][4];
    unpack_bf16(f_words, f);
#pragma unroll
    for (int j = 0; j < n; ++j) unpack_bf16(words[j], x[j]);
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const float column[n] = {left[k], left[n + k], left[2 * n + k], left[3 * n + k]};
      float sum[4];
      leave_sublayer(post[k], column, f, x, sum);
      words[k] = pack_bf16(sum);
    }
  }

  /// Adds a chunk's sums to those of the warp.
  __device__ void keep_sums(int octet, bool first, const HcProductSums& sums, float squares) const {
    const auto add = [first](float& to, float value) { to = first ? value : to + value; };
    if (quarter_ == 0) add(*warp_sums(warp_, octet * kHcOctet + group_), squares);
#pragma unroll
    for (int third = 0; third < 3; ++third) {
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        add(warp_sums(warp_, octet * kHcOctet + 2 * quarter_ + odd)[kHcFirstProduct + 8 * third + group_],
            sums.sum(third, odd));
      }
    }
  }

  const HcSiteArgs& args_;
  const HcSlice<kWidth> slice_;
  HcStreamsShared& shared_;
  float* const warp_sums_;
  uint4* const slots_;
  const int octets_per_batch_;
  const int thread_, warp_, lane_;
  const int group_;    ///< token of an octet
  const int quarter_;  ///< eight channels of a chunk
};

/// `sums`: [T, ranks, kHcSums]
template <bool kLeaving, int kWidth>
__global__ void __launch_bounds__(kHcStreamThreads, 1)
    hc_products_kernel(const __grid_constant__ HcSiteArgs args, int rows_per_block, int octets_per_batch,
                       float* sums, NextAtOnce order) {
  extern __shared__ __align__(128) std::byte hc_memory[];
  const int ranks = hc_ranks(kWidth > 0 ? kWidth : args.width);
  const HcSlice<kWidth> slice(args.width, static_cast<int>(blockIdx.x) % ranks);
  const HcStreams<kLeaving, kWidth> streams(args, slice, hc_memory, octets_per_batch);
  const int first_row = static_cast<int>(blockIdx.x) / ranks * rows_per_block;
  const int end_row = min(args.num_rows, first_row + rows_per_block);
  const int batch_rows = octets_per_batch * kHcOctet;
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes,
            lane = static_cast<int>(threadIdx.x) % kWarpLanes;

  order.launch_next();
  HcFragments fragments;
  streams.load(fragments);
  ptx::wait_for_previous_kernel();
  streams.copy(0, first_row, min(batch_rows, end_row - first_row));
  for (int batch = 0, row = first_row; row < end_row; ++batch, row += batch_rows) {
    const int tokens = min(batch_rows, end_row - row);
    ptx::cp_async_wait<0>();
    __syncthreads();
    const int next_row = row + batch_rows;
    if (next_row < end_row) streams.copy(batch + 1, next_row, min(batch_rows, end_row - next_row));
    streams.multiply(batch, row, tokens, fragments);
    __syncthreads();
    static_assert(kHcSums <= 4 * kHcStreamWarps);
    if (4 * warp < kHcSums && lane < tokens) {
      float* const to = sums + (std::int64_t{row + lane} * ranks + slice.rank()) * kHcSums;
      if (warp == 0) {
        to[0] = streams.block_squares(lane);
      } else {
        *reinterpret_cast<float4*>(to + 4 * warp) = streams.block_sums(lane, 4 * warp);
      }
    }
  }
}

}  // namespace baleen::BALEEN_ARCH
