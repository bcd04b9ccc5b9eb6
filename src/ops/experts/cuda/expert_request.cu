// One block: it counts the tokens of each expert, splits the experts away (ops/experts/expert_split.h), and
// writes the host's part of them, with the tokens' codes, to pinned memory.

#include "base/check.h"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/system_memory.h"
#include "ops/experts/cuda/expert_dispatch_kernel.cuh"
#include "ops/experts/cuda/expert_plan.cuh"
#include "ops/experts/cuda/expert_request.h"
#include "ops/experts/expert_split.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kWarps = kPlanThreads / kWarpLanes;
constexpr int kNoSlot = -1;

struct RequestParams {
  PlanInput input;
  ExpertSlots slots;
  const Bf16Bits* x;
  Fp8Rows x_fp8;
  const float* weights;
  std::int64_t width;
  std::int32_t num_pieces;
};

/// In shared memory.
struct RequestPlan {
  int ids[kMaxHostRows];  ///< experts of the tokens' slots
  int num_rows[kPlanThreads];
  int slot_of[kPlanThreads];
  int num_come[kMaxSlotsOfBlock];
  int first_row[kPlanThreads];  ///< a computed expert's; -1: not computed
  int warp_sums[kWarps];
  SplitExpert away[kPlanThreads];
  unsigned long long best;
  HostExpertTimes times;
  bool has_rows[kMaxHostTokens];
};

/// What the thread of one expert knows of it.
struct OwnRequest {
  bool is_away = false;
  SplitExpert away{};
};

/// Counts tokens of experts and pieces of slots; ends behind a barrier.
__device__ OwnRequest find_away(const RequestParams& p, RequestPlan& plan) {
  const int thread = static_cast<int>(threadIdx.x);
  const int num_ids = p.input.num_tokens * p.input.num_selected;
  const int id = thread < num_ids ? p.input.local_expert(__ldcg(p.input.ids + thread)) : -1;
  if (thread < num_ids) plan.ids[thread] = id;
  if (id >= 0) atomicAdd(&plan.num_rows[id], 1);
  const std::int32_t held = thread < p.slots.count ? p.slots.state->expert[thread] : -1;
  if (held >= 0) plan.slot_of[held] = thread;
  const int lane = thread % kWarpLanes;
  for (int slot = thread / kWarpLanes; slot < p.slots.count; slot += kWarps) {
    int count = 0;
    for (int piece = lane; piece < p.num_pieces; piece += kWarpLanes)
      count += p.slots.state->pieces[slot][piece];
    for (int step = kWarpLanes / 2; step > 0; step /= 2) count += __shfl_xor_sync(kAllLanes, count, step);
    if (lane == 0) plan.num_come[slot] = count;
  }
  __syncthreads();
  OwnRequest own;
  if (thread < p.input.num_experts && plan.num_rows[thread] > 0) {
    const std::int32_t place = p.input.places[thread];
    const int slot = plan.slot_of[thread];
    own.away = {.expert = thread,
                .num_rows = plan.num_rows[thread],
                .num_pieces = p.num_pieces - (slot != kNoSlot ? plan.num_come[slot] : 0),
                .on_disk = place < 0};
    own.is_away = p.slots.buffered[thread] != place && own.away.num_pieces > 0;
  }
  return own;
}

/// Whether the host computes this thread's expert.
__device__ bool split(const RequestParams& p, RequestPlan& plan, const OwnRequest& own) {
  const int place = block_exclusive_sum(own.is_away ? 1 : 0, plan.warp_sums);
  const int num_away = block_sum(plan.warp_sums);
  if (own.is_away) plan.away[place] = own.away;
  __syncthreads();
  if (num_away == 0) return false;
  const auto take = [&](const SplitExpert* first_computed) {
    const SplitTime time = split_time(plan.away, num_away, first_computed, plan.times);
    atomicMin(&plan.best, static_cast<unsigned long long>(time.word));
  };
  if (own.is_away) take(&own.away);
  if (threadIdx.x == kPlanThreads - 1) take(nullptr);
  __syncthreads();
  return own.is_away && fetched_before(plan.away, num_away, own.away) >= SplitTime{plan.best}.num_fetched();
}

/// Codes and scales of the tokens that have rows; a scale is of kGroup values.
template <int kGroup>
__device__ void write_tokens(const RequestParams& p, const RequestPlan& plan) {
  const ComputedExperts& host = p.slots.host;
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes,
            lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int slices = static_cast<int>(p.width / kActivationGroup);
  for (int item = warp; item < p.input.num_tokens * slices; item += kWarps) {
    const int token = item / slices, slice = item % slices;
    if (!plan.has_rows[token]) continue;
    const dispatch_kernels::QuantisedWord word = dispatch_kernels::load_word<kGroup>(p, token, slice);
    reinterpret_cast<std::uint32_t*>(host.codes + token * p.width)[slice * kWarpLanes + lane] = word.codes;
    constexpr int kGroupLanes = kGroup / 4;
    if (lane % kGroupLanes != 0) continue;
    const int group = slice * (kActivationGroup / kGroup) + lane / kGroupLanes;
    host.scales[group * host_scale_stride(p.input.num_tokens) + token] = word.scale;
  }
}

template <int kGroup>
__global__ void __launch_bounds__(kPlanThreads)
    request_kernel(const __grid_constant__ RequestParams p, NextBehindWait order) {
  __shared__ RequestPlan plan;
  const int thread = static_cast<int>(threadIdx.x);
  const ComputedExperts& host = p.slots.host;
  HostExpertRequest& request = *host.request;
  plan.num_rows[thread] = 0;
  plan.slot_of[thread] = kNoSlot;
  if (thread < kMaxHostTokens) plan.has_rows[thread] = false;
  if (thread == 0) {
    const uint4 words = ptx::load_remote(reinterpret_cast<const uint4*>(&request.times));
    plan.times = {words.x, words.y, words.z, static_cast<std::int32_t>(words.w)};
    plan.best = SplitTime::kImpossible;
  }
  __syncthreads();
  order.wait().launch_next();

  const OwnRequest own = find_away(p, plan);
  const bool computed = split(p, plan, own);
  constexpr int kHalf = 16, kLowHalf = (1 << kHalf) - 1;
  const int before = block_exclusive_sum(computed ? 1 << kHalf | own.away.num_rows : 0, plan.warp_sums);
  const int sums = block_sum(plan.warp_sums);
  const int num_computed = sums >> kHalf, num_rows = sums & kLowHalf;
  plan.first_row[thread] = computed ? before & kLowHalf : -1;
  if (thread < p.input.num_experts) host.state->computed[thread] = computed ? 1 : 0;
  __syncthreads();

  const int num_ids = p.input.num_tokens * p.input.num_selected;
  const int id = thread < num_ids ? plan.ids[thread] : -1;
  int row = id >= 0 ? plan.first_row[id] : -1;
  if (row >= 0) {
    for (int earlier = 0; earlier < thread; ++earlier) row += plan.ids[earlier] == id ? 1 : 0;
    const int token = thread / p.input.num_selected;
    request.tokens[row] = token;
    request.weights[row] = p.weights[thread];
    plan.has_rows[token] = true;
  }
  if (thread < num_ids) host.state->row_of_slot[thread] = row;
  if (num_computed == 0) return;
  if (computed) {
    const int place = before >> kHalf;
    request.experts[place] = thread;
    request.places[place] = p.input.places[thread];
    request.first_rows[place] = before & kLowHalf;
  }
  if (thread == 0) {
    request.first_rows[num_computed] = num_rows;
    request.block = host.block;
    request.num_tokens = p.input.num_tokens;
    request.num_experts = num_computed;
    request.fetch_ns = host.state->fetch_ns;
    request.fetch_pieces = host.state->fetch_pieces;
    request.gpu_ns = host.state->gpu_ns;
    request.wait_ns = host.state->wait_ns;
    host.state->fetch_pieces = 0;
    host.state->gpu_ns = 0;
  }
  __syncthreads();
  write_tokens<kGroup>(p, plan);
  __threadfence_system();
  __syncthreads();
  if (thread == 0) {
    const std::uint64_t number = ++host.state->number;
    host.state->posted_at = ptx::global_time();
    ptx::store_release_system(&request.posted, number);
    const auto add = [](std::uint64_t& count, int value) {
      atomicAdd(reinterpret_cast<unsigned long long*>(&count), static_cast<unsigned long long>(value));
    };
    add(p.slots.counts->computed, num_computed);
    add(p.slots.counts->computed_rows, num_rows);
  }
}

}  // namespace

void request_host_experts(const ExpertsArgs& args, const LaunchStream& stream, bool early) {
  const ExpertPlaces& places = args.places;
  BALEEN_CHECK(host_computes(args) && !args.split.routed);
  BALEEN_CHECK(std::ssize(args.routed) <= kPlanThreads && places.slots.count <= kMaxSlotsOfBlock);
  const DispatchExtents extents{.num_tokens = args.ids.extent(0),
                                .num_selected = args.ids.extent(1),
                                .num_experts = std::ssize(args.routed)};
  const RequestParams params{.input = PlanInput(args, extents),
                             .slots = places.slots,
                             .x = args.x_fp8.codes != nullptr ? nullptr : args.x.bf16().data(),
                             .x_fp8 = args.x_fp8,
                             .weights = args.weights.data(),
                             .width = args.x.extent(1),
                             .num_pieces = num_fetch_pieces(places.block_bytes)};
  const bool small = args.routed[0].w1.activation_group == kSmallActivationGroup;
  launch_kernel("asking the host for experts",
                small ? request_kernel<kSmallActivationGroup> : request_kernel<kActivationGroup>,
                {.grid = dim3(1), .threads = kPlanThreads, .early = early}, stream, params);
}

}  // namespace baleen::BALEEN_ARCH
