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
inline constexpr int kHcStreamRegisters = 232;
inline constexpr int kHcMixRegisters = 40;

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
  float comb_logits[kHcMaxBatchTokens][kHcStreams * kHcStreams];  ///< of the tokens that this rank owns
  float warp_u_squares[kHcStreamWarps][kHcMaxBatchTokens];
  float u_squares[kHcMaxRanks][kHcMaxBatchTokens];  ///< of each rank
  /// comb, then post, of the half-block that is left; batches alternate.
  float left[2][kHcMaxBatchTokens][kHcStreams * kHcStreams + kHcStreams];
  float norm_weight[kHcMaxSlice];
  float pre_base[kHcStreams], pre_scale;
  std::uint64_t products_arrived;
  std::uint64_t u_squares_arrived;
};

/// Bytes of the slots for `buffers` batches of `units` (octet, chunk) pairs.
__host__ __device__ constexpr std::int64_t hc_slot_bytes(int buffers, int units) {
  return std::int64_t{buffers} * units * kHcPieces * kHcStreamThreads * 16;
}

template <bool kLeaving, int kWidth>
class HcSite {
 public:
  __device__ HcSite(const HcSiteArgs& args, std::byte* memory)
      : args_(args),
        shared_(*reinterpret_cast<HcSiteShared*>(memory)),
        slots_(reinterpret_cast<uint4*>(memory + sizeof(HcSiteShared))),
        slice_(args.width, static_cast<int>(ptx::cluster_rank())),
        thread_(static_cast<int>(threadIdx.x)),
        warp_(thread_ / kWarpLanes),
        lane_(thread_ % kWarpLanes),
        group_(lane_ / 4),
        quarter_(lane_ % 4) {
    const int cluster = static_cast<int>(blockIdx.x) / slice_.ranks();
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
  /// Rank t % ranks owns token t of a batch, its token number t / ranks; so many at most.
  [[nodiscard]] __device__ int most_owned() const {
    return (kHcMaxBatchTokens + slice_.ranks() - 1) / slice_.ranks();
  }
  [[nodiscard]] __device__ static int num_octets(int tokens) { return (tokens + kHcOctet - 1) / kHcOctet; }

  // ---- Warps 0 to 7.

  static __device__ void sync_streams() { ptx::named_barrier_sync(1, kHcStreamThreads); }

  /// This thread's piece `piece`, or that of another thread.
  [[nodiscard]] __device__ uint4* slot(int batch, int octet, int chunk_index, int piece, int thread) const {
    const int unit = (batch % 2 * args_.octets_per_batch + octet) * slice_.chunks_per_warp() + chunk_index;
    return slots_ + (unit * kHcPieces + piece) * kHcStreamThreads + thread;
  }
  /// First of this thread's eight channels in its warp's chunk number `index`.
  [[nodiscard]] __device__ int channel_of_chunk(int index) const {
    return slice_.first_channel() + (warp_ + index * kHcStreamWarps) * kHcChunk + quarter_ * 8;
  }
  /// Where row `row` has that channel of its first stream.
  [[nodiscard]] __device__ std::uint16_t* stream_values(int row, int channel) const {
    return args_.streams + std::int64_t{row} * (kHcStreams * slice_.width()) + channel;
  }

  __device__ void run_streams() {
    for (int i = 4 * thread_; i < slice_.num_channels(); i += 4 * kHcStreamThreads) {
      *reinterpret_cast<float4*>(shared_.norm_weight + i) =
          *reinterpret_cast<const float4*>(args_.norm_weight + slice_.first_channel() + i);
    }
    if (thread_ < kHcStreams) shared_.pre_base[thread_] = args_.base[thread_];
    if (thread_ == 0) shared_.pre_scale = args_.scale[0];
    HcFragments fragments;
    if (slice_.chunks_per_warp() == 1 && slice_.has_chunk(warp_, 0)) {
      fragments.load(args_.fn + channel_of_chunk(0), slice_.width(), lane_);
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
      const int row = valid ? row0 + token : row0;
      for (int i = 0; slice_.has_chunk(warp_, i); ++i) {
        const int channel = channel_of_chunk(i);
        const std::uint16_t* const x = stream_values(row, channel);
        uint4* const to = slot(batch, octet, i, 0, thread_);
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
    for (int i = 0; slice_.has_chunk(warp_, i); ++i) {
      if (slice_.chunks_per_warp() > 1) {
        fragments.load(args_.fn + channel_of_chunk(i), slice_.width(), lane_);
      }
#pragma unroll 1
      for (int octet = 0; octet < num_octets(tokens); ++octet) {
        HcSums sums;
        float squares = 0.0F;
        multiply_octet(batch, octet, i, fragments, sums, squares);
        squares = warp_sum<4>(squares);
        keep_sums(octet, i == 0, sums, squares);
        if constexpr (kLeaving) {
          const int token = octet * kHcOctet + group_;
          if (token < tokens) {
            std::uint16_t* const x = stream_values(batch_row(batch) + token, channel_of_chunk(i));
            const uint4* const from = slot(batch, octet, i, 0, thread_);
#pragma unroll
            for (int j = 0; j < kHcStreams; ++j) {
              *reinterpret_cast<uint4*>(x + j * slice_.width()) = from[j * kHcStreamThreads];
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
#pragma unroll
    for (int warp = 1; warp < slice_.num_warps(); ++warp) {
      const float4 more = *reinterpret_cast<const float4*>(&shared_.warp_sums[warp][token][first]);
      sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
    }
    return sum;
  }

  /// A lane has a token, a warp the ranks that are its own number modulo 8 and four of the products for the token's owner.
  __device__ void send_products(int batch) {
    const int token = lane_;
    if (token >= batch_tokens(batch)) return;
    std::uint64_t* const arrived = &shared_.products_arrived;
    const float4 products = block_sums(token, 4);
    float squares = shared_.warp_sums[0][token][0];
#pragma unroll
    for (int warp = 1; warp < slice_.num_warps(); ++warp) squares += shared_.warp_sums[warp][token][0];
    for (int to = warp_; to < slice_.ranks(); to += kHcStreamWarps) {
      ptx::store_async(reinterpret_cast<float4*>(shared_.gate_products[slice_.rank()][token]), products,
                       arrived, to);
      ptx::store_async(&shared_.squares[slice_.rank()][token], squares, arrived, to);
    }
    constexpr int kQuads = (kHcMixes - kHcStreams) / 4;
    static_assert(kQuads <= kHcStreamWarps);
    if (warp_ < kQuads) {
      float* to = shared_.owned_products[batch % 2][slice_.rank() * most_owned() + token / slice_.ranks()];
      ptx::store_async(reinterpret_cast<float4*>(to + 4 * warp_), block_sums(token, 8 + 4 * warp_), arrived,
                       token % slice_.ranks());
    }
  }

  /// A warp has eight tokens, a lane one stream of a token.
  __device__ void compute_pre(int batch) {
    const int token = warp_ * kHcOctet + group_;
    if (warp_ * kHcOctet >= batch_tokens(batch)) return;
    ptx::mbarrier_wait_cluster(&shared_.products_arrived, batch % 2);
    float product = 0.0F;
#pragma unroll
    for (int rank = 0; rank < slice_.ranks(); ++rank) product += shared_.gate_products[rank][token][quarter_];
    shared_.pre[token][quarter_] =
        sigmoid(product * rho(token) * shared_.pre_scale + shared_.pre_base[quarter_]) + args_.hc_eps;
  }

  /// Of a token whose squares have arrived.
  [[nodiscard]] __device__ float rho(int token) const {
    float squares = 0.0F;
#pragma unroll
    for (int rank = 0; rank < slice_.ranks(); ++rank) squares += shared_.squares[rank][token];
    return inverse_rms(squares, kHcStreams * slice_.width(), args_.norm_eps);
  }

  /// u = bf(sum_j pre_j x_j) into the slots, and its squares.
  __device__ void weigh_batch(int batch) {
    for (int octet = 0; octet < num_octets(batch_tokens(batch)); ++octet) {
      const int token = octet * kHcOctet + group_;
      const float4 pre = *reinterpret_cast<const float4*>(shared_.pre[token]);
      float squares = 0.0F;
      for (int i = 0; slice_.has_chunk(warp_, i); ++i) {
        const float weights[kHcStreams] = {pre.x, pre.y, pre.z, pre.w};
        float u[8] = {};
#pragma unroll
        for (int j = 0; j < kHcStreams; ++j) {
          float x[8];
          unpack_bf16(slot(batch, octet, i, 0, thread_)[j * kHcStreamThreads], x);
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
    const int token = lane_;
    if (token >= batch_tokens(batch)) return;
    float squares = shared_.warp_u_squares[0][token];
#pragma unroll
    for (int warp = 1; warp < slice_.num_warps(); ++warp) squares += shared_.warp_u_squares[warp][token];
    for (int to = warp_; to < slice_.ranks(); to += kHcStreamWarps) {
      ptx::store_async(&shared_.u_squares[slice_.rank()][token], squares, &shared_.u_squares_arrived, to);
    }
  }

  /// Norm, rounding and stores: half a warp has 128 channels of a token, a lane eight.
  __device__ void write_batch(int batch) {
    constexpr int kHalf = kWarpLanes / 2;
    const int half_warp = thread_ / kHalf, half_lane = lane_ % kHalf;
    const int num_items = batch_tokens(batch) * slice_.num_blocks();
    ptx::mbarrier_wait_cluster(&shared_.u_squares_arrived, batch % 2);
    for (int first = 2 * warp_; first < num_items; first += kHcStreamThreads / kHalf) {
      const int item = first + half_warp % 2;
      const bool valid = item < num_items;
      const int token = valid ? item / slice_.num_blocks() : 0,
                block = valid ? item % slice_.num_blocks() : 0;
      const float squares =
          warp_sum<kHalf>(half_lane < slice_.ranks() ? shared_.u_squares[half_lane][token] : 0.0F);
      const float inverse = inverse_rms(squares, slice_.width(), args_.rms_eps);

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
      const int column = slice_.first_channel() + block * kHcBlock + half_lane * 8;
      if (valid) *reinterpret_cast<uint4*>(args_.y + row * args_.y_stride + column) = words;
      if (args_.y_fp8.codes != nullptr) {
        unpack_bf16(words, y);
        const Fp8Piece<8> piece = quantise_fp8_block(y);
        if (valid) store_fp8_piece(args_.y_fp8, row, slice_.width(), column, piece);
      }
    }
  }

  // ---- Warp 8: `post` and `comb` of the tokens that this rank owns.

  __device__ void run_mixes() {
    constexpr int n = kHcStreams, kOwnedMixes = kHcMixes - n;
    // Lanes 0 to 3 have the logits of `post`, the next 16 those of `comb`.
    const bool has_mix = lane_ < kOwnedMixes;
    const float base = has_mix ? args_.base[n + lane_] : 0.0F, scale = args_.scale[lane_ < n ? 1 : 2];
    ptx::cluster_wait();
    ptx::wait_for_previous_kernel();
    if (warp_ > kHcStreamWarps) return;
    for (int batch = 0; batch < num_batches_; ++batch) {
      const int tokens = batch_tokens(batch);
      const int num_owned = (tokens - slice_.rank() + slice_.ranks() - 1) / slice_.ranks();
      if (lane_ == 0) {
        constexpr int kToAll = (n + 1) * sizeof(float), kToOwner = kOwnedMixes * sizeof(float);
        ptx::mbarrier_arrive_expect(&shared_.products_arrived,
                                    slice_.ranks() * (tokens * kToAll + num_owned * kToOwner));
      }
      ptx::mbarrier_wait_cluster(&shared_.products_arrived, batch % 2);
      // Every rank has sent these products, so all squares of the batch before are in.
      if (lane_ == 0) {
        ptx::mbarrier_arrive_expect(&shared_.u_squares_arrived, slice_.ranks() * tokens * sizeof(float));
      }
      for (int index = 0; index < num_owned; ++index) {
        const int token = index * slice_.ranks() + slice_.rank();
        float product = 0.0F;
#pragma unroll
        for (int rank = 0; rank < slice_.ranks(); ++rank) {
          const float* products = shared_.owned_products[batch % 2][rank * most_owned() + index];
          if (has_mix) product += products[lane_];
        }
        const float logit = product * rho(token) * scale + base;
        if (lane_ < n) args_.post[std::int64_t{batch_row(batch) + token} * n + lane_] = 2.0F * sigmoid(logit);
        if (lane_ >= n && has_mix) shared_.comb_logits[index][lane_ - n] = logit;
      }
      __syncwarp();
      if (lane_ < num_owned)
        write_comb(shared_.comb_logits[lane_], batch_row(batch) + lane_ * slice_.ranks() + slice_.rank());
      __syncwarp();
    }
  }

  __device__ void write_comb(const float* logits, int row) const {
    constexpr int n = kHcStreams;
    float comb[n][n];
#pragma unroll
    for (int j = 0; j < n; ++j) {
      const float4 quad = *reinterpret_cast<const float4*>(logits + j * n);
      comb[j][0] = quad.x, comb[j][1] = quad.y, comb[j][2] = quad.z, comb[j][3] = quad.w;
    }
    sinkhorn(comb, args_.sinkhorn_iterations, args_.hc_eps);
    float* const to = args_.comb + std::int64_t{row} * (n * n);
#pragma unroll
    for (int j = 0; j < n; ++j) {
      *reinterpret_cast<float4*>(to + j * n) = {comb[j][0], comb[j][1], comb[j][2], comb[j][3]};
    }
  }

  const HcSiteArgs& args_;
  HcSiteShared& shared_;
  uint4* const slots_;
  const HcSlice<kWidth> slice_;
  const int thread_, warp_, lane_;
  const int group_;    ///< token of an octet
  const int quarter_;  ///< eight channels of a chunk
  int first_row_, end_row_, batch_rows_, num_batches_;
};

template <bool kLeaving, int kWidth>
__global__ void __launch_bounds__(kHcSiteThreads, 1) hc_site_kernel(const __grid_constant__ HcSiteArgs args) {
  extern __shared__ __align__(128) std::byte hc_site_memory[];
  HcSite<kLeaving, kWidth>(args, hc_site_memory).run();
}

}  // namespace baleen
