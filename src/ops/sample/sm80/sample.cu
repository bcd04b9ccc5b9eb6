// A block a row. It reads the logits as often as passes over the vocabulary are needed (they lie in L2) and
// remembers only where the prefix ends that it keeps: the order and id of the last candidate.
//
// Top-k and top-p look for that end by halving the range of values that it must lie in, a pass each time.
// When few candidates are left in the range, each gets a thread, which adds up what comes before it. Equals
// that are too many for threads are counted off in order of id.

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "cuda/cuda_context.h"
#include "cuda/kernel_launch.h"
#include "cuda/ordered_float.cuh"
#include "cuda/ptx/exp2.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/warp_reduce.cuh"
#include "ops/sample/cuda/candidate_shares.cuh"
#include "ops/sample/cuda/device_sample_row.h"
#include "ops/sample/cuda/sample.h"

namespace baleen::sm80 {
namespace {

using namespace sample_kernels;

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / kWarpLanes;
static_assert(kWarps == kWarpLanes);  // a lane for what each warp has
/// Masses of a row have 31 bits before their unit of 2^-14 (PackedShare).
constexpr int kMaxVocab = 1 << 17;
constexpr int kPassesByValue = 16;
constexpr int kFew = 128;   // candidates that get a thread each
constexpr int kLoads = 16;  // logits of a lane under way

struct SampleParams {
  const float* logits;
  std::int64_t stride;
  std::int32_t vocab;
  std::int32_t steps;  ///< logits of a lane
  TokenId* ids;
  DeviceSampleRow rows[kRowsPerLaunch];
};

struct SampleShared {
  uint4 parts[2][kWarps];  ///< a warp's each; one side is written while the other may still be read
  Candidate few[kFew];
  Candidate last;
};

class RowSampler {
 public:
  __device__ RowSampler(const SampleParams& params, const DeviceSampleRow& row, const float* logits,
                        SampleShared& shared)
      : p_(params),
        how_(row),
        logits_(logits),
        shared_(shared),
        lane_(static_cast<int>(threadIdx.x) % kWarpLanes),
        warp_(static_cast<int>(threadIdx.x) / kWarpLanes) {}

  /// The id of the largest logit, or kNoToken if there is no choice.
  __device__ TokenId find_best() {
    constexpr std::uint32_t kOrderOfNan =
        0xFFFFFFFFu;  // on top of all: the best tells whether there is a choice
    float largest = -INFINITY, smallest = INFINITY;
    int id_of_largest = id_of(0);
    bool has_nan = false;
    for_each([&](int id, float logit) {
      has_nan |= isnan(logit);
      if (logit > largest) largest = logit, id_of_largest = id;
      if (logit > -INFINITY) smallest = fminf(smallest, logit);
    });
    const Extremes mine = of_warp({has_nan ? kOrderOfNan : order_of_float(largest),
                                   static_cast<std::uint32_t>(id_of_largest), order_of_float(smallest)});
    const uint4* parts = exchange({mine.best, mine.id, mine.worst, 0});
    const Extremes row = of_warp({parts[lane_].x, parts[lane_].y, parts[lane_].z});
    max_order_ = row.best;
    last_ = {row.worst, kAnyId, 0.0F};
    const bool has_choice = row.best < order_of_float(INFINITY) && row.best > order_of_float(-INFINITY);
    return has_choice ? static_cast<TokenId>(row.id) : kNoToken;
  }

  __device__ void keep_min_p() {
    const double lowest = fmax(-static_cast<double>(std::numeric_limits<float>::max()),
                               static_cast<double>(float_of_order(max_order_)) + how_.min_p_offset);
    last_.order = max(last_.order, order_of_float(__double2float_ru(lowest)));
  }

  __device__ void keep_top_k() {
    const Share all = share_from(last_.order);
    if (all.count > how_.top_k) shorten(TopK{how_.top_k}, all);
  }

  __device__ void keep_top_p() {
    const Share all = share_from(last_.order);
    const auto mass = static_cast<std::uint64_t>(ceil(how_.top_p * static_cast<double>(all.mass)));
    shorten(TopP{::min(mass, all.mass)}, all);
  }

  /// The token in whose share the draw falls, to the warp that holds it; kNoToken to all others.
  __device__ TokenId draw() {
    const PackedShare mine = share_of_warp(last_.order);
    const uint4* parts = exchange({mine.high, mine.low, mine.count, 0});
    const double mass = static_cast<double>(PackedShare{parts[lane_].x, parts[lane_].y, 0}.mass()) / kUnits;
    double target = how_.uniform * warp_sum(mass);
    if (pick(mass, target) != warp_) return kNoToken;

    // Step by step; rounding can leave a target just past the end: it belongs to the last step that has any.
    int step = 0;
    double before = 0.0, before_step = 0.0;
    for_each_step([&](int k, float logit) {
      if (target < before) return;
      const double of_step = warp_sum(static_cast<double>(kept_weight(k, logit)));
      if (of_step <= 0.0) return;
      step = k, before_step = before;
      before += of_step;
    });
    target -= before_step;
    const int id = id_of(step);
    const float weight = kept_weight(step, id < p_.vocab ? logits_[id] : -INFINITY);
    const int lane = pick(static_cast<double>(weight), target);
    return (warp_ * p_.steps + step) * kWarpLanes + lane;
  }

 private:
  static constexpr std::uint32_t kAnyId = 0xFFFFFFFFu;

  __device__ int id_of(int k) const { return (warp_ * p_.steps + k) * kWarpLanes + lane_; }
  /// The lane's logits of kLoads steps from `first` on; of what there is not, any.
  __device__ void load(int first, float (&logits)[kLoads]) const {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) logits[i] = logits_[min(id_of(first + i), p_.vocab - 1)];
  }
  /// Calls `use(step, logit)` for all steps, -infinity where the lane has none.
  template <class Use>
  __device__ void for_each_step(Use use) const {
#pragma unroll 1
    for (int first = 0; first < p_.steps; first += kLoads) {
      float logits[kLoads];
      load(first, logits);
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        if (first + i < p_.steps) use(first + i, id_of(first + i) < p_.vocab ? logits[i] : -INFINITY);
      }
    }
  }
  /// Calls `use(id, logit)` for the lane's logits.
  template <class Use>
  __device__ void for_each(Use use) const {
    for_each_step([&](int k, float logit) {
      if (id_of(k) < p_.vocab) use(id_of(k), logit);
    });
  }
  __device__ bool keeps(int id, std::uint32_t order) const {
    return order > last_.order || (order == last_.order && static_cast<std::uint32_t>(id) <= last_.id);
  }
  __device__ float weight_of(float logit) const {
    return ptx::exp2_approximate((logit - float_of_order(max_order_)) * how_.exponent_scale);
  }
  /// Of the lane's logit of step `k`, -infinity where it has none.
  __device__ float kept_weight(int k, float logit) const {
    const int id = id_of(k);
    return id < p_.vocab && keeps(id, order_of_float(logit)) ? weight_of(logit) : 0.0F;
  }

  __device__ static Extremes of_warp(const Extremes& mine) {
    const std::uint32_t best = __reduce_max_sync(kAllLanes, mine.best);
    return {best, __reduce_min_sync(kAllLanes, mine.best == best ? mine.id : kAnyId),
            __reduce_min_sync(kAllLanes, mine.worst)};
  }

  /// Every warp's part, once all have written theirs.
  __device__ const uint4* exchange(const uint4& mine) {
    uint4* side = shared_.parts[phase_++ % 2];
    if (lane_ == 0) side[warp_] = mine;
    __syncthreads();
    return side;
  }

  /// Of this warp's kept candidates whose order is at least `least`.
  __device__ PackedShare share_of_warp(std::uint32_t least) const {
    float mass = 0.0F;
    int count = 0;
    for_each([&](int id, float logit) {
      const std::uint32_t order = order_of_float(logit);
      if (order < least || !keeps(id, order)) return;
      mass += weight_of(logit);
      ++count;
    });
    return PackedShare::sum_of_warp(mass, count);
  }
  /// Of the row's.
  __device__ Share share_from(std::uint32_t least) {
    const PackedShare mine = share_of_warp(least);
    const uint4* parts = exchange({mine.high, mine.low, mine.count, 0});
    return PackedShare::of_warp({parts[lane_].x, parts[lane_].y, parts[lane_].z}).share();
  }

  /// Of numbers that every warp has: the sum of those of the warps before this one.
  __device__ int sum_before(int mine) {
    const uint4* parts = exchange({static_cast<std::uint32_t>(mine), 0, 0, 0});
    return static_cast<int>(__reduce_add_sync(kAllLanes, lane_ < warp_ ? parts[lane_].x : 0u));
  }

  /// Keeps the shortest prefix of the candidates that reaches `goal`. `all` of them do.
  template <class Goal>
  __device__ void shorten(const Goal& goal, const Share& all) {
    // What is not below `low` reaches the goal, what is not below `high` does not.
    std::uint32_t low = last_.order, high = max_order_ + 1;
    Share at_low = all, at_high{0, 0};
    for (int pass = 0; at_low.count - at_high.count > kFew && high - low > 1; ++pass) {
      std::uint32_t middle = low + (high - low) / 2;
      if (pass < kPassesByValue) {
        const std::uint32_t by_value =
            order_of_float(0.5F * float_of_order(low) + 0.5F * float_of_order(high));
        if (by_value > low && by_value < high) middle = by_value;
      }
      const Share share = share_from(middle);
      if (goal.reached(share)) {
        low = middle, at_low = share;
      } else {
        high = middle, at_high = share;
      }
    }
    const int num_left = at_low.count - at_high.count;
    last_ = num_left <= kFew ? last_of_few(goal, low, high, at_high)
                             : equal_number(low, goal.wanted(at_high, weight_of(float_of_order(low))));
  }

  /// Calls `use(id, logit, number)` for the kept candidates with low <= order < high, which are numbered in
  /// order of id from 0 on.
  template <class Use>
  __device__ void number_candidates(std::uint32_t low, std::uint32_t high, Use use) {
    int count = 0;
    for_each([&](int id, float logit) {
      const std::uint32_t order = order_of_float(logit);
      count += order >= low && order < high && keeps(id, order) ? 1 : 0;
    });
    int number = sum_before(static_cast<int>(__reduce_add_sync(kAllLanes, static_cast<unsigned>(count))));
    for_each_step([&](int k, float logit) {
      const int id = id_of(k);
      const std::uint32_t order = order_of_float(logit);
      const bool inside = id < p_.vocab && order >= low && order < high && keeps(id, order);
      const unsigned others = __ballot_sync(kAllLanes, inside);
      if (inside) use(id, logit, number + __popc(others & ((1u << lane_) - 1)));
      number += __popc(others);
    });
  }

  /// The last candidate of the shortest prefix that reaches `goal`, among the few with low <= order < high;
  /// `above` them does not reach it.
  template <class Goal>
  __device__ Candidate last_of_few(const Goal& goal, std::uint32_t low, std::uint32_t high,
                                   const Share& above) {
    int count = 0;
    number_candidates(low, high, [&](int id, float logit, int number) {
      shared_.few[number] = {order_of_float(logit), static_cast<std::uint32_t>(id), weight_of(logit)};
      count = number + 1;
    });
    // A thread a candidate: is the goal still to be reached when everything before it is taken?
    count = block_max(count);
    Share before = above;
    Candidate candidate{};
    const bool has_one = static_cast<int>(threadIdx.x) < count;
    if (has_one) {
      candidate = shared_.few[threadIdx.x];
      float mass = 0.0F;
      for (int i = 0; i < count; ++i) {
        const Candidate other = shared_.few[i];
        const bool ahead = other.before(candidate);
        mass += ahead ? other.weight : 0.0F;
        before.count += ahead ? 1 : 0;
      }
      before.mass += static_cast<std::uint64_t>(static_cast<double>(mass) * kUnits);
    }
    const bool is_kept = has_one && !goal.reached(before);
    const int num_kept = __syncthreads_count(is_kept ? 1 : 0);
    if (is_kept && before.count - above.count == num_kept - 1) shared_.last = candidate;
    __syncthreads();
    return shared_.last;
  }

  /// Ends behind a barrier: what threads wrote before, all see.
  __device__ int block_max(int mine) {
    const std::uint32_t of_warp = __reduce_max_sync(kAllLanes, static_cast<std::uint32_t>(mine));
    const uint4* parts = exchange({of_warp, 0, 0, 0});
    return static_cast<int>(__reduce_max_sync(kAllLanes, parts[lane_].x));
  }

  /// Candidate `number` (from 1) in order of id of those equal to a logit.
  __device__ Candidate equal_number(std::uint32_t order, int wanted) {
    if (threadIdx.x == 0) shared_.last = {order, kAnyId, 0.0F};  // rounding may want more than there are
    number_candidates(order, order + 1, [&](int id, float /*logit*/, int number) {
      if (number == wanted - 1) shared_.last = {order, static_cast<std::uint32_t>(id), 0.0F};
    });
    __syncthreads();
    return shared_.last;
  }

  const SampleParams& p_;
  const DeviceSampleRow& how_;
  const float* const logits_;
  SampleShared& shared_;
  const int lane_, warp_;
  std::uint32_t max_order_ = 0;
  Candidate last_{};  ///< what is not behind it is kept
  int phase_ = 0;     ///< counts exchanges
};

__global__ void __launch_bounds__(kThreads, 1)
    sample_kernel(const __grid_constant__ SampleParams p, NextAtOnce order) {
  __shared__ SampleShared shared;
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const int row = static_cast<int>(blockIdx.x);
  const DeviceSampleRow& how = p.rows[row];
  RowSampler sampler(p, how, p.logits + row * p.stride, shared);
  const TokenId best = sampler.find_best();
  if (best == kNoToken || how.exponent_scale == 0.0F) {
    if (threadIdx.x == 0) p.ids[row] = best;
    return;
  }
  sampler.keep_min_p();
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
  for (std::int64_t first = 0; first < num_rows; first += kRowsPerLaunch) {
    const std::int64_t count = std::min<std::int64_t>(kRowsPerLaunch, num_rows - first);
    SampleParams params{.logits = args.logits.slice(first, first + count).data(),
                        .stride = args.logits.stride(0),
                        .vocab = static_cast<std::int32_t>(vocab),
                        .steps = static_cast<std::int32_t>((vocab + kThreads - 1) / kThreads),
                        .ids = args.ids.data() + first};
    work_out(args.rows.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
             params.rows);
    launch_kernel("sample", sample_kernel, {.grid = dim3(static_cast<unsigned>(count)), .threads = kThreads},
                  context.stream, params);
  }
}

}  // namespace baleen::sm80
