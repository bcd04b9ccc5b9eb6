/// A hyper-connection site in one kernel and one pass over the streams: out of a half-block (`hc_post`), into the next
/// (`hc_pre`), its norm, and the rows as FP8 products want them. For as many rows as clusters hold at once.
///
/// A cluster takes up to 32 tokens, each of its blocks a slice of the channels (hc_slices.cuh):
///
///   1. x' = bf(post f + comb^T x) goes to memory and, in registers, into the products with fn (hc_streams.cuh). fn is in
///      registers before the kernel waits for its predecessor, up to width 4096.
///   2. Every rank gets every rank's products for `pre` and its squares; those for `post` and `comb` go to the one rank
///      that owns the token, whose ninth warp does Sinkhorn while the others go on. Ranks store into each other's shared
///      memory and wait by bytes (ptx/store_async.h).
///   3. u = bf(sum_j pre_j x'_j), and its squares are exchanged likewise.
///   4. y = bf(w u rho), to memory, with its FP8 codes; half a warp has 128 channels of a token.
#pragma once

#include <cstdint>

#include "cuda/ptx/cluster.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/setmaxnreg.h"
#include "cuda/ptx/store_async.h"
#include "ops/hc_pre/hc_gates.cuh"
#include "ops/hc_pre/hc_rows.cuh"
#include "ops/hc_pre/hc_streams.cuh"
#include "ops/rms_norm/inverse_rms.cuh"

namespace baleen {

/// Two warpgroups with streams, and one of which a warp does Sinkhorn, so that registers can be moved to the others.
inline constexpr int kHcSiteThreads = kHcStreamThreads + 128;
inline constexpr int kHcStreamRegisters = 232;
inline constexpr int kHcMixRegisters = 40;

/// Fixed part of a block's shared memory; the slots of the streams follow.
struct alignas(16) HcSiteShared {
  HcStreamsShared streams;
  float gate_products[kHcMaxRanks][kHcMaxBatchTokens][kHcStreams];  ///< of each rank, for `pre`
  float squares[kHcMaxRanks][kHcMaxBatchTokens];                    ///< of each rank
  /// Of each rank, for `post` and `comb` of the tokens that this rank owns.
  float owned_products[kHcMaxBatchTokens + kHcMaxRanks][kHcMixes - kHcStreams];
  float comb_logits[kHcMaxBatchTokens][kHcStreams * kHcStreams];  ///< of the tokens that this rank owns
  float pre[kHcMaxBatchTokens][kHcStreams];
  float warp_u_squares[kHcStreamWarps][kHcMaxBatchTokens];
  float u_squares[kHcMaxRanks][kHcMaxBatchTokens];  ///< of each rank
  float norm_weight[kHcMaxSlice];
  float pre_base[kHcStreams], pre_scale;
  std::uint64_t products_arrived;
  std::uint64_t u_squares_arrived;
};

template <bool kLeaving, int kWidth>
class HcSite {
 public:
  __device__ HcSite(const HcSiteArgs& args, int tokens_per_cluster, std::byte* memory)
      : args_(args),
        shared_(*reinterpret_cast<HcSiteShared*>(memory)),
        slice_(args.width, static_cast<int>(ptx::cluster_rank())),
        streams_(args, slice_, shared_.streams, memory + sizeof(HcSiteShared), hc_octets(tokens_per_cluster)),
        thread_(static_cast<int>(threadIdx.x)),
        warp_(thread_ / kWarpLanes),
        lane_(thread_ % kWarpLanes),
        group_(lane_ / 4),
        quarter_(lane_ % 4),
        first_row_(static_cast<int>(blockIdx.x) / slice_.ranks() * tokens_per_cluster),
        tokens_(min(tokens_per_cluster, args.num_rows - first_row_)) {}

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
  // Rank t % ranks owns token t, its token number t / ranks.
  [[nodiscard]] __device__ int num_owned() const {
    return (tokens_ - slice_.rank() + slice_.ranks() - 1) / slice_.ranks();
  }
  [[nodiscard]] __device__ int owned_token(int index) const { return index * slice_.ranks() + slice_.rank(); }
  /// Products of rank `rank` for the owner's token number `index`.
  [[nodiscard]] __device__ float* owned_products(int rank, int index) const {
    const int most_owned = (kHcMaxBatchTokens + slice_.ranks() - 1) / slice_.ranks();
    return shared_.owned_products[rank * most_owned + index];
  }

  /// Of a token whose squares have arrived.
  [[nodiscard]] __device__ float rho(int token) const {
    float squares = 0.0F;
#pragma unroll
    for (int rank = 0; rank < slice_.ranks(); ++rank) squares += shared_.squares[rank][token];
    return inverse_rms(squares, kHcStreams * slice_.width(), args_.norm_eps);
  }

  // ---- Warps 0 to 7.

  __device__ void run_streams() {
    for (int i = 4 * thread_; i < slice_.num_channels(); i += 4 * kHcStreamThreads) {
      *reinterpret_cast<float4*>(shared_.norm_weight + i) =
          *reinterpret_cast<const float4*>(args_.norm_weight + slice_.first_channel() + i);
    }
    if (thread_ < kHcStreams) shared_.pre_base[thread_] = args_.base[thread_];
    if (thread_ == 0) shared_.pre_scale = args_.scale[0];
    HcFragments fragments;
    streams_.load(fragments);
    ptx::cluster_wait();
    ptx::wait_for_previous_kernel();

    streams_.copy(0, first_row_, tokens_);
    ptx::cp_async_wait<0>();
    streams_.sync();
    streams_.multiply(0, first_row_, tokens_, fragments);
    streams_.sync();
    send_products();
    compute_pre();
    streams_.sync();
    weigh();
    streams_.sync();
    send_u_squares();
    write();
  }

  /// A lane has a token, a warp the ranks that are its own number modulo 8 and four of the products for the token's owner.
  __device__ void send_products() {
    const int token = lane_;
    if (token >= tokens_) return;
    std::uint64_t* const arrived = &shared_.products_arrived;
    const float4 products = streams_.block_sums(token, kHcFirstProduct);
    const float squares = streams_.block_squares(token);
    for (int to = warp_; to < slice_.ranks(); to += kHcStreamWarps) {
      ptx::store_async(reinterpret_cast<float4*>(shared_.gate_products[slice_.rank()][token]), products,
                       arrived, to);
      ptx::store_async(&shared_.squares[slice_.rank()][token], squares, arrived, to);
    }
    constexpr int kQuads = (kHcMixes - kHcStreams) / 4;
    static_assert(kQuads <= kHcStreamWarps);
    if (warp_ < kQuads) {
      float* const to = owned_products(slice_.rank(), token / slice_.ranks()) + 4 * warp_;
      ptx::store_async(reinterpret_cast<float4*>(to),
                       streams_.block_sums(token, kHcFirstProduct + kHcStreams + 4 * warp_), arrived,
                       token % slice_.ranks());
    }
  }

  /// A warp has eight tokens, a lane one stream of a token.
  __device__ void compute_pre() {
    const int token = warp_ * kHcOctet + group_;
    if (warp_ * kHcOctet >= tokens_) return;
    ptx::mbarrier_wait_cluster(&shared_.products_arrived, 0);
    float product = 0.0F;
#pragma unroll
    for (int rank = 0; rank < slice_.ranks(); ++rank) product += shared_.gate_products[rank][token][quarter_];
    shared_.pre[token][quarter_] =
        sigmoid(product * rho(token) * shared_.pre_scale + shared_.pre_base[quarter_]) + args_.hc_eps;
  }

  /// u = bf(sum_j pre_j x_j) over f in the slots, and its squares.
  __device__ void weigh() {
#pragma unroll 1
    for (int octet = 0; octet < hc_octets(tokens_); ++octet) {
      const int token = octet * kHcOctet + group_;
      const float4 pre = *reinterpret_cast<const float4*>(shared_.pre[token]);
      float squares = 0.0F;
      for (int i = 0; slice_.has_chunk(warp_, i); ++i) {
        uint4* const pieces = streams_.slot(0, octet, i, thread_);
        uint4 x[kHcStreams];
#pragma unroll
        for (int j = 0; j < kHcStreams; ++j) x[j] = pieces[j * kHcStreamThreads];
        squares += warp_sum<4>(weigh_streams(pre, x, pieces[kHcPieceF * kHcStreamThreads]));
      }
      if (quarter_ == 0) shared_.warp_u_squares[warp_][token] = squares;
    }
  }

  __device__ void send_u_squares() {
    const int token = lane_;
    if (token >= tokens_) return;
    float squares = 0.0F;
#pragma unroll
    for (int warp = 0; warp < slice_.num_warps(); ++warp) squares += shared_.warp_u_squares[warp][token];
    for (int to = warp_; to < slice_.ranks(); to += kHcStreamWarps) {
      ptx::store_async(&shared_.u_squares[slice_.rank()][token], squares, &shared_.u_squares_arrived, to);
    }
  }

  /// Norm, rounding and stores: half a warp has 128 channels of a token, a lane eight.
  __device__ void write() {
    constexpr int kHalf = kWarpLanes / 2;
    const int half_lane = lane_ % kHalf;
    const int num_items = tokens_ * slice_.num_blocks();
    ptx::mbarrier_wait_cluster(&shared_.u_squares_arrived, 0);
#pragma unroll 1
    for (int first = 2 * warp_; first < num_items; first += kHcStreamThreads / kHalf) {
      const int item = first + lane_ / kHalf;
      const bool valid = item < num_items;
      const int token = valid ? item / slice_.num_blocks() : 0,
                block = valid ? item % slice_.num_blocks() : 0;
      const float squares =
          warp_sum<kHalf>(half_lane < slice_.ranks() ? shared_.u_squares[half_lane][token] : 0.0F);
      const float inverse = inverse_rms(squares, slice_.width(), args_.rms_eps);
      // The eight channels lie where the thread that made them has its slot.
      const int chunk = block * kHcChunksPerBlock + half_lane / 4;
      const int maker = chunk % kHcStreamWarps * kWarpLanes + token % kHcOctet * 4 + half_lane % 4;
      const uint4 u =
          streams_.slot(0, token / kHcOctet, chunk / kHcStreamWarps, maker)[kHcPieceF * kHcStreamThreads];
      const int channel = block * kHcBlock + half_lane * 8;
      write_normed(args_, slice_.width(), first_row_ + token, slice_.first_channel() + channel, u, inverse,
                   shared_.norm_weight + channel, valid);
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
    if (lane_ == 0) {
      constexpr int kToAll = (n + 1) * sizeof(float), kToOwner = kOwnedMixes * sizeof(float);
      ptx::mbarrier_arrive_expect(&shared_.products_arrived,
                                  slice_.ranks() * (tokens_ * kToAll + num_owned() * kToOwner));
      ptx::mbarrier_arrive_expect(&shared_.u_squares_arrived, slice_.ranks() * tokens_ * sizeof(float));
    }
    ptx::mbarrier_wait_cluster(&shared_.products_arrived, 0);
    for (int index = 0; index < num_owned(); ++index) {
      const int token = owned_token(index);
      float product = 0.0F;
#pragma unroll
      for (int rank = 0; rank < slice_.ranks(); ++rank) {
        if (has_mix) product += owned_products(rank, index)[lane_];
      }
      const float logit = product * rho(token) * scale + base;
      if (lane_ >= n && has_mix) {
        shared_.comb_logits[index][lane_ - n] = logit;
      } else if (lane_ < n) {
        args_.post[std::int64_t{first_row_ + token} * n + lane_] = 2.0F * sigmoid(logit);
      }
    }
    __syncwarp();
    if (lane_ < num_owned()) {
      write_comb(shared_.comb_logits[lane_], args_.sinkhorn_iterations, args_.hc_eps,
                 args_.comb + std::int64_t{first_row_ + owned_token(lane_)} * (n * n));
    }
  }

  const HcSiteArgs& args_;
  HcSiteShared& shared_;
  const HcSlice<kWidth> slice_;
  const HcStreams<kLeaving, kWidth> streams_;
  const int thread_, warp_, lane_;
  const int group_;    ///< token of an octet
  const int quarter_;  ///< eight channels of a chunk
  const int first_row_, tokens_;
};

template <bool kLeaving, int kWidth>
__global__ void __launch_bounds__(kHcSiteThreads, 1)
    hc_site_kernel(const __grid_constant__ HcSiteArgs args, int tokens_per_cluster) {
  extern __shared__ __align__(128) std::byte hc_memory[];
  HcSite<kLeaving, kWidth>(args, tokens_per_cluster, hc_memory).run();
}

}  // namespace baleen
