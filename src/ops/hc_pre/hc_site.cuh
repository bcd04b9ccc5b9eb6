/// A hyper-connection site in one kernel and one pass over the streams: out of a half-block (`hc_post`), into the next
/// (`hc_pre`), its norm, and the rows as FP8 products want them.
///
/// A cluster takes the tokens in batches of up to 32, each of its blocks a slice of the channels (hc_slices.cuh). Threads
/// 0 to 255 of a block hold the streams: a thread always has the same eight channels of the same token of an octet, from
/// the copy into shared memory that it makes itself to the weighted sum. Per batch:
///
///   1. x' = bf(post f + comb^T x) goes to memory and, in registers, into the products with fn (hc_products.cuh), of which
///      the block adds up what its warps have.
///   2. Every rank gets every rank's products for `pre` and its squares; those for `post` and `comb` go to the one rank
///      that owns the token, whose ninth warp does Sinkhorn while the others go on. Ranks store into each other's shared
///      memory and wait by bytes (ptx/store_async.h).
///   3. u = bf(sum_j pre_j x'_j), and its squares are exchanged likewise.
///   4. y = bf(w u rho), to memory, with its FP8 codes; half a warp has 128 channels of a token.
///
/// The next batch is copied while one is worked on. Where a warp has one chunk (up to width 4096) its part of fn stays in
/// its registers.
#pragma once

#include <cstdint>

#include "cuda/bf16_vector.cuh"
#include "cuda/ptx/cluster.h"
#include "cuda/ptx/cp_async.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/named_barrier.h"
#include "cuda/ptx/setmaxnreg.h"
#include "cuda/ptx/store_async.h"
#include "cuda/row_quantise.cuh"
#include "cuda/warp_reduce.cuh"
#include "ops/hc_pre/hc_gates.cuh"
#include "ops/hc_pre/hc_products.cuh"
#include "ops/hc_pre/hc_slices.cuh"
#include "ops/rms_norm/inverse_rms.cuh"
#include "tensor/fp8_rows.h"

namespace baleen {

struct HcSiteArgs {
  // Of the half-block that is left; null where none is.
  const std::uint16_t* f = nullptr;  ///< [T, d]
  const float* left_post = nullptr;  ///< [T, 4]
  const float* left_comb = nullptr;  ///< [T, 4, 4]
  std::uint16_t* streams = nullptr;  ///< [T, 4, d], written where a half-block is left
  // Of the one that is entered.
  const float* fn = nullptr;
  const float* base = nullptr;
  const float* scale = nullptr;
  float norm_eps = 0.0F;
  float hc_eps = 0.0F;
  int sinkhorn_iterations = 0;
  float* post = nullptr;  ///< [T, 4]
  float* comb = nullptr;  ///< [T, 4, 4]
  // Its norm.
  const float* norm_weight = nullptr;  ///< [d]
  float rms_eps = 0.0F;
  std::uint16_t* y = nullptr;  ///< [T, d], rows y_stride apart
  std::int64_t y_stride = 0;
  Fp8Rows y_fp8;

  int num_rows = 0;
  int width = 0;
  int octets_per_cluster = 0;
  int octets_per_batch = 0;
};

/// Two warpgroups with streams, and one of which a warp does Sinkhorn, so that registers can be moved to the others.
inline constexpr int kHcSiteThreads = kHcStreamThreads + 128;
inline constexpr int kHcStreamRegisters = 216;
inline constexpr int kHcMixRegisters = 72;

/// What a thread has of a token's eight channels, 16 bytes each: x, then x', of every stream; f, then u.
inline constexpr int kHcPieces = kHcStreams + 1;
inline constexpr int kHcPieceF = kHcStreams;

/// Sums of a warp for a token: of squares, then (from the fourth on) the 24 products.
inline constexpr int kHcSumsPerToken = 4 + kHcMixes;

/// Fixed part of a block's shared memory; the slots with the pieces follow.
struct HcSiteShared {
  float warp_sums[kHcStreamWarps][kHcMaxBatchTokens][kHcSumsPerToken];
  float gate_products[kHcMaxRanks][kHcMaxBatchTokens][kHcStreams];  ///< of each rank, for `pre`
  float squares[kHcMaxRanks][kHcMaxBatchTokens];                    ///< of each rank
  /// Of each rank, for `post` and `comb` of the tokens that this rank owns; batches alternate.
  float owned_products[2][kHcMaxBatchTokens + kHcMaxRanks][kHcMixes - kHcStreams];
  float pre[kHcMaxBatchTokens][kHcStreams];
  float warp_u_squares[kHcStreamWarps][kHcMaxBatchTokens];
  float u_squares[kHcMaxRanks][kHcMaxBatchTokens];  ///< of each rank
  /// comb, then post, of the half-block that is left; batches alternate.
  float left[2][kHcMaxBatchTokens][kHcStreams * kHcStreams + kHcStreams];
  float norm_weight[kHcMaxSlice];
  std::uint64_t products_arrived;
  std::uint64_t u_squares_arrived;
};

/// Bytes of the slots for `buffers` batches of `units` (octet, chunk) pairs.
__host__ __device__ constexpr std::int64_t hc_slot_bytes(int buffers, int units) {
  return std::int64_t{buffers} * units * kHcPieces * kHcStreamThreads * 16;
}

/// Rank that owns token `token` of a batch, and its index among the tokens that the rank owns.
__device__ inline int hc_owner(int token, int ranks) { return token % ranks; }
__device__ inline int hc_owned_index(int token, int ranks) { return token / ranks; }

template <bool kLeaving>
class HcSite {
 public:
  __device__ HcSite(const HcSiteArgs& args, std::byte* memory)
      : args_(args),
        shared_(*reinterpret_cast<HcSiteShared*>(memory)),
        slots_(reinterpret_cast<uint4*>(memory + sizeof(HcSiteShared))),
        ranks_(hc_ranks(args.width)),
        rank_(static_cast<int>(ptx::cluster_rank())),
        slice_(args.width, rank_),
        chunks_per_warp_(hc_chunks_per_warp(args.width)),
        thread_(static_cast<int>(threadIdx.x)),
        warp_(thread_ / kWarpLanes),
        lane_(thread_ % kWarpLanes),
        group_(lane_ / 4),
        quarter_(lane_ % 4) {
    const int cluster = static_cast<int>(blockIdx.x) / ranks_;
    const int rows_per_cluster = args.octets_per_cluster * kHcOctet;
    first_row_ = cluster * rows_per_cluster;
    end_row_ = min(args.num_rows, first_row_ + rows_per_cluster);
    batch_rows_ = args.octets_per_batch * kHcOctet;
    num_batches_ = (end_row_ - first_row_ + batch_rows_ - 1) / batch_rows_;
  }

  __device__ void run() {
    if (thread_ == 0) {
      ptx::mbarrier_init(&shared_.products_arrived, 1);
      ptx::mbarrier_init(&shared_.u_squares_arrived, 1);
      ptx::fence_mbarrier_init();
    }
    ptx::cluster_arrive();
    ptx::launch_next_kernel();
    if (warp_ < kHcStreamWarps) {
      ptx::registers_up_to<kHcStreamRegisters>();
      run_streams();
    } else {
      ptx::registers_down_to<kHcMixRegisters>();
      run_mixes();
    }
  }

 private:
  // ---- What both kinds of warps know.

  [[nodiscard]] __device__ int batch_row(int batch) const { return first_row_ + batch * batch_rows_; }
  [[nodiscard]] __device__ int batch_tokens(int batch) const {
    return min(batch_rows_, end_row_ - batch_row(batch));
  }
  [[nodiscard]] __device__ static int num_octets(int tokens) { return (tokens + kHcOctet - 1) / kHcOctet; }

  // ---- Warps 0 to 7.

  static __device__ void sync_streams() { ptx::named_barrier_sync(1, kHcStreamThreads); }

  /// This thread's piece `piece`, or that of another thread.
  [[nodiscard]] __device__ uint4* slot(int batch, int octet, int chunk_index, int piece, int thread) const {
    const int unit = (batch % 2 * args_.octets_per_batch + octet) * chunks_per_warp_ + chunk_index;
    return slots_ + (unit * kHcPieces + piece) * kHcStreamThreads + thread;
  }
  [[nodiscard]] __device__ int channel_of_chunk(int chunk) const {
    return slice_.first_channel + chunk * kHcChunk + quarter_ * 8;
  }

  __device__ void run_streams() {
    for (int i = 4 * thread_; i < slice_.num_channels(); i += 4 * kHcStreamThreads) {
      *reinterpret_cast<float4*>(shared_.norm_weight + i) =
          *reinterpret_cast<const float4*>(args_.norm_weight + slice_.first_channel + i);
    }
    HcFragments fragments;
    if (chunks_per_warp_ == 1 && warp_ < slice_.num_chunks()) {
      fragments.load(args_.fn + channel_of_chunk(warp_), args_.width, lane_);
    }
    ptx::cluster_wait();
    ptx::wait_for_previous_kernel();

    copy_batch(0);
    for (int batch = 0; batch < num_batches_; ++batch) {
      ptx::cp_async_wait<0>();
      sync_streams();  // `left` is there; the slots of the batch before are free
      if (batch + 1 < num_batches_) copy_batch(batch + 1);
      multiply_batch(batch, fragments);
      sync_streams();
      send_products(batch);
      compute_pre(batch);
      sync_streams();
      weigh_batch(batch);
      sync_streams();
      send_u_squares(batch);
      write_batch(batch);
    }
  }

  /// Begins to copy what the batch needs.
  __device__ void copy_batch(int batch) {
    const int row0 = batch_row(batch);
    const int tokens = batch_tokens(batch);
    for (int octet = 0; octet < num_octets(tokens); ++octet) {
      const int token = octet * kHcOctet + group_;
      const bool valid = token < tokens;
      const std::int64_t row = valid ? row0 + token : row0;
      for (int chunk = warp_, i = 0; chunk < slice_.num_chunks(); chunk += kHcStreamWarps, ++i) {
        const int channel = channel_of_chunk(chunk);
#pragma unroll
        for (int j = 0; j < kHcStreams; ++j) {
          ptx::cp_async_16(slot(batch, octet, i, j, thread_),
                           args_.streams + (row * kHcStreams + j) * args_.width + channel, valid);
        }
        if constexpr (kLeaving) {
          ptx::cp_async_16(slot(batch, octet, i, kHcPieceF, thread_), args_.f + row * args_.width + channel,
                           valid);
        }
      }
    }
    if constexpr (kLeaving) {
      constexpr int kQuads = kHcStreams + 1;  // rows of comb, and post
      const int token = thread_ / kQuads, quad = thread_ % kQuads;
      if (token < tokens) {
        const std::int64_t row = row0 + token;
        const float* from = quad < kHcStreams ? args_.left_comb + (row * kHcStreams + quad) * kHcStreams
                                              : args_.left_post + row * kHcStreams;
        ptx::cp_async_16(&shared_.left[batch % 2][token][quad * kHcStreams], from);
      }
    }
    ptx::cp_async_commit();
  }

  /// Streams out of the half-block that is left, their products and squares. Overwrites x with x' in the slots.
  __device__ void multiply_batch(int batch, HcFragments& fragments) {
    const int tokens = batch_tokens(batch);
    for (int chunk = warp_, i = 0; chunk < slice_.num_chunks(); chunk += kHcStreamWarps, ++i) {
      if (chunks_per_warp_ > 1) fragments.load(args_.fn + channel_of_chunk(chunk), args_.width, lane_);
      for (int octet = 0; octet < num_octets(tokens); ++octet) {
        HcSums sums;
        float squares = 0.0F;
        multiply_octet(batch, octet, i, fragments, sums, squares);
        squares = warp_sum<4>(squares);
        keep_sums(octet, i == 0, sums, squares);
        if constexpr (kLeaving) {
          const int token = octet * kHcOctet + group_;
          if (token < tokens) {
            const std::int64_t row = batch_row(batch) + token;
#pragma unroll
            for (int j = 0; j < kHcStreams; ++j) {
              *reinterpret_cast<uint4*>(args_.streams + (row * kHcStreams + j) * args_.width +
                                        channel_of_chunk(chunk)) = *slot(batch, octet, i, j, thread_);
            }
          }
        }
      }
    }
  }

  __device__ void multiply_octet(int batch, int octet, int chunk_index, const HcFragments& fragments,
                                 HcSums& sums, float& squares) const {
    constexpr int n = kHcStreams;
    const float* left = shared_.left[batch % 2][octet * kHcOctet + group_];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint2 words[n];
      const auto half_slot = [&](int piece) {
        return reinterpret_cast<uint2*>(slot(batch, octet, chunk_index, piece, thread_)) + half;
      };
#pragma unroll
      for (int j = 0; j < n; ++j) words[j] = *half_slot(j);
      if constexpr (kLeaving) leave(left, *half_slot(kHcPieceF), words);
#pragma unroll
      for (int j = 0; j < n; ++j) {
        if constexpr (kLeaving) *half_slot(j) = words[j];
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
      float sum[4];
#pragma unroll
      for (int c = 0; c < 4; ++c) sum[c] = post[k] * f[c];
#pragma unroll
      for (int j = 0; j < n; ++j) {
#pragma unroll
        for (int c = 0; c < 4; ++c) sum[c] = fmaf(left[j * n + k], x[j][c], sum[c]);
      }
      words[k] = {pack_bf16(sum[0], sum[1]), pack_bf16(sum[2], sum[3])};
    }
  }

  /// Adds a chunk's sums to those of the warp.
  __device__ void keep_sums(int octet, bool first, const HcSums& sums, float squares) {
    auto& kept = shared_.warp_sums[warp_];
    const auto add = [first](float& to, float value) { to = first ? value : to + value; };
    if (quarter_ == 0) add(kept[octet * kHcOctet + group_][0], squares);
#pragma unroll
    for (int third = 0; third < 3; ++third) {
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        add(kept[octet * kHcOctet + 2 * quarter_ + odd][4 + 8 * third + group_], sums.sum(third, odd));
      }
    }
  }

  /// Four of a token's sums, of all warps.
  [[nodiscard]] __device__ float4 block_sums(int token, int first) const {
    float4 sum = *reinterpret_cast<const float4*>(&shared_.warp_sums[0][token][first]);
    for (int warp = 1; warp < slice_.num_warps(); ++warp) {
      const float4 more = *reinterpret_cast<const float4*>(&shared_.warp_sums[warp][token][first]);
      sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
    }
    return sum;
  }

  __device__ void send_products(int batch) {
    const int tokens = batch_tokens(batch);
    std::uint64_t* const arrived = &shared_.products_arrived;
    for (int item = thread_; item < tokens * ranks_; item += kHcStreamThreads) {
      const int token = item / ranks_, to = item % ranks_;
      float squares = shared_.warp_sums[0][token][0];
      for (int warp = 1; warp < slice_.num_warps(); ++warp) squares += shared_.warp_sums[warp][token][0];
      ptx::store_async(reinterpret_cast<float4*>(shared_.gate_products[rank_][token]), block_sums(token, 4),
                       arrived, to);
      ptx::store_async(&shared_.squares[rank_][token], squares, arrived, to);
    }
    constexpr int kQuads = (kHcMixes - kHcStreams) / 4;
    const int most_owned = (kHcMaxBatchTokens + ranks_ - 1) / ranks_;
    for (int item = thread_; item < tokens * kQuads; item += kHcStreamThreads) {
      const int token = item / kQuads, quad = item % kQuads;
      float* to = shared_.owned_products[batch % 2][rank_ * most_owned + hc_owned_index(token, ranks_)];
      ptx::store_async(reinterpret_cast<float4*>(to + 4 * quad), block_sums(token, 8 + 4 * quad), arrived,
                       hc_owner(token, ranks_));
    }
  }

  /// A warp has eight tokens, a lane one stream of a token.
  __device__ void compute_pre(int batch) {
    const int token = warp_ * kHcOctet + group_;
    if (warp_ * kHcOctet >= batch_tokens(batch)) return;
    const float scale = args_.scale[0], base = args_.base[quarter_];
    ptx::mbarrier_wait_cluster(&shared_.products_arrived, batch % 2);
    float product = 0.0F;
    for (int rank = 0; rank < ranks_; ++rank) product += shared_.gate_products[rank][token][quarter_];
    shared_.pre[token][quarter_] = sigmoid(product * rho(token) * scale + base) + args_.hc_eps;
  }

  /// Of a token whose squares have arrived.
  [[nodiscard]] __device__ float rho(int token) const {
    float squares = 0.0F;
    for (int rank = 0; rank < ranks_; ++rank) squares += shared_.squares[rank][token];
    return inverse_rms(squares, kHcStreams * args_.width, args_.norm_eps);
  }

  /// u = bf(sum_j pre_j x_j) into the slots, and its squares.
  __device__ void weigh_batch(int batch) {
    for (int octet = 0; octet < num_octets(batch_tokens(batch)); ++octet) {
      const int token = octet * kHcOctet + group_;
      const float4 pre = *reinterpret_cast<const float4*>(shared_.pre[token]);
      float squares = 0.0F;
      for (int chunk = warp_, i = 0; chunk < slice_.num_chunks(); chunk += kHcStreamWarps, ++i) {
        const float weights[kHcStreams] = {pre.x, pre.y, pre.z, pre.w};
        float u[8] = {};
#pragma unroll
        for (int j = 0; j < kHcStreams; ++j) {
          float x[8];
          unpack_bf16(*slot(batch, octet, i, j, thread_), x);
#pragma unroll
          for (int c = 0; c < 8; ++c) u[c] = fmaf(weights[j], x[c], u[c]);
        }
        const uint4 words = pack_bf16(u);
        *slot(batch, octet, i, kHcPieceF, thread_) = words;
        unpack_bf16(words, u);
#pragma unroll
        for (int c = 0; c < 8; ++c) squares = fmaf(u[c], u[c], squares);
      }
      squares = warp_sum<4>(squares);
      if (quarter_ == 0) shared_.warp_u_squares[warp_][token] = squares;
    }
  }

  __device__ void send_u_squares(int batch) {
    for (int item = thread_; item < batch_tokens(batch) * ranks_; item += kHcStreamThreads) {
      const int token = item / ranks_, to = item % ranks_;
      float squares = shared_.warp_u_squares[0][token];
      for (int warp = 1; warp < slice_.num_warps(); ++warp) squares += shared_.warp_u_squares[warp][token];
      ptx::store_async(&shared_.u_squares[rank_][token], squares, &shared_.u_squares_arrived, to);
    }
  }

  /// Norm, rounding and stores: half a warp has 128 channels of a token, a lane eight.
  __device__ void write_batch(int batch) {
    constexpr int kHalf = kWarpLanes / 2;
    const int half_warp = thread_ / kHalf, half_lane = lane_ % kHalf;
    const int num_items = batch_tokens(batch) * slice_.num_blocks;
    ptx::mbarrier_wait_cluster(&shared_.u_squares_arrived, batch % 2);
    for (int first = 2 * warp_; first < num_items; first += kHcStreamThreads / kHalf) {
      const int item = first + half_warp % 2;
      const bool valid = item < num_items;
      const int token = valid ? item / slice_.num_blocks : 0, block = valid ? item % slice_.num_blocks : 0;
      const float squares = warp_sum<kHalf>(half_lane < ranks_ ? shared_.u_squares[half_lane][token] : 0.0F);
      const float inverse = inverse_rms(squares, args_.width, args_.rms_eps);

      // The eight channels lie where the thread that made them has its slot.
      const int chunk = block * kHcChunksPerBlock + half_lane / 4;
      const int maker = chunk % kHcStreamWarps * kWarpLanes + token % kHcOctet * 4 + half_lane % 4;
      float y[8];
      unpack_bf16(*slot(batch, token / kHcOctet, chunk / kHcStreamWarps, kHcPieceF, maker), y);
      const float* weight = shared_.norm_weight + block * kHcBlock + half_lane * 8;
#pragma unroll
      for (int c = 0; c < 8; ++c) y[c] = weight[c] * (y[c] * inverse);
      const uint4 words = pack_bf16(y);
      const std::int64_t row = batch_row(batch) + token;
      const int column = slice_.first_channel + block * kHcBlock + half_lane * 8;
      if (valid) *reinterpret_cast<uint4*>(args_.y + row * args_.y_stride + column) = words;
      if (args_.y_fp8.codes != nullptr) {
        unpack_bf16(words, y);
        const Fp8Piece<8> piece = quantise_fp8_block(y);
        if (valid) store_fp8_piece(args_.y_fp8, row, args_.width, column, piece);
      }
    }
  }

  // ---- Warp 8: `post` and `comb` of the tokens that this rank owns, a lane each.

  __device__ void run_mixes() {
    constexpr int n = kHcStreams;
    float base[kHcMixes - n];
#pragma unroll
    for (int i = 0; i < kHcMixes - n; ++i) base[i] = args_.base[n + i];
    const float post_scale = args_.scale[1], comb_scale = args_.scale[2];
    ptx::cluster_wait();
    ptx::wait_for_previous_kernel();
    if (warp_ > kHcStreamWarps) return;
    for (int batch = 0; batch < num_batches_; ++batch) {
      const int tokens = batch_tokens(batch);
      const int num_owned = (tokens - rank_ + ranks_ - 1) / ranks_;
      if (lane_ == 0) {
        constexpr int kToAll = (n + 1) * sizeof(float), kToOwner = (kHcMixes - n) * sizeof(float);
        ptx::mbarrier_arrive_expect(&shared_.products_arrived,
                                    ranks_ * (tokens * kToAll + num_owned * kToOwner));
      }
      ptx::mbarrier_wait_cluster(&shared_.products_arrived, batch % 2);
      // Every rank has sent these products, so all squares of the batch before are in.
      if (lane_ == 0) {
        ptx::mbarrier_arrive_expect(&shared_.u_squares_arrived, ranks_ * tokens * sizeof(float));
      }
      if (lane_ < num_owned) {
        float mixes[kHcMixes - n];
        sum_owned(batch, mixes);
        const int token = lane_ * ranks_ + rank_;
        const float inverse = rho(token);
        const std::int64_t row = batch_row(batch) + token;
        float post[n], comb[n][n];
#pragma unroll
        for (int j = 0; j < n; ++j) {
          post[j] = 2.0F * sigmoid(mixes[j] * inverse * post_scale + base[j]);
#pragma unroll
          for (int k = 0; k < n; ++k) {
            const int i = (1 + j) * n + k;
            comb[j][k] = mixes[i] * inverse * comb_scale + base[i];
          }
        }
        *reinterpret_cast<float4*>(args_.post + row * n) = {post[0], post[1], post[2], post[3]};
        sinkhorn(comb, args_.sinkhorn_iterations, args_.hc_eps);
#pragma unroll
        for (int j = 0; j < n; ++j) {
          *reinterpret_cast<float4*>(args_.comb + (row * n + j) * n) = {comb[j][0], comb[j][1], comb[j][2],
                                                                        comb[j][3]};
        }
      }
      __syncwarp();
    }
  }

  __device__ void sum_owned(int batch, float (&mixes)[kHcMixes - kHcStreams]) const {
    const int most_owned = (kHcMaxBatchTokens + ranks_ - 1) / ranks_;
#pragma unroll
    for (float& mix : mixes) mix = 0.0F;
    for (int rank = 0; rank < ranks_; ++rank) {
      const float* products = shared_.owned_products[batch % 2][rank * most_owned + lane_];
#pragma unroll
      for (int i = 0; i < kHcMixes - kHcStreams; i += 4) {
        const float4 quad = *reinterpret_cast<const float4*>(products + i);
        mixes[i] += quad.x, mixes[i + 1] += quad.y, mixes[i + 2] += quad.z, mixes[i + 3] += quad.w;
      }
    }
  }

  const HcSiteArgs& args_;
  HcSiteShared& shared_;
  uint4* const slots_;
  const int ranks_;
  const int rank_;
  const HcSlice slice_;
  const int chunks_per_warp_;
  const int thread_, warp_, lane_;
  const int group_;    ///< token of an octet
  const int quarter_;  ///< eight channels of a chunk
  int first_row_, end_row_, batch_rows_, num_batches_;
};

template <bool kLeaving>
__global__ void __launch_bounds__(kHcSiteThreads, 1) hc_site_kernel(const __grid_constant__ HcSiteArgs args) {
  extern __shared__ __align__(128) std::byte hc_site_memory[];
  HcSite<kLeaving>(args, hc_site_memory).run();
}

}  // namespace baleen
