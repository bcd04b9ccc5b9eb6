// A cluster of eight blocks a row: its 128 warps hold the row in registers, each a run of ids, so that memory is read once and
// a pass over the vocabulary costs a microsecond however many are needed. Passes meet on a board: every warp writes its part
// into every block's shared memory, and after one barrier of the cluster every warp adds all parts up, in one order.
//
// Top-k and top-p look for a threshold by halving, a pass each time, until one logit separates what is enough from what is
// not: about a dozen passes. That takes no histogram, no sorting and no memory, and its time is bounded whatever the logits
// are: after 16 passes the bits of the float are halved instead of its value, which takes 32. Equals at the threshold are
// counted off in order of id.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/check.h"
#include "cuda/cuda_context.h"
#include "cuda/kernel_launch.h"
#include "cuda/ordered_float.cuh"
#include "cuda/ptx/cluster.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/warp_reduce.cuh"
#include "ops/sample/sample.h"

namespace baleen {
namespace {

constexpr int kBlocksPerRow = 8;  // the largest portable cluster
constexpr int kThreads = 512;
constexpr int kWarpsPerBlock = kThreads / kWarpLanes;
constexpr int kWarpsPerRow = kBlocksPerRow * kWarpsPerBlock;
constexpr int kMaxSteps = 32;  // logits of a lane, in registers
constexpr int kMaxVocab = kWarpsPerRow * kWarpLanes * kMaxSteps;
constexpr int kRowsPerLaunch = 64;                                             // 2 KB of parameters
constexpr std::int64_t kSharedBytes = std::int64_t{4} * kThreads * kMaxSteps;  // weights
constexpr int kPassesByValue = 16;

/// `SampleRow`, worked out.
struct DeviceSampleRow {
  double min_p_offset;  ///< added to the largest logit: the lowest one kept
  double uniform;
  double top_p;
  float exponent_scale;  ///< log2(e) / temperature; 0: greedy
  std::int32_t top_k;
};

struct SampleParams {
  const float* logits;
  std::int64_t stride;
  std::int32_t vocab;
  std::int32_t steps;  ///< logits of a lane that are in use
  TokenId* ids;
  DeviceSampleRow rows[kRowsPerLaunch];
};

/// How many candidates, and their probability in units of the likeliest's.
struct Share {
  double mass;
  std::int32_t count;
};

/// Of some logits: the order of the largest and its id (the lowest of equals), and the order of the smallest.
struct Extremes {
  std::uint32_t best;
  std::uint32_t id;
  std::uint32_t worst;
};

/// What the warps of a row tell each other. Shares have two sides: one is written while the other may still be read.
struct Board {
  Extremes extremes[kWarpsPerRow];
  Share shares[2][kWarpsPerRow];
};

struct TopK {
  int k;
  __device__ bool reached(const Share& share) const { return share.count >= k; }
  /// How many of equal candidates to add to `above`; one has that weight.
  __device__ int wanted(const Share& above, float /*weight*/) const { return k - above.count; }
};

struct TopP {
  double mass;
  __device__ bool reached(const Share& share) const { return share.mass >= mass; }
  __device__ int wanted(const Share& above, float weight) const {
    const double count = ceil((mass - above.mass) / static_cast<double>(weight));
    return static_cast<int>(fmin(fmax(count, 1.0), static_cast<double>(kMaxVocab)));
  }
};

/// The first lane whose share of a line of masses, laid end to end, holds `target`; what is left of that inside it.
__device__ int pick(double mass, double& target) {
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

/// What a lane does for a row: its logits in registers, -infinity once they are dropped, and their weights in shared memory.
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
    if (lane_ < kBlocksPerRow) *ptx::in_block(&board_.extremes[warp_], lane_) = mine;
    ptx::cluster_sync();
    Extremes row = board_.extremes[lane_];
#pragma unroll
    for (int i = kWarpLanes; i < kWarpsPerRow; i += kWarpLanes) {
      const Extremes& other = board_.extremes[i + lane_];
      if (other.best > row.best) row.best = other.best, row.id = other.id;  // ids rise with i
      row.worst = min(row.worst, other.worst);
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
#pragma unroll
    for (int k = 0; k < kMaxSteps; ++k) {
      if (!(logits_[k] >= least)) logits_[k] = -INFINITY;
      weight(k) = weight_of(logits_[k]);
    }
  }

  __device__ void keep_top_k() {
    const Share all = share_of_row(lowest_);
    if (all.count > how_.top_k) shorten(TopK{how_.top_k}, all);
  }

  __device__ void keep_top_p() {
    const Share all = share_of_row(lowest_);
    shorten(TopP{how_.top_p * all.mass}, all);
  }

  /// The token in whose share the draw falls, to the warp that holds it; kNoToken to all others.
  __device__ TokenId draw() {
    const Share* shares = exchange(share_of_warp(lowest_));
    constexpr int kPerLane = kWarpsPerRow / kWarpLanes;
    double mass = 0.0;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) mass += shares[lane_ * kPerLane + i].mass;
    double target = how_.uniform * warp_sum(mass);
    const int first = kPerLane * pick(mass, target);
    const int warp = first + pick(lane_ < kPerLane ? shares[first + lane_ % kPerLane].mass : 0.0, target);
    if (warp != warp_) return kNoToken;

    double mass_of_step = 0.0;  // of step `lane_`; every lane begins at a bank of its own
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kWarpLanes; ++i) {
      mass_of_step += static_cast<double>(weights_[lane_ * kWarpLanes + (lane_ + i) % kWarpLanes]);
    }
    const int step = pick(mass_of_step, target);
    const int lane = pick(static_cast<double>(weights_[step * kWarpLanes + lane_]), target);
    return (warp_ * p_.steps + step) * kWarpLanes + lane;
  }

 private:
  __device__ int id_of(int k) const { return (warp_ * p_.steps + k) * kWarpLanes + lane_; }
  __device__ float& weight(int k) const { return weights_[k * kWarpLanes + lane_]; }
  __device__ float weight_of(float logit) const {
    return exp2f((logit - float_of_order(max_order_)) * how_.exponent_scale);
  }

  __device__ static Extremes of_warp(const Extremes& mine) {
    constexpr std::uint32_t kNoId = 0xFFFFFFFFu;
    const std::uint32_t best = __reduce_max_sync(kAllLanes, mine.best);
    return {best, __reduce_min_sync(kAllLanes, mine.best == best ? mine.id : kNoId),
            __reduce_min_sync(kAllLanes, mine.worst)};
  }

  /// Of this warp's candidates whose order is at least `least`.
  __device__ Share share_of_warp(std::uint32_t least) const {
    const float threshold = float_of_order(least);
    float mass = 0.0F;
    int count = 0;
#pragma unroll
    for (int k = 0; k < kMaxSteps; ++k) {
      const bool inside = logits_[k] >= threshold;
      mass += inside ? weight(k) : 0.0F;
      count += inside ? 1 : 0;
    }
    return {warp_sum(static_cast<double>(mass)), __reduce_add_sync(kAllLanes, count)};
  }

  /// Every warp's share, once all have given theirs.
  __device__ const Share* exchange(const Share& mine) {
    side_ ^= 1;
    if (lane_ < kBlocksPerRow) *ptx::in_block(&board_.shares[side_][warp_], lane_) = mine;
    ptx::cluster_sync();
    return board_.shares[side_];
  }

  __device__ Share share_of_row(std::uint32_t least) {
    const Share* shares = exchange(share_of_warp(least));
    Share sum{0.0, 0};
#pragma unroll
    for (int i = 0; i < kWarpsPerRow; i += kWarpLanes) {
      sum.mass += shares[i + lane_].mass;
      sum.count += shares[i + lane_].count;
    }
    return {warp_sum(sum.mass), __reduce_add_sync(kAllLanes, sum.count)};
  }

  /// Keeps the shortest prefix of the candidates that reaches `goal`. `all` of them do.
  template <class Goal>
  __device__ void shorten(const Goal& goal, const Share& all) {
    // What is not below `low` reaches the goal, what is not below `high` does not.
    std::uint32_t low = lowest_, high = max_order_ + 1;
    Share at_low = all, at_high{0.0, 0};
    for (int pass = 0; at_low.count - at_high.count > 1 && high - low > 1; ++pass) {
      std::uint32_t middle = low + (high - low) / 2;
      if (pass < kPassesByValue) {
        const std::uint32_t by_value =
            order_of_float(0.5F * float_of_order(low) + 0.5F * float_of_order(high));
        if (by_value > low && by_value < high) middle = by_value;
      }
      const Share share = share_of_row(middle);
      if (goal.reached(share)) {
        low = middle, at_low = share;
      } else {
        high = middle, at_high = share;
      }
    }
    lowest_ = low;
    const int equals = at_low.count - at_high.count;
    const int wanted = equals > 1 ? goal.wanted(at_high, weight_of(float_of_order(low))) : 1;
    drop_below(float_of_order(low), wanted < equals, wanted);
  }

  /// And, if `some_equals`, of the candidates equal to `least` all but the first `wanted` in order of id.
  __device__ void drop_below(float least, bool some_equals, int wanted) {
    int rank = 0;  // of the next equal in this warp
    if (some_equals) {
      int equals = 0;
#pragma unroll
      for (int k = 0; k < kMaxSteps; ++k) equals += logits_[k] == least ? 1 : 0;
      const Share* shares = exchange({0.0, __reduce_add_sync(kAllLanes, equals)});
      for (int i = lane_; i < warp_; i += kWarpLanes) rank += shares[i].count;
      rank = __reduce_add_sync(kAllLanes, rank);
    }
    const unsigned lanes_below = (1u << lane_) - 1;
#pragma unroll
    for (int k = 0; k < kMaxSteps; ++k) {
      bool keep = logits_[k] >= least;
      if (some_equals) {
        const unsigned equal = __ballot_sync(kAllLanes, logits_[k] == least);
        if (logits_[k] == least) keep = rank + __popc(equal & lanes_below) < wanted;
        rank += __popc(equal);
      }
      if (!keep) logits_[k] = -INFINITY, weight(k) = 0.0F;
    }
  }

  const SampleParams& p_;
  const DeviceSampleRow& how_;
  Board& board_;
  const int lane_;
  const int warp_;        ///< of the row's
  float* const weights_;  ///< [step][lane] of this warp
  float logits_[kMaxSteps];
  std::uint32_t max_order_ = 0;
  std::uint32_t lowest_ = 0;  ///< order of a float: no candidate is below
  int side_ = 0;              ///< of the board, last written
};

__global__ void __launch_bounds__(kThreads, 2) sample_kernel(const __grid_constant__ SampleParams p) {
  __shared__ Board board;
  extern __shared__ float weights[];
  ptx::launch_next_kernel();
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

DeviceSampleRow worked_out(const SampleRow& row) {
  if (row.temperature < kGreedyTemperature) return {};
  return {.min_p_offset = row.min_p > 0.0 ? row.temperature * std::log(row.min_p)
                                          : -std::numeric_limits<double>::infinity(),
          .uniform = row.uniform,
          .top_p = row.top_p,
          .exponent_scale = static_cast<float>(std::numbers::log2e / row.temperature),
          .top_k = row.top_k};
}

}  // namespace

void sample_sm90(const SampleArgs& args, CudaContext& context) {
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
    for (std::int64_t i = 0; i < count; ++i) {
      params.rows[i] = worked_out(args.rows[static_cast<std::size_t>(first + i)]);
    }
    launch_kernel("sample", sample_kernel,
                  {.grid = dim3(static_cast<unsigned>(count * kBlocksPerRow)),
                   .threads = kThreads,
                   .shared_bytes = kSharedBytes,
                   .cluster = kBlocksPerRow},
                  context.stream, params);
  }
}

}  // namespace baleen
