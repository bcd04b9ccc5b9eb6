// One kernel for experts that tokens have and for those that a guess says they will have. Its blocks plan
// alike from the same state, which the last of them to have read it then replaces; afterwards each copies its
// share of the pieces.

#include <utility>

#include "base/check.h"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/device_flags.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/system_memory.h"
#include "cuda/stream_branch.h"
#include "ops/experts/cuda/expert_fetch.h"
#include "ops/experts/cuda/expert_layout.h"
#include "ops/experts/cuda/expert_plan.cuh"
#include "ops/experts/cuda/expert_request.h"
#include "ops/experts/expert_slots.h"

namespace baleen::BALEEN_ARCH {
namespace {

/// All blocks together have so much under way: 50 GB/s on an H100. 256 or 512 KB are no faster (44 and 50),
/// while other kernels' reads of the GPU's memory take 1.5 and 2 times as long instead of 1.3 times, and a
/// word of the host's memory 3.0 and 5.3 us instead of 2.4. With 64 KB copies reach 32 GB/s.
constexpr std::int64_t kBytesUnderWay = std::int64_t{128} << 10;
/// Loads of a thread that are under way.
constexpr int num_loads(int num_blocks) {
  return static_cast<int>(kBytesUnderWay / (num_blocks * kPlanThreads * std::int64_t{sizeof(uint4)}));
}
constexpr std::uint64_t kLongestDiskWait = 120'000'000'000;  // ns: a disk that hangs, not one that is slow
constexpr int kNoSlot = -1;

struct FetchParams {
  PlanInput input;  ///< which experts tokens chose, or a guess says
  ExpertSlots slots;
  std::byte* experts;
  std::int64_t expert_bytes;
  std::int32_t num_pieces;
  bool guess;
};

/// One block's plan, in shared memory. Items are experts that come, those from the host first.
struct FetchPlan {
  int chosen[kPlanThreads];  ///< 1: some token has the expert
  int slot_of[kPlanThreads];
  int warp_sums[kPlanThreads / kWarpLanes];
  std::int32_t keys[kMaxSlotsOfBlock];
  int slot_of_rank[kMaxSlotsOfBlock];
  int num_come[kMaxSlotsOfBlock];  ///< pieces that a slot's expert has
  int taken_by[kMaxSlotsOfBlock];  ///< expert that comes to the slot anew; -1: none
  int counts[4];                   ///< chosen experts that are resident, in slots, from the host, from disk
  bool is_last;
  short experts[kPlanThreads];
  short item_slots[kPlanThreads];
  int targets[kPlanThreads];
  std::uint8_t come[kMaxSlotsOfBlock][kMaxFetchPieces];
};

/// What the thread of one expert knows of it. One on disk is in a slot whole or not at all
/// (`ExpertStore::swap`).
struct OwnExpert {
  bool away = false;  ///< chosen, not in the device's memory and not the host's to compute
  bool computed = false;
  bool on_disk = false;
  int slot = kNoSlot;
  bool comes = false;  ///< has a place to come to
  int target = 0;
};

/// Which pieces slots have. Of an expert that comes anew none, whatever the slot held.
__device__ void read_pieces(const FetchParams& p, FetchPlan& plan) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  for (int slot = static_cast<int>(threadIdx.x) / kWarpLanes; slot < p.slots.count;
       slot += kPlanThreads / kWarpLanes) {
    int count = 0;
    for (int piece = lane; piece < p.num_pieces; piece += kWarpLanes) {
      const std::uint8_t come = plan.taken_by[slot] >= 0 ? 0 : p.slots.state->pieces[slot][piece];
      plan.come[slot][piece] = come;
      count += come;
    }
    for (int step = kWarpLanes / 2; step > 0; step /= 2) count += __shfl_xor_sync(kAllLanes, count, step);
    if (lane == 0) plan.num_come[slot] = count;
  }
}

/// Chooses slots; ends behind a barrier.
__device__ OwnExpert assign_slots(const FetchParams& p, FetchPlan& plan) {
  const int thread = static_cast<int>(threadIdx.x), num_slots = p.slots.count;
  plan.slot_of[thread] = kNoSlot;
  plan.chosen[thread] = 0;
  if (thread < 4) plan.counts[thread] = 0;
  __syncthreads();
  for_each_assignment(p.input, [&](int, int expert) { plan.chosen[expert] = 1; });
  const std::int32_t held = thread < num_slots ? p.slots.state->expert[thread] : -1;
  if (held >= 0) plan.slot_of[held] = thread;
  __syncthreads();
  if (thread < num_slots) {
    plan.keys[thread] = eviction_key(held, p.slots.state->age[thread], held >= 0 && plan.chosen[held] != 0);
    plan.taken_by[thread] = -1;
  }
  OwnExpert own;
  if (thread < p.input.num_experts && plan.chosen[thread] != 0) {
    const std::int32_t place = p.input.places[thread];
    own.computed = p.input.is_computed(thread);
    own.away = p.slots.buffered[thread] != place && !own.computed;
    own.on_disk = own.away && place < 0;
    own.slot = own.away ? plan.slot_of[thread] : kNoSlot;
  }
  __syncthreads();
  int num_free = 0;
  for (int slot = 0; slot < num_slots; ++slot) num_free += plan.keys[slot] != kKeptSlot ? 1 : 0;
  if (thread < num_slots && plan.keys[thread] != kKeptSlot)
    plan.slot_of_rank[slots_before(plan.keys, num_slots, thread)] = thread;
  // A guess waits for no disk.
  const bool misses = own.away && own.slot == kNoSlot && !(p.guess && own.on_disk);
  const int rank = block_exclusive_sum(misses ? 1 : 0, plan.warp_sums);
  __syncthreads();
  if (misses && rank < num_free) {
    own.slot = plan.slot_of_rank[rank];
    plan.taken_by[own.slot] = thread;
  }
  own.comes = own.away && (!p.guess || (own.slot != kNoSlot && !own.on_disk));
  own.target = own.slot != kNoSlot ? p.slots.first + own.slot : p.slots.buffer + rank - num_free;
  __syncthreads();
  return own;
}

/// By the block that was the last to read the old state.
__device__ void replace_state(const FetchParams& p, FetchPlan& plan, const OwnExpert& own, int num_on_disk) {
  const int thread = static_cast<int>(threadIdx.x);
  ExpertSlotState& state = *p.slots.state;
  ExpertFetchCounts& counts = *p.slots.counts;
  const auto add = [](std::uint64_t& count, int value) {
    atomicAdd(reinterpret_cast<unsigned long long*>(&count), static_cast<unsigned long long>(value));
  };
  if (thread < p.slots.count) {
    const int expert = plan.taken_by[thread];
    if (p.guess) {
      if (expert >= 0) {
        add(counts.guessed, 1);
        state.guessed[thread] = 1;
        state.age[thread] = kOldestAge;
      }
    } else {
      const bool chosen = expert >= 0 || plan.keys[thread] == kKeptSlot;
      if (chosen && expert < 0 && state.guessed[thread] != 0) add(counts.guessed_chosen, 1);
      state.guessed[thread] = 0;
      state.age[thread] = next_age(state.age[thread], chosen);
    }
    if (expert >= 0) state.expert[thread] = expert;
  }
  if (p.guess) {
    if (thread == 0) state.arrivals = 0;
    return;
  }
  if (own.away) p.slots.copied[thread] = own.target;
  if (thread == 0) {
    state.arrivals = 0;
    *p.slots.routed = 0;
    add(counts.resident, plan.counts[0]);
    add(counts.in_slots, plan.counts[1]);
    add(counts.from_host, plan.counts[2]);
    add(counts.from_disk, plan.counts[3]);
    if (num_on_disk > 0) ++p.slots.reads.state->number;
  }
}

/// By all threads: a piece of an expert's weights; whether all of it has been copied, for a guess ends when
/// the router has chosen. `kStaged`: from memory that the host writes meanwhile.
template <bool kGuess, bool kStaged = false>
__device__ bool copy_piece(const FetchParams& p, const std::byte* from, int target, int piece) {
  constexpr int kLoads = num_loads(kGuess ? kGuessBlocks : kFetchBlocks);
  constexpr int kSteps = static_cast<int>(kFetchPieceBytes / sizeof(uint4)) / (kLoads * kPlanThreads);
  static_assert(kSteps * kLoads * kPlanThreads * sizeof(uint4) == kFetchPieceBytes);
  const std::int64_t num_words = p.expert_bytes / static_cast<std::int64_t>(sizeof(uint4));
  const auto* source = reinterpret_cast<const uint4*>(from);
  auto* to = reinterpret_cast<uint4*>(p.experts + std::int64_t{target} * p.expert_bytes);
  std::int64_t first = std::int64_t{piece} * kSteps * kLoads * kPlanThreads + threadIdx.x;
#pragma unroll 1
  for (int step = 0; step < kSteps; ++step, first += kLoads * kPlanThreads) {
    uint4 words[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const std::int64_t word = first + i * kPlanThreads;
      if (word < num_words) words[i] = kStaged ? ptx::load_remote(source + word) : __ldcs(source + word);
    }
    // Behind the loads, for it waits.
    const bool ends = kGuess && threadIdx.x == 0 && ptx::flag_read(p.slots.routed) != 0;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (const std::int64_t word = first + i * kPlanThreads; word < num_words) to[word] = words[i];
    }
    if (kGuess && __syncthreads_or(ends)) return false;
  }
  return true;
}

/// By all threads: of a link that is to be slower than it is, until it would have copied so many pieces of
/// this block's.
__device__ void keep_pace(const FetchParams& p, std::uint64_t begin, int num_copied) {
  if (p.slots.least_piece_ns == 0) return;
  const std::uint64_t end =
      begin + static_cast<std::uint64_t>(num_copied) * gridDim.x * p.slots.least_piece_ns;
  if (threadIdx.x == 0) {
    while (ptx::global_time() < end) __nanosleep(100);
  }
  __syncthreads();
}

/// By all threads of a block whose guess ends before piece `first` of all items': its pieces from there on
/// have not come. What waits for the guess waits for this.
__device__ void leave_out(const FetchParams& p, const FetchPlan& plan, int num_items, int first) {
  const int num_blocks = static_cast<int>(gridDim.x);
  for (int i = first + static_cast<int>(threadIdx.x) * num_blocks; i < num_items * p.num_pieces;
       i += kPlanThreads * num_blocks) {
    const int piece = i % p.num_pieces, slot = plan.item_slots[i / p.num_pieces];
    if (slot != kNoSlot && plan.come[slot][piece] == 0) p.slots.state->pieces[slot][piece] = 0;
  }
}

/// Items from the host; pieces in turn, item after item. Returns how many pieces this block copied.
__device__ int fetch_from_host(const FetchParams& p, const FetchPlan& plan, int num_items) {
  const std::uint64_t begin = ptx::global_time();
  int num_copied = 0;
  for (int i = static_cast<int>(blockIdx.x); i < num_items * p.num_pieces; i += static_cast<int>(gridDim.x)) {
    const int item = i / p.num_pieces, piece = i % p.num_pieces, slot = plan.item_slots[item];
    if (slot != kNoSlot && plan.come[slot][piece] != 0) continue;
    const std::byte* const from =
        p.experts + std::int64_t{p.input.places[plan.experts[item]]} * p.expert_bytes;
    if (!p.guess) {
      copy_piece<false>(p, from, plan.targets[item], piece);
    } else if (!copy_piece<true>(p, from, plan.targets[item], piece)) {
      leave_out(p, plan, num_items, i);
      break;
    }
    ++num_copied;
    keep_pace(p, begin, num_copied);
    // Kernels behind this one read it: by then the piece has come.
    if (slot != kNoSlot && threadIdx.x == 0) p.slots.state->pieces[slot][piece] = 1;
  }
  // What the split goes by. Blocks have nearly as many pieces each.
  if (!p.guess && blockIdx.x == 0) {
    __syncthreads();
    if (threadIdx.x == 0 && num_copied > 0) {
      const std::uint64_t taken = ptx::global_time() - begin;
      atomicAdd(reinterpret_cast<unsigned long long*>(&p.slots.counts->fetch_ns), taken);
      if (p.input.computed != nullptr) {
        p.slots.host.state->fetch_ns = static_cast<std::uint32_t>(taken);
        p.slots.host.state->fetch_pieces = static_cast<std::uint32_t>(num_copied) * gridDim.x;
      }
    }
  }
  return num_copied;
}

/// By one thread: until the host has staged so many experts of the request, or has failed to for too long.
__device__ void wait_for_staged(ExpertReadRequest& request, std::uint64_t answer) {
  const std::uint64_t begin = ptx::global_time();
  while (ptx::load_acquire_system(&request.answered) < answer) {
    if (ptx::load_acquire_system(&request.given_up) != 0) return;
    if (ptx::global_time() - begin > kLongestDiskWait) ptx::store_release_system(&request.given_up, 1);
    __nanosleep(1000);
  }
}

/// Items from disk, which the host stages one after the other. Returns how many pieces this block copied.
__device__ int fetch_from_disk(const FetchParams& p, const FetchPlan& plan, int first_item, int num_items,
                               std::uint64_t number) {
  const ExpertReads& reads = p.slots.reads;
  int num_copied = 0;
  for (int i = 0; i < num_items; ++i) {
    const int item = first_item + i, slot = plan.item_slots[item];
    const std::uint64_t until_this = number << kRequestShift | static_cast<std::uint64_t>(i + 1);
    if (threadIdx.x == 0) wait_for_staged(*reads.request, until_this);
    __syncthreads();
    for (int piece = static_cast<int>(blockIdx.x); piece < p.num_pieces;
         piece += static_cast<int>(gridDim.x)) {
      copy_piece<false, true>(p, reads.staged + i % reads.num_staged * p.expert_bytes, plan.targets[item],
                              piece);
      if (slot != kNoSlot && threadIdx.x == 0) p.slots.state->pieces[slot][piece] = 1;
      ++num_copied;
    }
    __syncthreads();
    if (threadIdx.x == 0 &&
        ptx::flag_fetch_add(&reads.state->done[i], 1) == static_cast<int>(gridDim.x) - 1) {
      reads.state->done[i] = 0;
      ptx::store_release_system(&reads.request->taken, until_this);
    }
  }
  return num_copied;
}

/// By one block: the guessed experts that the host may have to compute, which are those of high numbers
/// (ops/experts/expert_split.h).
__device__ void tell_host(const FetchParams& p, FetchPlan& plan, const OwnExpert& own) {
  HostExpertGuess& guess = *p.slots.host.guess;
  const bool listed =
      own.away && !own.on_disk && (own.slot == kNoSlot || plan.num_come[own.slot] < p.num_pieces);
  const int before = block_exclusive_sum(listed ? 1 : 0, plan.warp_sums);
  const int count = block_sum(plan.warp_sums);
  const int place = count - 1 - before;
  if (listed && place < HostExpertGuess::kMaxExperts) guess.places[place] = p.input.places[threadIdx.x];
  if (threadIdx.x == 0) guess.count = min(count, HostExpertGuess::kMaxExperts);
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0) ptx::store_release_system(&guess.posted, ++p.slots.host.state->guess_number);
}

__global__ void __launch_bounds__(kPlanThreads)
    fetch_kernel(const __grid_constant__ FetchParams p, NextBehindWait order) {
  __shared__ FetchPlan plan;
  const int thread = static_cast<int>(threadIdx.x);
  order.wait().launch_next();
  const OwnExpert own = assign_slots(p, plan);
  read_pieces(p, plan);
  const bool from_disk = own.comes && own.on_disk && plan.slot_of[thread] == kNoSlot;
  const bool from_host = own.comes && !from_disk;
  constexpr int kHalf = 16, kLowHalf = (1 << kHalf) - 1;
  const int before = block_exclusive_sum(from_disk ? 1 << kHalf : from_host ? 1 : 0, plan.warp_sums);
  const int sums = block_sum(plan.warp_sums);
  const int num_on_host = sums & kLowHalf, num_on_disk = sums >> kHalf;
  if (own.comes) {
    const int item = from_disk ? num_on_host + (before >> kHalf) : before & kLowHalf;
    plan.experts[item] = static_cast<short>(thread);
    plan.item_slots[item] = static_cast<short>(own.slot);
    plan.targets[item] = own.target;
  }
  __syncthreads();
  if (thread < p.input.num_experts && plan.chosen[thread] != 0 && !own.computed) {
    const bool whole =
        own.away && plan.slot_of[thread] != kNoSlot && plan.num_come[plan.slot_of[thread]] == p.num_pieces;
    atomicAdd(&plan.counts[!own.away ? 0 : whole ? 1 : from_disk ? 3 : 2], 1);
  }
  const std::uint64_t number = num_on_disk > 0 ? p.slots.reads.state->number + 1 : 0;
  __syncthreads();
  if (thread == 0) {
    plan.is_last = ptx::flag_fetch_add(&p.slots.state->arrivals, 1) == static_cast<int>(gridDim.x) - 1;
  }
  if (num_on_disk > 0 && blockIdx.x == 0) {
    ExpertReadRequest& request = *p.slots.reads.request;
    if (thread < num_on_disk) request.experts[thread] = plan.experts[num_on_host + thread];
    if (thread == 0) request.block = p.slots.reads.block, request.count = num_on_disk;
    __threadfence_system();
    __syncthreads();
    if (thread == 0) ptx::store_release_system(&request.posted, number);
  }
  __syncthreads();
  if (p.guess && p.slots.host.guess != nullptr && blockIdx.x == 0) tell_host(p, plan, own);
  if (plan.is_last) replace_state(p, plan, own, num_on_disk);
  int num_copied = fetch_from_host(p, plan, num_on_host);
  if (num_on_disk > 0) num_copied += fetch_from_disk(p, plan, num_on_host, num_on_disk, number);
  if (thread == 0 && num_copied > 0) {
    std::uint64_t& bytes = p.guess ? p.slots.counts->bytes_ahead : p.slots.counts->bytes_behind;
    atomicAdd(reinterpret_cast<unsigned long long*>(&bytes),
              static_cast<unsigned long long>(num_copied * kFetchPieceBytes));
  }
}

void launch_fetch(const FetchParams& params, int num_blocks, const LaunchStream& stream, bool early) {
  BALEEN_CHECK(params.input.num_experts <= kPlanThreads && params.slots.count <= kMaxSlotsOfBlock);
  BALEEN_CHECK(params.num_pieces <= kMaxFetchPieces);
  BALEEN_CHECK_EQ(params.expert_bytes % static_cast<std::int64_t>(sizeof(uint4)), 0);
  launch_kernel("fetching experts", fetch_kernel,
                {.grid = dim3(static_cast<unsigned>(num_blocks)), .threads = kPlanThreads, .early = early},
                stream, params);
}

FetchParams describe(const ExpertsArgs& args, bool guess) {
  const View<const std::int32_t, 2>& ids = guess ? args.hints.next.ids : args.ids;
  const ExpertPlaces& places = guess ? args.hints.next.places : args.places;
  ExpertsArgs assigned = args;
  assigned.ids = ids;
  assigned.places = places;
  const DispatchExtents extents{.num_tokens = ids.extent(0),
                                .num_selected = ids.extent(1),
                                .num_experts = static_cast<std::int64_t>(args.routed.size())};
  PlanInput input(assigned, extents);
  if (guess) input.computed = nullptr;  // what the host computes is of this block
  return {.input = input,
          .slots = places.slots,
          .experts = places.blocks,
          .expert_bytes = places.block_bytes,
          .num_pieces = num_fetch_pieces(places.block_bytes),
          .guess = guess};
}

}  // namespace

void fetch_chosen_experts(const ExpertsArgs& args, const LaunchStream& stream, bool early) {
  const bool asks = host_computes(args);
  if (asks) request_host_experts(args, stream, early);
  launch_fetch(describe(args, false), kFetchBlocks, stream, early || asks);
}

void fetch_guessed_experts(const ExpertsArgs& args, const LaunchStream& stream) {
  launch_fetch(describe(args, true), kGuessBlocks, stream, false);
}

void fetch_before_products(const ExpertsArgs& args, CudaContext& context) {
  if (args.places.copied == nullptr) return;
  BALEEN_CHECK(context.branch != nullptr);
  const bool behind_guess = context.branch->is_open();
  if (behind_guess) context.branch->join(context.stream);
  context.num_sms += std::exchange(context.num_branch_sms, 0);
  fetch_chosen_experts(args, context.stream, !behind_guess);
  if (args.hints.next.ids.empty()) return;
  fetch_guessed_experts(args, context.branch->fork(context.stream));
  if (context.peers == nullptr) context.num_branch_sms = kGuessBlocks;
  context.num_sms -= context.num_branch_sms;
}

ExpertsArgs all_on_device(ExpertsArgs args) {
  args.places.of_expert = device_places(args);
  args.places.copied = nullptr;
  return args;
}

}  // namespace baleen::BALEEN_ARCH
