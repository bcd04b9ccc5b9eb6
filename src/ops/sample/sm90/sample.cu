// A cluster of eight blocks a row: its 128 warps hold the row in registers, each a run of ids, so that memory
// is read once however many passes over the vocabulary are needed. Passes meet on a board: every warp sends
// its part to every block of the cluster, and every warp adds up all parts, in one order.
//
// Top-k and top-p look for a threshold by halving the range of values that it must lie in, a pass each time.
// When few candidates are left in the range, each gets a thread, which adds up what comes before it. That
// takes no histogram, and the time is bounded whatever the logits are: after 16 passes the bits of the float
// are halved instead of its value, which takes 32. Equals that are too many for threads are counted off in
// order of id.

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "cuda/cuda_context.h"
#include "cuda/kernel_launch.h"
#include "cuda/ordered_float.cuh"
#include "cuda/ptx/cluster.h"
#include "cuda/ptx/exp2.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/mbarrier.h"
#include "cuda/ptx/store_async.h"
#include "cuda/warp_reduce.cuh"
#include "ops/sample/cuda/candidate_shares.cuh"
#include "ops/sample/cuda/device_sample_row.h"
#include "ops/sample/cuda/sample.h"

namespace baleen::sm90 {
namespace {

using namespace sample_kernels;

constexpr int kBlocksPerRow = 8;  // the largest portable cluster
constexpr int kThreads = 512;
constexpr int kWarpsPerBlock = kThreads / kWarpLanes;
constexpr int kWarpsPerRow = kBlocksPerRow * kWarpsPerBlock;
constexpr int kMaxSteps = 32;  // logits of a lane, in registers
constexpr int kMaxVocab = kWarpsPerRow * kWarpLanes * kMaxSteps;
constexpr std::int64_t kSharedBytes = std::int64_t{4} * kThreads * kMaxSteps;  // weights
constexpr int kPassesByValue = 16;
constexpr int kFew = 128;  // candidates that get a thread each

struct SampleParams {
  const float* logits;
  std::int64_t stride;
  std::int32_t vocab;
  std::int32_t steps;  ///< logits of a lane that are in use
  TokenId* ids;
  DeviceSampleRow rows[kRowsPerLaunch];
};

/// What the warps of a row tell each other, 16 bytes each. It has two sides: one is written while the other
/// may still be read, and before a side is written again every block has written something to the other one.
struct Board {
  uint4 parts[2][kWarpsPerRow];
  uint4 few[kFew];
  std::uint64_t barriers[2];
  Candidate last;  ///< this block's finding
};

/// What a lane does for a row: its logits in registers, -infinity once they are dropped, and their weights in
/// shared memory.
class RowSampler {
 public:
  /// `weights`: of the block, one for each logit.
  __device__ RowSampler(const SampleParams& params, const DeviceSampleRow& row, Board& board, float* weights)
      : p_(params),
        how_(row),
        board_(board),
        lane_(static_cast<int>(threadIdx.x) % kWarpLanes),
        warp_(static_cast<int>(ptx::cluster_rank()) * kWarpsPerBlock +
              static_cast<int>(threadIdx.x) / kWarpLanes),
        weights_(weights + static_cast<int>(threadIdx.x) / kWarpLanes * kMaxSteps * kWarpLanes) {}

  /// Reads the logits; the id of the largest, or kNoToken if there is no choice.
  __device__ TokenId load(const float* logits) {
#pragma unroll
    for (int k = 0; k < kMaxSteps; ++k) {
      logits_[k] = k < p_.steps && id_of(k) < p_.vocab ? logits[id_of(k)] : -INFINITY;
    }
    float largest = -INFINITY, smallest = INFINITY;
    int step = 0;
    bool has_nan = false;
#pragma unroll
    for (int k = 0; k < kMaxSteps; ++k) {
      has_nan |= isnan(logits_[k]);
      if (logits_[k] > largest) largest = logits_[k], step = k;
      if (logits_[k] > -INFINITY) smallest = fminf(smallest, logits_[k]);
    }
    // NaN comes out on top of all: the best of the row tells whether there is a choice.
    constexpr std::uint32_t kOrderOfNan = 0xFFFFFFFFu;
    const Extremes mine = of_warp({has_nan ? kOrderOfNan : order_of_float(largest),
                                   static_cast<std::uint32_t>(id_of(step)), order_of_float(smallest)});
    const uint4* parts = exchange({mine.best, mine.id, mine.worst, 0});
    Extremes row{parts[lane_].x, parts[lane_].y, parts[lane_].z};
#pragma unroll
    for (int i = kWarpLanes; i < kWarpsPerRow; i += kWarpLanes) {
      const uint4 other = parts[i + lane_];
      if (other.x > row.best) row.best = other.x, row.id = other.y;  // ids rise with i
      row.worst = min(row.worst, other.z);
    }
    row = of_warp(row);
    max_order_ = row.best;
    lowest_ = row.worst;
    const bool has_choice = row.best < order_of_float(INFINITY) && row.best > order_of_float(-INFINITY);
    return has_choice ? static_cast<TokenId>(row.id) : kNoToken;
  }

  /// Makes weights of the logits; those that min-p drops have none.
  __device__ void weigh() {
    const float max = float_of_order(max_order_);
    const double lowest = fmax(-static_cast<double>(std::numeric_limits<float>::max()),
                               static_cast<double>(max) + how_.min_p_offset);
    const float least = __double2float_ru(lowest);
    lowest_ = ::max(lowest_, order_of_float(least));
    float mass = 0.0F;
    int count = 0;
#pragma unroll
    for (int k = 0; k < kMaxSteps; ++k) {
      const bool keep = logits_[k] >= least;
      const float one = keep ? weight_of(logits_[k]) : 0.0F;
      if (!keep) logits_[k] = -INFINITY;
      weight(k) = one;
      mass += one;
      count += keep ? 1 : 0;
    }
    kept_ = PackedShare::sum_of_warp(mass, count);
  }

  __device__ void keep_top_k() {
    const Share all = sum_of_row(kept_);
    if (all.count > how_.top_k) shorten(TopK{how_.top_k}, all);
  }

  __device__ void keep_top_p() {
    const Share all = sum_of_row(kept_);
    const auto mass = static_cast<std::uint64_t>(ceil(how_.top_p * static_cast<double>(all.mass)));
    shorten(TopP{::min(mass, all.mass)}, all);
  }

  /// The token in whose share the draw falls, to the warp that holds it; kNoToken to all others.
  __device__ TokenId draw() {
    const uint4* parts = exchange(kept_);
    const auto mass_of = [&](int warp) {
      return static_cast<double>(PackedShare{parts[warp].x, parts[warp].y, 0}.mass()) / kUnits;
    };
    constexpr int kPerLane = kWarpsPerRow / kWarpLanes;
    double mass = 0.0;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) mass += mass_of(lane_ * kPerLane + i);
    double target = how_.uniform * warp_sum(mass);
    const int first = kPerLane * pick(mass, target);
    const int warp = first + pick(lane_ < kPerLane ? mass_of(first + lane_ % kPerLane) : 0.0, target);
    if (warp != warp_) return kNoToken;

    // Lane k adds up step k, in four sums; every lane begins at a bank of its own.
    double sums[4] = {};
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kWarpLanes; ++i) {
      sums[i % 4] += static_cast<double>(weights_[lane_ * kWarpLanes + (lane_ + i) % kWarpLanes]);
    }
    const int step = pick((sums[0] + sums[1]) + (sums[2] + sums[3]), target);
    const int lane = pick(static_cast<double>(weights_[step * kWarpLanes + lane_]), target);
    return (warp_ * p_.steps + step) * kWarpLanes + lane;
  }

 private:
  __device__ int id_of(int k) const { return (warp_ * p_.steps + k) * kWarpLanes + lane_; }
  __device__ float& weight(int k) const { return weights_[k * kWarpLanes + lane_]; }
  __device__ float weight_of(float logit) const {
    return ptx::exp2_approximate((logit - float_of_order(max_order_)) * how_.exponent_scale);
  }

  __device__ static Extremes of_warp(const Extremes& mine) {
    constexpr std::uint32_t kNoId = 0xFFFFFFFFu;
    const std::uint32_t best = __reduce_max_sync(kAllLanes, mine.best);
    return {best, __reduce_min_sync(kAllLanes, mine.best == best ? mine.id : kNoId),
            __reduce_min_sync(kAllLanes, mine.worst)};
  }

  /// Of this warp's candidates whose order is at least `least`.
  __device__ PackedShare share_of_warp(std::uint32_t least) const {
    const float threshold = float_of_order(least);
    float mass = 0.0F;
    int count = 0;
#pragma unroll
    for (int k = 0; k < kMaxSteps; ++k) {
      const bool inside = logits_[k] >= threshold;
      mass += inside ? weight(k) : 0.0F;
      count += inside ? 1 : 0;
    }
    return PackedShare::sum_of_warp(mass, count);
  }

  /// A phase of the board in which every block of the cluster is sent `bytes`: the barrier to send them to.
  __device__ std::uint64_t* begin_phase(std::uint32_t bytes) {
    std::uint64_t* barrier = &board_.barriers[phase_ % 2];
    if (threadIdx.x == 0) ptx::mbarrier_arrive_expect(barrier, bytes);
    return barrier;
  }
  __device__ void end_phase() {
    ptx::mbarrier_wait_cluster(&board_.barriers[phase_ % 2], static_cast<std::uint32_t>(phase_ / 2 % 2));
    ++phase_;
  }

  /// Every warp's part, once all have written theirs.
  __device__ const uint4* exchange(const uint4& mine) {
    uint4* side = board_.parts[phase_ % 2];
    std::uint64_t* barrier = begin_phase(sizeof(board_.parts[0]));
    if (lane_ < kBlocksPerRow)
      ptx::store_async(&side[warp_], mine, barrier, static_cast<std::uint32_t>(lane_));
    end_phase();
    return side;
  }
  __device__ const uint4* exchange(const PackedShare& mine) {
    return exchange(uint4{mine.high, mine.low, mine.count, 0});
  }

  /// Of what the warps have each.
  __device__ Share sum_of_row(const PackedShare& mine) {
    const uint4* parts = exchange(mine);
    PackedShare sum{0, 0, 0};
#pragma unroll
    for (int i = 0; i < kWarpsPerRow; i += kWarpLanes) {
      const uint4 part = parts[i + lane_];
      sum.high += part.x, sum.low += part.y, sum.count += part.z;
    }
    return PackedShare::of_warp(sum).share();
  }

  /// Of numbers that every warp has: the sum of those of the warps before this one.
  __device__ int sum_before(std::uint32_t mine) {
    const uint4* parts = exchange(uint4{mine, 0, 0, 0});
    std::uint32_t sum = 0;
    for (int i = lane_; i < warp_; i += kWarpLanes) sum += parts[i].x;
    return static_cast<int>(__reduce_add_sync(kAllLanes, sum));
  }

  /// Keeps the shortest prefix of the candidates that reaches `goal`. `all` of them do.
  template <class Goal>
  __device__ void shorten(const Goal& goal, const Share& all) {
    // What is not below `low` reaches the goal, what is not below `high` does not.
    std::uint32_t low = lowest_, high = max_order_ + 1;
    Share at_low = all, at_high{0, 0};
    for (int pass = 0; at_low.count - at_high.count > kFew && high - low > 1; ++pass) {
      std::uint32_t middle = low + (high - low) / 2;
      if (pass < kPassesByValue) {
        const std::uint32_t by_value =
            order_of_float(0.5F * float_of_order(low) + 0.5F * float_of_order(high));
        if (by_value > low && by_value < high) middle = by_value;
      }
      const Share share = sum_of_row(share_of_warp(middle));
      if (goal.reached(share)) {
        low = middle, at_low = share;
      } else {
        high = middle, at_high = share;
      }
    }
    const int num_left = at_low.count - at_high.count;
    const Candidate last = num_left <= kFew
                               ? last_of_few(goal, low, high, at_high, num_left)
                               : equal_number(low, goal.wanted(at_high, weight_of(float_of_order(low))));
    lowest_ = last.order;
    const float least = float_of_order(last.order);
    float mass = 0.0F;
    int count = 0;
#pragma unroll
    for (int k = 0; k < kMaxSteps; ++k) {
      const bool keep = logits_[k] > least || (logits_[k] == least && id_of(k) <= static_cast<int>(last.id));
      if (!keep) logits_[k] = -INFINITY, weight(k) = 0.0F;
      mass += keep ? weight(k) : 0.0F;
      count += keep ? 1 : 0;
    }
    kept_ = PackedShare::sum_of_warp(mass, count);
  }

  /// The last candidate of the shortest prefix that reaches `goal`, among `count` with low <= order < high;
  /// `above` them does not reach it.
  template <class Goal>
  __device__ Candidate last_of_few(const Goal& goal, std::uint32_t low, std::uint32_t high,
                                   const Share& above, int count) {
    const float lowest = float_of_order(low), beyond = float_of_order(high);
    std::uint32_t steps_left = 0;  // of this lane, a bit each
#pragma unroll
    for (int k = 0; k < kMaxSteps; ++k) {
      if (logits_[k] >= lowest && logits_[k] < beyond) steps_left |= 1u << k;
    }
    int slot = sum_before(__reduce_add_sync(kAllLanes, static_cast<unsigned>(__popc(steps_left))));
    // Warps without candidates send nothing in the coming phase, so its end does not tell that they have read
    // the board.
    ptx::cluster_sync();
    std::uint64_t* barrier = begin_phase(static_cast<std::uint32_t>(count * sizeof(uint4)));
#pragma unroll
    for (int k = 0; k < kMaxSteps; ++k) {
      const bool is_left = (steps_left >> k & 1u) != 0;
      const unsigned left = __ballot_sync(kAllLanes, is_left);
      if (is_left) tell_candidate(k, slot + __popc(left & lanes_below()), barrier);
      slot += __popc(left);
    }
    end_phase();

    // A thread a candidate: is the goal still to be reached when everything before it is taken?
    const auto candidate_at = [&](int i) {
      const uint4 words = board_.few[i];
      return Candidate{words.x, words.y, __uint_as_float(words.z)};
    };
    Share before = above;
    Candidate candidate{};
    const bool has_one = static_cast<int>(threadIdx.x) < count;
    if (has_one) {
      candidate = candidate_at(static_cast<int>(threadIdx.x));
      float mass = 0.0F;
      for (int i = 0; i < count; ++i) {
        const Candidate other = candidate_at(i);
        const bool ahead = other.before(candidate);
        mass += ahead ? other.weight : 0.0F;
        before.count += ahead ? 1 : 0;
      }
      before.mass += static_cast<std::uint64_t>(static_cast<double>(mass) * kUnits);
    }
    const bool is_kept = has_one && !goal.reached(before);
    const int num_kept = __syncthreads_count(is_kept ? 1 : 0);
    if (is_kept && before.count - above.count == num_kept - 1) board_.last = candidate;
    __syncthreads();
    return board_.last;
  }

  __device__ void tell_candidate(int k, int slot, std::uint64_t* barrier) {
    const uint4 words{order_of_float(logits_[k]), static_cast<std::uint32_t>(id_of(k)),
                      __float_as_uint(weight(k)), 0};
#pragma unroll 1
    for (std::uint32_t block = 0; block < kBlocksPerRow; ++block) {
      ptx::store_async(&board_.few[slot], words, barrier, block);
    }
  }

  __device__ unsigned lanes_below() const { return (1u << lane_) - 1; }

  /// Candidate `number` (from 1) in order of id of those equal to a logit.
  __device__ Candidate equal_number(std::uint32_t order, int number) {
    const float logit = float_of_order(order);
    int equals = 0;
#pragma unroll
    for (int k = 0; k < kMaxSteps; ++k) equals += logits_[k] == logit ? 1 : 0;
    int rank = 1 + sum_before(__reduce_add_sync(kAllLanes, static_cast<unsigned>(equals)));
    std::uint32_t id = 0;  // in one lane of the row the one that is looked for
#pragma unroll
    for (int k = 0; k < kMaxSteps; ++k) {
      const unsigned equal = __ballot_sync(kAllLanes, logits_[k] == logit);
      if (logits_[k] == logit && rank + __popc(equal & lanes_below()) == number)
        id = static_cast<std::uint32_t>(id_of(k));
      rank += __popc(equal);
    }
    const uint4* parts = exchange(uint4{__reduce_max_sync(kAllLanes, id), 0, 0, 0});
    for (int i = lane_; i < kWarpsPerRow; i += kWarpLanes) id = max(id, parts[i].x);
    return {order, __reduce_max_sync(kAllLanes, id), 0.0F};
  }

  const SampleParams& p_;
  const DeviceSampleRow& how_;
  Board& board_;
  const int lane_;
  const int warp_;        ///< number among the row's warps
  float* const weights_;  ///< [step][lane] of this warp
  float logits_[kMaxSteps];
  std::uint32_t max_order_ = 0;
  PackedShare kept_{};        ///< what this warp keeps
  std::uint32_t lowest_ = 0;  ///< order of a float: no candidate is below
  int phase_ = 0;             ///< counts the phases of the board
};

__global__ void __launch_bounds__(kThreads, 2)
    sample_kernel(const __grid_constant__ SampleParams p, NextAtOnce order) {
  __shared__ Board board;
  extern __shared__ float weights[];
  order.launch_next();
  if (threadIdx.x == 0) {
    for (std::uint64_t& barrier : board.barriers) ptx::mbarrier_init(&barrier, 1);
    ptx::fence_mbarrier_init();
  }
  ptx::cluster_sync();  // all blocks of the row are there to be written to
  ptx::wait_for_previous_kernel();
  const int row = static_cast<int>(blockIdx.x) / kBlocksPerRow;
  const DeviceSampleRow& how = p.rows[row];
  RowSampler sampler(p, how, board, weights);
  const TokenId best = sampler.load(p.logits + row * p.stride);
  if (best == kNoToken || how.exponent_scale == 0.0F) {
    if (ptx::cluster_rank() == 0 && threadIdx.x == 0) p.ids[row] = best;
    return;
  }
  sampler.weigh();
  if (how.top_k > 0) sampler.keep_top_k();
  if (how.top_p < 1.0) sampler.keep_top_p();
  const TokenId drawn = sampler.draw();
  if (drawn != kNoToken && threadIdx.x % kWarpLanes == 0) p.ids[row] = drawn;
}

}  // namespace

void sample(const SampleArgs& args, CudaContext& context) {
  const std::int64_t num_rows = args.logits.extent(0), vocab = args.logits.extent(1);
  BALEEN_CHECK_EQ(static_cast<std::int64_t>(args.rows.size()), num_rows);
  BALEEN_CHECK_EQ(static_cast<std::int64_t>(args.ids.size()), num_rows);
  BALEEN_CHECK(vocab >= 1 && vocab <= kMaxVocab);
  constexpr int kIdsOfStep = kWarpsPerRow * kWarpLanes;
  for (std::int64_t first = 0; first < num_rows; first += kRowsPerLaunch) {
    const std::int64_t count = std::min<std::int64_t>(kRowsPerLaunch, num_rows - first);
    SampleParams params{.logits = args.logits.slice(first, first + count).data(),
                        .stride = args.logits.stride(0),
                        .vocab = static_cast<std::int32_t>(vocab),
                        .steps = static_cast<std::int32_t>((vocab + kIdsOfStep - 1) / kIdsOfStep),
                        .ids = args.ids.data() + first};
    work_out(args.rows.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
             params.rows);
    launch_kernel("sample", sample_kernel,
                  {.grid = dim3(static_cast<unsigned>(count * kBlocksPerRow)),
                   .threads = kThreads,
                   .shared_bytes = kSharedBytes,
                   .cluster = kBlocksPerRow},
                  context.stream, params);
  }
}

}  // namespace baleen::sm90
