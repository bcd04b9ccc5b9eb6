// Attention over rows that are BF16 already, for prompts: tensor cores and L2 are the limit, not the
// conversion.
//
//     producer (a warpgroup)   rows of the list -> keys [64 entries][512 dims] in one of two stages
//     consumers (two)          scores = Q keys^T; weights = 2^(scores - maximum); sums += weights keys
//
// One thread block an SM runs through its tasks, a query and 64 heads each.
#include "cuda/kernel_launch.h"
#include "cuda/pipeline_ring.cuh"
#include "cuda/ptx/cp_async.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/setmaxnreg.h"
#include "ops/sparse_attention/sm90/attention_tile.cuh"
#include "ops/sparse_attention/sm90/dequantised_rows.h"

namespace baleen::sm90 {
namespace {

// Shared memory of attention over dequantised rows, and who waits for whom.
//
//     q        8 tiles [64 heads][64 dims]
//     keys     2 stages of 8 tiles [64 entries][64 dims]; rows of 128 bytes, swizzled as TMA does
//     weights  of the run in the stage with that number, as operand registers: written by one consumer for
//              the other
//
//     q                full: producer's copies -> consumers; empty: consumers, scores done -> producer
//     keys[h]          of dims 256 h ..; full: producer's copies -> who computes scores; empty: consumer h,
//                      who owns those dims, has used them as values -> producer
//     weights_full[s]  the consumer that computed them -> the other
//
// A half of the dims is free as soon as its owner is done with it: the owner has the run's weights, so its
// scores were done before. Weights need no barrier of their own to become free: whoever writes run n + 2's
// has waited for both halves of its keys, which the producer loads when both consumers were done with run
// n.

struct DequantisedSmem {
  std::byte q[kDimTiles][kTileBytes];
  std::byte keys[kStages][kDimTiles][kTileBytes];
  uint4 weights[kStages][kRunSteps][kWarpgroupThreads];
  float2 softmax[kStages][kGroupHeads];  ///< maximum and sum of the run's weights
};

/// In static shared memory, whose addresses the compiler knows.
struct DequantisedBarriers {
  RingBarriers<1> q;
  RingBarriers<kStages> keys[kConsumers];  ///< one for each half of the dims
  std::uint64_t weights_full[kStages];
};

/// The producer warpgroup of attention over dequantised rows: copies queries and the rows of their lists, 16
/// bytes at a time.
///
/// Eight threads share a row's 128 bytes of each tile, 16 rows at a time are a quarter of a run. The
/// numbers that the next run's rows have in the selection are loaded while this one's are being copied.
class DequantisedProducer {
 public:
  __device__ DequantisedProducer(const AttentionLaunch& launch, const DequantisedSpan& span, int groups,
                                 DequantisedSmem& smem, DequantisedBarriers& barriers)
      : launch_(launch),
        span_(span),
        groups_(groups),
        smem_(smem),
        barriers_(barriers),
        entry_(static_cast<int>(threadIdx.x) % kWarpgroupThreads / kRowThreads),
        piece_(static_cast<int>(threadIdx.x) % kRowThreads) {}

  __device__ void run() {
    const int num_tasks = launch_.num_rows * groups_, step = static_cast<int>(gridDim.x);
    int task = static_cast<int>(blockIdx.x);
    DequantisedQuery list = list_of(task);
    Selection ahead = selection(list, task, 0);
    begin_later(num_tasks, list.size);
    for (int num_done = 0; task < num_tasks; ++num_done) {
      const int next_task = task + step;
      const DequantisedQuery next_list = list_of(min(next_task, num_tasks - 1));
      copy_queries(task, num_done);
      for (int first = 0; first < list.size; first += kRunEntries) {
        const Selection now = ahead;
        ahead = selection(list, task, first + kRunEntries);
        copy_run(list, first, now);
      }
      task = next_task;
      list = next_list;
      ahead = selection(list, min(task, num_tasks - 1), 0);
    }
  }

 private:
  static constexpr int kRowThreads = 8;
  static constexpr int kQuarterRows = kWarpgroupThreads / kRowThreads;
  static constexpr int kQuarters = kRunEntries / kQuarterRows;

  /// Of this thread's rows of a run.
  struct Selection {
    std::int32_t entries[kQuarters];
  };
  struct Sources {
    const std::byte* rows[kQuarters];  ///< null: zeros
  };

  /// Tasks of a prompt take equally long: thread blocks that begin together store results and fetch queries
  /// at the same moments, and memory is idle in between. Those that have a task fewer than others begin
  /// later, up to a task's time.
  __device__ static void begin_later(int num_tasks, int list_size) {
    constexpr long long kRunCycles = 2800;  // about what a run of entries takes
    const int blocks = static_cast<int>(gridDim.x), busier = num_tasks % blocks;
    const int place = static_cast<int>(blockIdx.x) - busier;
    if (busier == 0 || place < 0) return;
    const long long task_cycles = list_size / kRunEntries * kRunCycles;
    const long long until = clock64() + task_cycles * place / (blocks - busier);
    while (clock64() < until) __nanosleep(100);
  }

  [[nodiscard]] __device__ DequantisedQuery list_of(int task) const {
    const int4 words = __ldcg(reinterpret_cast<const int4*>(span_.queries + task / groups_));
    return {words.x, words.y, words.z, words.w};
  }

  /// Reads alone, side by side: what they mean is worked out a run later.
  [[nodiscard]] __device__ Selection selection(const DequantisedQuery& list, int task, int first) const {
    Selection selection{};
    if (!launch_.selects || list.size == list.num_window) return selection;
    const std::int32_t* selected = launch_.selected + task / groups_ * launch_.selected_stride;
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) {
      const int entry = first + i * kQuarterRows + entry_ - list.num_window;
      selection.entries[i] = selected[min(max(entry, 0), launch_.top_k - 1)];
    }
    return selection;
  }

  [[nodiscard]] __device__ Sources sources(const DequantisedQuery& list, int first,
                                           const Selection& selection) const {
    Sources sources;
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) {
      const int index = first + i * kQuarterRows + entry_, entry = index - list.num_window;
      const int row = entry < 0         ? list.first_window_row + index
                      : launch_.selects ? list.first_entry_row + selection.entries[i]
                                        : list.first_entry_row + entry;
      sources.rows[i] = index < list.size ? reinterpret_cast<const std::byte*>(span_.rows) +
                                                std::int64_t{row} * (kWidth * 2)
                                          : nullptr;
    }
    return sources;
  }

  /// Dims from tile `first_tile` on, as many tiles as a consumer owns, to the same tiles of `tiles`.
  __device__ void copy_half(const Sources& sources, int first_tile, std::byte (&tiles)[kDimTiles][kTileBytes],
                            std::uint64_t* full) {
    std::byte* to = chunk_of(tiles[first_tile], entry_, piece_);
    const auto* zeros = reinterpret_cast<const std::byte*>(span_.rows);
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) {
      const bool valid = sources.rows[i] != nullptr;
      const std::byte* from =
          (valid ? sources.rows[i] : zeros) + first_tile * kTileDims * 2 + piece_ * sizeof(uint4);
#pragma unroll
      for (int tile = 0; tile < kConsumerTiles; ++tile) {
        ptx::cp_async_16(to + tile * kTileBytes + i * kQuarterRows * kTileDims * 2,
                         from + tile * kTileDims * 2, valid);
      }
    }
    ptx::cp_async_arrive(full);
  }

  /// A task's, once the consumers have the scores of the task before.
  __device__ void copy_queries(int task, int num_done) {
    const Bf16Bits* q = launch_.q + task / groups_ * launch_.q_row_stride;
    Sources sources;
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) {
      const int head = task % groups_ * kGroupHeads + i * kQuarterRows + entry_;
      sources.rows[i] = head < launch_.num_heads
                            ? reinterpret_cast<const std::byte*>(q + head * launch_.q_head_stride)
                            : nullptr;
    }
    const RingPlace place = RingPlace::of<1>(num_done);
    barriers_.q.wait_empty(place);
    for (int half = 0; half < kConsumers; ++half) {
      copy_half(sources, half * kConsumerTiles, smem_.q, barriers_.q.full(place));
    }
  }

  __device__ void copy_run(const DequantisedQuery& list, int first, const Selection& selection) {
    const RingPlace place = RingPlace::of<kStages>(num_filled_);
    const Sources rows = sources(list, first, selection);
    for (int half = 0; half < kConsumers; ++half) {
      barriers_.keys[half].wait_empty(place);
      copy_half(rows, half * kConsumerTiles, smem_.keys[place.stage], barriers_.keys[half].full(place));
    }
    ++num_filled_;
  }

  const AttentionLaunch& launch_;
  const DequantisedSpan& span_;
  int groups_;
  DequantisedSmem& smem_;
  DequantisedBarriers& barriers_;
  int entry_, piece_;
  int num_filled_ = 0;  ///< runs, over all tasks
};

/// The two consumer warpgroups of attention over dequantised rows.
///
/// Consumer 0 computes scores and weights of a list's even runs, consumer 1 of the odd ones, side by side;
/// then both add weights times values, run after run in list order, each for its half of the dims. What a
/// run needs besides its values is brought into registers while the run before is being added.
///
/// A thread holds two heads (row and row + 8 of the instruction's 64) and, of each tile of 64 dims, 16 values
/// of both.
class DequantisedConsumer {
 public:
  __device__ DequantisedConsumer(const AttentionLaunch& launch, const DequantisedSpan& span, int groups,
                                 DequantisedSmem& smem, DequantisedBarriers& barriers)
      : launch_(launch),
        span_(span),
        groups_(groups),
        smem_(smem),
        barriers_(barriers),
        consumer_(uniform(static_cast<int>(threadIdx.x) / kWarpgroupThreads)),
        thread_(static_cast<int>(threadIdx.x) % kWarpgroupThreads),
        lane_(thread_ % kWarpLanes),
        row_(thread_ / kWarpLanes * 16 + lane_ / 4) {}

  __device__ void run() {
    const int num_tasks = launch_.num_rows * groups_;
    int task = static_cast<int>(blockIdx.x), list_size = size_of(task);
    for (int num_done = 0; task < num_tasks; ++num_done) {
      const int next_task = task + static_cast<int>(gridDim.x);
      const int next_size = next_task < num_tasks ? size_of(next_task) : 0;
      barriers_.q.wait_full(RingPlace::of<1>(num_done));
      Sums sums = {};
      SoftmaxState state;
      if (consumer_ == 0) {
        add_even_first(list_size, sums, state);
      } else {
        add_odd_first(list_size, sums, state);
      }
      num_begun_ += runs_of(list_size);
      store_half(launch_, task / groups_, task % groups_, consumer_, row_, thread_, sums, state,
                 list_size == 0);
      task = next_task;
      list_size = next_size;
    }
  }

 private:
  using Sums = float[kConsumerTiles * kTileSums];
  using Scores = float[kTileSums];

  /// A run's weights as operands, and what merging them needs.
  struct Weights {
    RunWeights values;
    float2 softmax[2];
    float kept[2];  ///< what the sums so far are multiplied with
  };

  [[nodiscard]] __device__ static int runs_of(int list_size) {
    return (list_size + kRunEntries - 1) / kRunEntries;
  }

  [[nodiscard]] __device__ int size_of(int task) const {
    return uniform(__ldcg(&span_.queries[task / groups_].size));
  }

  __device__ void add_even_first(int list_size, Sums& sums, SoftmaxState& state) {
    const int num_runs = runs_of(list_size);
    if (num_runs == 0) barriers_.q.release_operands(0, lane_);
    for (int i = 0; i < num_runs; i += 2) {
      Scores scores;
      Weights even, odd;
      score(num_begun_ + i, scores);
      if (i + 2 >= num_runs) barriers_.q.release_operands(0, lane_);
      weigh(scores, list_size - i * kRunEntries, num_begun_ + i, even);
      state.take_in(even.softmax, even.values, even.kept);
      begin_adding(num_begun_ + i, even, sums);
      if (i + 1 < num_runs) {
        take(num_begun_ + i + 1, odd);
        state.take_in(odd.softmax, odd.values, odd.kept);
      }
      finish_adding(num_begun_ + i, even, sums);
      if (i + 1 == num_runs) break;
      begin_adding(num_begun_ + i + 1, odd, sums);
      finish_adding(num_begun_ + i + 1, odd, sums);
    }
  }

  __device__ void add_odd_first(int list_size, Sums& sums, SoftmaxState& state) {
    const int num_runs = runs_of(list_size);
    if (num_runs < 2) barriers_.q.release_operands(0, lane_);
    int i = 0;
    for (; i + 1 < num_runs; i += 2) {
      Scores scores;
      Weights even, odd;
      score(num_begun_ + i + 1, scores);
      if (i + 3 >= num_runs) barriers_.q.release_operands(0, lane_);
      weigh(scores, list_size - (i + 1) * kRunEntries, num_begun_ + i + 1, odd);
      take(num_begun_ + i, even);
      state.take_in(even.softmax, even.values, even.kept);
      begin_adding(num_begun_ + i, even, sums);
      state.take_in(odd.softmax, odd.values, odd.kept);
      finish_adding(num_begun_ + i, even, sums);
      begin_adding(num_begun_ + i + 1, odd, sums);
      finish_adding(num_begun_ + i + 1, odd, sums);
    }
    if (i == num_runs) return;
    Weights last;
    take(num_begun_ + i, last);
    state.take_in(last.softmax, last.values, last.kept);
    begin_adding(num_begun_ + i, last, sums);
    finish_adding(num_begun_ + i, last, sums);
  }

  /// Products of queries and keys of run `number`.
  __device__ void score(int number, Scores& scores) {
    const RingPlace place = RingPlace::of<kStages>(number);
    for (auto& ring : barriers_.keys) ring.wait_full(place);
    ptx::fence_proxy_async();
    begin_scores(smem_.q, smem_.keys[place.stage], scores);
    finish_products(scores);
  }

  /// Scores of run `number`, of which the first `num_valid` entries exist, to weights, for both consumers.
  __device__ void weigh(Scores& scores, int num_valid, int number, Weights& weights) {
    const int stage = number % kStages;
    weigh_scores(scores, num_valid, launch_.scale_log2, weights.softmax);
#pragma unroll
    for (int step = 0; step < kRunSteps; ++step) {
      const uint4 words = pack_bf16(reinterpret_cast<const float(&)[8]>(scores[8 * step]));
      smem_.weights[stage][step][thread_] = words;
      unpack_weights(words, weights.values[step]);
    }
    if (lane_ % 4 == 0) {
      smem_.softmax[stage][row_] = weights.softmax[0];
      smem_.softmax[stage][row_ + 8] = weights.softmax[1];
    }
    ptx::mbarrier_arrive(&barriers_.weights_full[stage]);
  }

  /// The other consumer's weights of run `number`.
  __device__ void take(int number, Weights& weights) {
    const int stage = number % kStages;
    ptx::mbarrier_wait(&barriers_.weights_full[stage], number / kStages % 2);
#pragma unroll
    for (int step = 0; step < kRunSteps; ++step) {
      unpack_weights(smem_.weights[stage][step][thread_], weights.values[step]);
    }
    weights.softmax[0] = smem_.softmax[stage][row_];
    weights.softmax[1] = smem_.softmax[stage][row_ + 8];
  }

  /// Queues run `number`'s weights times values, for this consumer's dims.
  __device__ void begin_adding(int number, const Weights& weights, Sums& sums) {
    SoftmaxState::scale(sums, weights.kept);
    sm90::begin_adding(weights.values, smem_.keys[number % kStages][consumer_ * kConsumerTiles], sums);
  }

  __device__ void finish_adding(int number, const Weights& weights, Sums& sums) {
    finish_products(sums);
#pragma unroll
    for (const auto& step : weights.values) {
#pragma unroll
      for (const std::uint32_t word : step) ptx::wgmma_hold_operand(word);
    }
    // Every phase is waited for by everyone, the consumer's own too: the next one might be taken for it
    // otherwise.
    ptx::mbarrier_wait(&barriers_.weights_full[number % kStages], number / kStages % 2);
    barriers_.keys[consumer_].release_operands(number % kStages, lane_);
  }

  const AttentionLaunch& launch_;
  const DequantisedSpan& span_;
  int groups_;
  DequantisedSmem& smem_;
  DequantisedBarriers& barriers_;
  int consumer_, thread_, lane_;
  int row_;            ///< head of the group, of the thread's first
  int num_begun_ = 0;  ///< runs, over all tasks
};

// Of the 168 registers a thread that 384 threads start with.
constexpr int kProducerRegisters = 56;
constexpr int kConsumerRegisters = 224;

__global__ void __launch_bounds__(kTileThreads, 1)
    attend_dequantised_kernel(const __grid_constant__ AttentionLaunch launch,
                              const __grid_constant__ DequantisedSpan span, int groups,
                              NextBehindWait order) {
  extern __shared__ std::byte dynamic_shared[];
  __shared__ DequantisedBarriers barriers;
  DequantisedSmem& smem = *reinterpret_cast<DequantisedSmem*>(dynamic_shared + bytes_to_tile(dynamic_shared));
  constexpr int kConsumerWarps = kWarpgroupThreads / kWarpLanes;
  if (threadIdx.x == 0) {
    barriers.q.init(kConsumers * kWarpgroupThreads, kConsumers * kConsumerWarps);
    for (auto& ring : barriers.keys) ring.init(kWarpgroupThreads, kConsumerWarps);
    for (std::uint64_t& full : barriers.weights_full) ptx::mbarrier_init(&full, kWarpgroupThreads);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  order.wait().launch_next();
  if (threadIdx.x >= kConsumers * kWarpgroupThreads) {
    ptx::registers_down_to<kProducerRegisters>();
    DequantisedProducer(launch, span, groups, smem, barriers).run();
  } else {
    ptx::registers_up_to<kConsumerRegisters>();
    DequantisedConsumer(launch, span, groups, smem, barriers).run();
  }
}

}  // namespace

void attend_dequantised(const AttentionLaunch& launch, const DequantisedSpan& span, CudaContext& context) {
  const int groups = (launch.num_heads + kGroupHeads - 1) / kGroupHeads;
  launch_kernel("attend_dequantised", attend_dequantised_kernel,
                {.grid = dim3(static_cast<unsigned>(std::min(launch.num_rows * groups, context.num_sms))),
                 .threads = kTileThreads,
                 .shared_bytes = sizeof(DequantisedSmem) + kRowGroupBytes},
                context.stream, launch, span, groups);
}

}  // namespace baleen::sm90
