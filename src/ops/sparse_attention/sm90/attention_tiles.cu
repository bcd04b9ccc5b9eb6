// Attention over rows of 448 + 64 values on the tensor cores.
//
//     producer (a warpgroup)   rows of the list -> BF16 keys [64 entries][512 dims] in one of two stages
//     consumers (two)          scores = Q keys^T; weights = 2^(scores - maximum); sums += weights keys
//
// One thread block an SM runs through its tasks; the producer is up to two runs of entries ahead, across
// tasks too. Thread blocks whose tasks see the same rows work in pairs and share keys.
#include "base/check.h"
#include "cuda/kernel_launch.h"
#include "cuda/pipeline_ring.cuh"
#include "cuda/ptx/bulk_copy.h"
#include "cuda/ptx/cluster.h"
#include "cuda/ptx/cp_async.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/setmaxnreg.h"
#include "cuda/ptx/tma.h"
#include "cuda/tensor_map.h"
#include "ops/operation/operation.h"
#include "ops/sparse_attention/sm90/key_rows.cuh"
#include "ops/sparse_attention/sm90/tile_work.cuh"

namespace baleen::sm90 {
namespace {

// Shared memory of attention on tiles, and who waits for whom.
//
//     q        8 tiles [64 heads][64 dims], by TMA
//     keys     2 stages of 8 tiles [64 entries][64 dims] BF16; rows of 128 bytes, swizzled as TMA does
//     weights  of the run in the stage with that number, as operand registers: written by one warpgroup,
//              read by both
//
//     q                full: TMA, task known -> consumers; empty: consumers, scores done -> producer
//     keys             full: producer -> consumers; empty: consumer, its half of the dims used -> producer
//     weights_full[s]  the consumer that computed them -> both
//
// A pair is two thread blocks of a cluster whose tasks, next to each other, see the same rows: groups of
// heads of a query, or rows of a sequence that attend to all compressed entries. Each dequantises half of
// every run that they share and sends it to the same place in the other's shared memory. A stage is then
// full when the bytes that come from there are there as well, and empty when the consumers of both have read
// it, so that stages go round together; a shorter list's thread block goes through the last stages with
// nothing in them.
//
// Weights need no barrier of their own to become free: whoever writes run n + 2's has waited for its keys,
// which the producer wrote when both consumers were done with run n.

/// What the producer found out about a task.
struct TaskInfo {
  int query, group;
  int list_size;
  TileRange runs;
  int pair_end;    ///< end of the runs of the pair's longer list
  int first_slot;  ///< where the item's weights begin; negative: the task does the whole item
  bool nothing;    ///< to do: another task does the whole item
};

template <RowForm kForm>
struct TileSmem {
  std::byte q[kDimTiles][kTileBytes];
  std::byte keys[kStages][kDimTiles][kTileBytes];
  uint4 weights[kStages][kRunSteps][kWarpgroupThreads];
  uint4 codes[KeyRows<kForm>::kCodeTiles][kWarpgroupThreads];  ///< on their way to the producer's threads
  float2 softmax[kStages][kGroupHeads];                        ///< maximum and sum of the run's weights
  TaskInfo tasks[2];
};

/// In static shared memory, whose addresses the compiler knows.
struct TileBarriers {
  RingBarriers<1> q;
  RingBarriers<kStages, kConsumers> keys;  ///< each consumer frees its half of the dims
  std::uint64_t weights_full[kStages];
};

/// The producer warpgroup of attention on tiles: finds the rows of a query's list and writes them as BF16
/// keys.
///
/// Four threads share a row, 32 rows at a time are half a run. Thread t of a row takes codes 16 t .. of
/// each 64 that share a scale, so that two of its 16-byte stores with those of the neighbouring row touch all
/// banks.
///
/// Codes are loaded a run ahead, 28 KB in flight: those of the first half into registers, of the second
/// into shared memory. As soon as a piece is dequantised, the load of the same piece of the next run is
/// issued. A row's page is loaded another run earlier, and its number in the selection another.
///
/// Where the rows of the first task are it finds out before the kernel before has ended, as far as the step's
/// batch says it.
///
/// In a pair it dequantises a half of each run alone, and TMA copies that to the other thread block.
/// kInPairs: of a pair of thread blocks. kOneQuery: which always work at the same query.
template <RowForm kForm, bool kInPairs, bool kOneQuery>
class KeyProducer {
  using Rows = KeyRows<kForm>;

 public:
  __device__ KeyProducer(const AttentionLaunch& launch, const CUtensorMap& q_map, const WorkPlan& plan,
                         TileSmem<kForm>& smem, TileBarriers& barriers, const NextBehindWait& order)
      : launch_(launch),
        q_map_(q_map),
        plan_(plan),
        smem_(smem),
        barriers_(barriers),
        order_(order),
        thread_(static_cast<int>(threadIdx.x) % kWarpgroupThreads) {}

  __device__ void run() {
    for (int task = static_cast<int>(blockIdx.x); task < plan_.num_tasks();
         task += static_cast<int>(gridDim.x), ++num_done_) {
      const int item = task / plan_.parts, part = task % plan_.parts;
      const int query = item / plan_.groups, group = item % plan_.groups;
      EntryList list = item < plan_.items ? list_of(query) : EntryList{};
      const int num_runs = (list.size + kRunEntries - 1) / kRunEntries;
      TileRange runs = plan_.range(num_runs, part);
      runs = {uniform(runs.begin), uniform(runs.end)};
      TaskInfo info{.query = query,
                    .group = group,
                    .list_size = list.size,
                    .runs = runs,
                    .pair_end = runs.end,
                    .first_slot = plan_.shares(num_runs) ? item * plan_.slots : -1,
                    .nothing = part != 0 || item >= plan_.items};
      list.size = min(list.size, runs.end * kRunEntries);  // nothing beyond is loaded
      int first_shared = 0;
      if constexpr (kInPairs && !kOneQuery) first_shared = compare(list, task ^ 1, info);
      if (runs.begin >= runs.end) {
        begin(info);
      } else if constexpr (kInPairs) {
        fill_halves(list, info, first_shared);
      } else {
        fill(list, info);
      }
      if constexpr (kInPairs) {
        for (int run = runs.end; run < info.pair_end; ++run, ++num_filled_) {
          barriers_.keys.fill(free_place());
        }
      }
    }
  }

 private:
  static constexpr int kHalfRows = kWarpgroupThreads / kRowThreads;
  static constexpr int kCodeTiles = Rows::kCodeTiles;

  /// With several parts an item `gather_tiles` comes next: begun any earlier it took 10 us longer in a
  /// decode step.
  __device__ void wait_and_launch_next() const {
    const NextBehindWait::Waited waited = order_.wait();
    if (plan_.parts > 1) waited.launch_next();
  }

  [[nodiscard]] __device__ EntryList list_of(int query) const {
    EntryList list = EntryList::without_selected(launch_, query);
    if (launch_.selects) {
      wait_and_launch_next();
      list.append_selected(launch_, query);
    }
    return list;
  }

  /// Queries and description of a task, once the consumers have the scores of the task before.
  __device__ void begin(const TaskInfo& info) {
    if (thread_ != 0) return;
    const RingPlace place = RingPlace::of<1>(num_done_);
    barriers_.q.wait_empty(place);
    smem_.tasks[num_done_ % 2] = info;
    if (info.runs.begin >= info.runs.end) {  // nothing to multiply the queries with
      barriers_.q.fill(place);
      return;
    }
    barriers_.q.expect(place, kDimTiles * kTileBytes);
    for (int tile = 0; tile < kDimTiles; ++tile) {
      ptx::tma_load(smem_.q[tile], q_map_, barriers_.q.full(place), tile * kTileDims * 2,
                    info.group * kGroupHeads, info.query);
    }
  }

  [[nodiscard]] __device__ KeyRow key_row(const EntryList& list, int index, int row, PageId page) const {
    const bool entry = index >= list.num_window;
    return {row_place<kForm>(launch_, entry, page, row), entry};
  }

  /// What a thread knows of its row in half a run to come.
  struct RowAhead {
    int row;        ///< two runs ahead
    PageId page;    ///< page of that row
    int row_after;  ///< three runs ahead
  };

  /// Where the row at `index` is, which `ahead` was about; asks for the page and the number of those to come.
  __device__ KeyRow advance(const EntryList& list, int index, RowAhead& ahead) const {
    const KeyRow next = key_row(list, index, ahead.row, ahead.page);
    ahead.row = ahead.row_after;
    ahead.page = list.page(launch_, index + kRunEntries, ahead.row);
    ahead.row_after = list.row(index + 2 * kRunEntries);
    return next;
  }

  /// With the list of the pair's other task, another query's. Both go through as many runs as the longer
  /// one has, and share those from the returned one on: the compressed ones of the same sequence, in lists of
  /// as many runs.
  __device__ int compare(EntryList& list, int other_task, TaskInfo& info) const {
    const int num_runs = info.runs.end, other_query = other_task / plan_.groups;
    const EntryList other = other_task < plan_.items ? list_of(other_query) : EntryList{};
    const int other_runs = uniform((other.size + kRunEntries - 1) / kRunEntries);
    info.pair_end = max(num_runs, other_runs);
    if (num_runs != other_runs || list.selected != nullptr || list.pages != other.pages ||
        list.num_window != other.num_window) {
      return num_runs;
    }
    // The last run may have a row more in the other list. The consumers here pass over it.
    list.size = max(list.size, other.size);
    return min(num_runs, uniform((list.num_window + kRunEntries - 1) / kRunEntries));
  }

  [[nodiscard]] __device__ RingPlace place_of_next() const { return RingPlace::of<kStages>(num_filled_); }
  /// Waits until the stage of the next run is free.
  [[nodiscard]] __device__ RingPlace free_place() const {
    const RingPlace place = place_of_next();
    for (int consumer = 0; consumer < kConsumers; ++consumer) barriers_.keys.wait_empty(place, consumer);
    return place;
  }

  __device__ void fill(const EntryList& list, const TaskInfo& info) {
    const TileRange runs = info.runs;
    const int piece = thread_ % kRowThreads, entry = thread_ / kRowThreads;
    int index = runs.begin * kRunEntries + entry;  // of the first half

    RowAhead ahead[2];
    KeyRow rows[2];  // of the run that is on its way
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = index + half * kHalfRows;
      const int row = list.row(at);
      ahead[half].row = list.row(at + kRunEntries);
      ahead[half].row_after = list.row(at + 2 * kRunEntries);
      rows[half] = key_row(list, at, row, list.page(launch_, at, row));
      ahead[half].page = list.page(launch_, at + kRunEntries, ahead[half].row);
    }
    wait_and_launch_next();
    typename Rows::Scales scales[2] = {Rows::load_scales(rows[0], piece), Rows::load_scales(rows[1], piece)};
    uint4 codes[kCodeTiles];
#pragma unroll
    for (int i = 0; i < kCodeTiles; ++i) {
      codes[i] = load_codes(rows[0], i, piece);
      copy_codes(rows[1], i, piece);
    }
    ptx::cp_async_commit();
    begin(info);

    for (int run = runs.begin; run < runs.end; ++run, ++num_filled_) {
      const RingPlace place = free_place();
      const int stage = place.stage;
      copy_rope(rows[0], stage, entry, piece);
      copy_rope(rows[1], stage, entry + kHalfRows, piece);
      ptx::cp_async_commit();

      index += kRunEntries;
      rows[0] = advance(list, index, ahead[0]);
#pragma unroll
      for (int i = 0; i < kCodeTiles; ++i) {
        Rows::store(codes[i], scales[0], i, smem_.keys[stage][i], entry, piece);
        codes[i] = load_codes(rows[0], i, piece);
      }
      Rows::store_large(scales[0], smem_.keys[stage], entry, piece);
      scales[0] = Rows::load_scales(rows[0], piece);

      rows[1] = advance(list, index + kHalfRows, ahead[1]);
      ptx::cp_async_wait<1>();  // the second half's codes
#pragma unroll
      for (int i = 0; i < kCodeTiles; ++i) {
        Rows::store(smem_.codes[i][thread_], scales[1], i, smem_.keys[stage][i], entry + kHalfRows, piece);
        copy_codes(rows[1], i, piece);
      }
      ptx::cp_async_commit();
      Rows::store_large(scales[1], smem_.keys[stage], entry + kHalfRows, piece);
      scales[1] = Rows::load_scales(rows[1], piece);

      ptx::cp_async_wait<1>();  // the rotary part
      ptx::fence_proxy_async();
      barriers_.keys.fill(place);
    }
    ptx::cp_async_wait<0>();
  }

  /// Half a run at a time: both of those before `first_shared`, of the others the one with this thread
  /// run's rank. A row's codes wait in registers.
  __device__ void fill_halves(const EntryList& list, const TaskInfo& info, int first_shared) {
    const int rank = static_cast<int>(ptx::cluster_rank());
    const int piece = thread_ % kRowThreads, own_entry = thread_ / kRowThreads;
    const int num_alone = kOneQuery ? 0 : 2 * first_shared, num_halves = num_alone / 2 + info.runs.end;
    const auto half_of = [&](int i) { return i < num_alone ? i : 2 * i - num_alone + rank; };
    const auto index_of = [&](int i) { return half_of(i) * kHalfRows + own_entry; };
    const auto row_of = [&](int i) { return i < num_halves ? list.row(index_of(i)) : -1; };
    RowAhead ahead{row_of(0), PageId::kNone, row_of(1)};
    ahead.page = list.page(launch_, index_of(0), ahead.row);
    const auto advance_to = [&](int i) {
      const KeyRow next = key_row(list, index_of(i), ahead.row, ahead.page);
      ahead.row = ahead.row_after;
      ahead.page = list.page(launch_, index_of(i + 1), ahead.row);
      ahead.row_after = row_of(i + 2);
      return next;
    };
    KeyRow row = advance_to(0);
    wait_and_launch_next();
    typename Rows::Scales scales = Rows::load_scales(row, piece);
    uint4 codes[kCodeTiles];
#pragma unroll
    for (int i = 0; i < kCodeTiles; ++i) codes[i] = load_codes(row, i, piece);
    begin(info);

    for (int i = 0; i < num_halves; ++i) {
      const bool shared = i >= num_alone;
      const RingPlace place = shared || i % 2 == 0 ? free_place() : place_of_next();
      const int stage = place.stage;
      const int entry = half_of(i) % 2 * kHalfRows + own_entry;
      copy_rope(row, stage, entry, piece);
      ptx::cp_async_commit();
      row = advance_to(i + 1);
#pragma unroll
      for (int k = 0; k < kCodeTiles; ++k) {
        Rows::store(codes[k], scales, k, smem_.keys[stage][k], entry, piece);
        codes[k] = load_codes(row, k, piece);
      }
      Rows::store_large(scales, smem_.keys[stage], entry, piece);
      scales = Rows::load_scales(row, piece);
      if (!shared && i % 2 == 0) continue;
      ptx::cp_async_wait<0>();
      ptx::fence_proxy_async();
      if (shared && thread_ == 0) {
        barriers_.keys.expect(place, kDimTiles * kTileBytes / 2);
      } else {
        barriers_.keys.fill(place);
      }
      if (shared) send_rows(place, rank);
      ++num_filled_;
    }
  }

  /// The eight rows of this warp to the other thread block of the pair, a lane for each tile.
  __device__ void send_rows(const RingPlace& place, int rank) {
    __syncwarp();
    constexpr int kWarpRows = kWarpLanes / kRowThreads;  // eight: a row group of a swizzled tile
    const int tile = thread_ % kWarpLanes, row_group = rank * kHalfRows / kWarpRows + thread_ / kWarpLanes;
    if (tile >= kDimTiles) return;
    ptx::bulk_copy_to_block(smem_.keys[place.stage][tile] + row_group * kRowGroupBytes, kRowGroupBytes,
                            barriers_.keys.full(place), static_cast<unsigned>(rank) ^ 1U);
  }

  __device__ static uint4 load_codes(const KeyRow& row, int tile, int piece) {
    if (row.place.data == nullptr) return {0, 0, 0, 0};
    return __ldcg(reinterpret_cast<const uint4*>(Rows::codes(row, tile, piece)));
  }
  __device__ void copy_codes(const KeyRow& row, int tile, int piece) {
    const bool exists = row.place.data != nullptr;
    const std::byte* from = exists ? Rows::codes(row, tile, piece) : launch_.window.base;
    ptx::cp_async_16(&smem_.codes[tile][thread_], from, exists);
  }

  /// V4's last tile is BF16 already.
  __device__ void copy_rope(const KeyRow& row, int stage, int entry, int piece) {
    if constexpr (kCodeTiles == kDimTiles) return;
    const std::byte* data = row.place.data;
    for (int chunk = piece; chunk < kRope * 2 / 16; chunk += kRowThreads) {
      const std::byte* from = data == nullptr ? launch_.window.base : data + kNope + chunk * 16;
      ptx::cp_async_16(chunk_of(smem_.keys[stage][kDimTiles - 1], entry, chunk), from, data != nullptr);
    }
  }

  const AttentionLaunch& launch_;
  const CUtensorMap& q_map_;
  const WorkPlan& plan_;
  TileSmem<kForm>& smem_;
  TileBarriers& barriers_;
  const NextBehindWait& order_;
  int thread_;
  int num_done_ = 0;    ///< tasks
  int num_filled_ = 0;  ///< runs, over all tasks
};

/// The two consumer warpgroups of attention on tiles.
///
/// They take turns at scores: each computes those of every second run and its weights. Both then add
/// weights times values, each for its half of the dims. All of it in list order, so that a run's stage is
/// free as early as can be: while one computes a run's weights, the other still adds the run before.
///
/// A thread holds two heads (row and row + 8 of the instruction's 64) and, of each tile of 64 dims, 16 values
/// of both.
/// kInPairs: of a pair of thread blocks.
template <RowForm kForm, bool kInPairs>
class TileConsumer {
 public:
  __device__ TileConsumer(const AttentionLaunch& launch, const WorkPlan& plan, TileSmem<kForm>& smem,
                          TileBarriers& barriers)
      : launch_(launch),
        plan_(plan),
        smem_(smem),
        barriers_(barriers),
        consumer_(uniform(static_cast<int>(threadIdx.x) / kWarpgroupThreads)),
        thread_(static_cast<int>(threadIdx.x) % kWarpgroupThreads),
        lane_(thread_ % kWarpLanes),
        row_(thread_ / kWarpLanes * 16 + lane_ / 4) {}

  __device__ void run() {
    int num_done = 0;
    for (int task = static_cast<int>(blockIdx.x); task < plan_.num_tasks();
         task += static_cast<int>(gridDim.x), ++num_done) {
      barriers_.q.wait_full(RingPlace::of<1>(num_done));
      const TaskInfo& info = smem_.tasks[num_done % 2];
      const TileRange runs{uniform(info.runs.begin), uniform(info.runs.end)};
      const int list_size = uniform(info.list_size), first_slot = uniform(info.first_slot);
      const int num_runs = runs.end - runs.begin;
      const int first_own = (consumer_ ^ num_begun_) % 2;
      float sums[kConsumerSums] = {};
      SoftmaxState state;
      if (first_own >= num_runs) barriers_.q.release_operands(0, lane_);
      for (int i = 0; i < num_runs; ++i) {
        if (i % 2 == first_own) {
          const int run = runs.begin + i;
          weigh(num_begun_ + i, list_size - run * kRunEntries, first_slot < 0 ? -1 : first_slot + run);
          if (i + 2 >= num_runs) barriers_.q.release_operands(0, lane_);
        }
        if (first_slot < 0) gather(num_begun_ + i, sums, state);
      }
      num_begun_ += num_runs;
      if constexpr (kInPairs) {
        for (int i = uniform(info.pair_end) - runs.end; i > 0; --i) pass(num_begun_++);
      }
      if (first_slot < 0 && !info.nothing) {
        store_half(launch_, info.query, info.group, consumer_, row_, thread_, sums, state,
                   info.list_size == 0);
      }
    }
  }

 private:
  static constexpr int kConsumerSums = kConsumerTiles * kTileSums;

  __device__ void release_keys(int stage, int consumer) const {
    barriers_.keys.release_operands(stage, lane_, consumer);
    if constexpr (kInPairs) {
      if (lane_ == 0) {
        ptx::mbarrier_arrive_cluster_read(barriers_.keys.empty(stage, consumer), ptx::cluster_rank() ^ 1);
      }
    }
  }

  /// Run `number`, which the pair's other list alone has.
  __device__ void pass(int number) const {
    const RingPlace place = RingPlace::of<kStages>(number);
    const int stage = place.stage;
    barriers_.keys.wait_full(place);
    if (number % 2 == consumer_) ptx::mbarrier_arrive(&barriers_.weights_full[stage]);
    ptx::mbarrier_wait(&barriers_.weights_full[stage], place.parity);
    release_keys(stage, consumer_);
  }

  /// Scores of run `number`, of which the first `num_valid` entries exist, to weights: for both consumers,
  /// or for slot `slot` where that is not negative.
  __device__ void weigh(int number, int num_valid, int slot) {
    const RingPlace place = RingPlace::of<kStages>(number);
    const int stage = place.stage;
    barriers_.keys.wait_full(place);
    float scores[kTileSums];
    begin_scores(smem_.q, smem_.keys[stage], scores);
    finish_products(scores);

    if (slot >= 0) {  // no other query wants the keys
      for (int consumer = 0; consumer < kConsumers; ++consumer) release_keys(stage, consumer);
    }
    float2 softmax[2];
    weigh_scores(scores, num_valid, launch_.scale_log2, softmax);
    if (slot < 0) {
      store_weights(scores, softmax, &smem_.weights[stage][0][thread_], smem_.softmax[stage]);
      ptx::mbarrier_arrive(&barriers_.weights_full[stage]);
    } else {
      store_weights(scores, softmax, plan_.waiting.of_slot(slot, thread_), plan_.waiting.heads(slot));
    }
  }

  __device__ void store_weights(const float (&values)[kTileSums], const float2 (&softmax)[2], uint4* weights,
                                float2* heads) const {
#pragma unroll
    for (int step = 0; step < kRunSteps; ++step) {
      weights[step * kWarpgroupThreads] = pack_bf16(reinterpret_cast<const float(&)[8]>(values[8 * step]));
    }
    if (lane_ % 4 != 0) return;
    heads[row_] = softmax[0];
    heads[row_ + 8] = softmax[1];
  }

  /// Adds run `number`'s weights times values to this consumer's dims.
  __device__ void gather(int number, float (&sums)[kConsumerSums], SoftmaxState& state) {
    const RingPlace place = RingPlace::of<kStages>(number);
    const int stage = place.stage;
    barriers_.keys.wait_full(place);
    ptx::mbarrier_wait(&barriers_.weights_full[stage], place.parity);
    RunWeights weights;
#pragma unroll
    for (int step = 0; step < kRunSteps; ++step) {
      unpack_weights(smem_.weights[stage][step][thread_], weights[step]);
    }
    state.merge({smem_.softmax[stage][row_], smem_.softmax[stage][row_ + 8]}, weights, sums);
    begin_adding(weights, smem_.keys[stage][consumer_ * kConsumerTiles], sums);
    finish_products(sums);
    release_keys(stage, consumer_);
  }

  const AttentionLaunch& launch_;
  const WorkPlan& plan_;
  TileSmem<kForm>& smem_;
  TileBarriers& barriers_;
  int consumer_, thread_, lane_;
  int row_;            ///< head of the group, of the thread's first
  int num_begun_ = 0;  ///< runs, over all tasks
};

// Of the 168 registers a thread that 384 threads start with.
constexpr int kProducerRegisters = 120;
constexpr int kConsumerRegisters = 192;

template <RowForm kForm, bool kInPairs, bool kOneQuery>
__global__ void __launch_bounds__(kTileThreads, 1)
    attention_tiles_kernel(const __grid_constant__ AttentionLaunch launch,
                           const __grid_constant__ CUtensorMap q_map, const __grid_constant__ WorkPlan plan,
                           NextBehindWait order) {
  extern __shared__ std::byte dynamic_shared[];
  __shared__ TileBarriers barriers;
  auto& smem = *reinterpret_cast<TileSmem<kForm>*>(dynamic_shared + bytes_to_tile(dynamic_shared));
  constexpr int kConsumerWarps = kWarpgroupThreads / kWarpLanes;
  if (threadIdx.x == 0) {
    ptx::tma_prefetch_map(q_map);
    barriers.q.init(1, kConsumers * kConsumerWarps);
    barriers.keys.init(kWarpgroupThreads, (kInPairs ? 2 : 1) * kConsumerWarps);
    for (std::uint64_t& full : barriers.weights_full) ptx::mbarrier_init(&full, kWarpgroupThreads);
    ptx::fence_mbarrier_init();
  }
  if constexpr (kInPairs) {
    ptx::cluster_sync();
  } else {
    __syncthreads();
  }
  if (threadIdx.x >= kConsumers * kWarpgroupThreads) {
    ptx::registers_down_to<kProducerRegisters>();
    KeyProducer<kForm, kInPairs, kOneQuery>(launch, q_map, plan, smem, barriers, order).run();
  } else {
    ptx::registers_up_to<kConsumerRegisters>();
    const NextBehindWait::Waited waited = order.wait();
    if (plan.parts == 1) waited.launch_next();  // with more the producer does
    TileConsumer<kForm, kInPairs>(launch, plan, smem, barriers).run();
  }
  if constexpr (kInPairs) ptx::cluster_sync();  // the other one may still say here that it has read
}

/// With fewer parts an item, one kernel is quicker than two.
constexpr int kMinParts = 8;
/// Runs that wait for their values. An item of eight parts then has room for a list at 2^20 tokens, ratio
/// 128.
constexpr int kMaxSlots = 2112;

/// Whether items next to each other see the same rows: groups of heads of a query, or rows of a sequence that
/// attend to all compressed entries (two rows of most sequences, then). Not for V4.1's rows: the released
/// model has 64 heads, and selects.
bool share_keys(const AttentionLaunch& launch, const WorkPlan& plan) {
  if (plan.parts > 1 || plan.items == 1 || launch.form == RowForm::kV41) return false;
  if (plan.groups % 2 == 0) return true;
  return plan.groups == 1 && launch.ratio != 0 && !launch.selects &&
         launch.num_rows >= 2 * launch.batch.num_sequences;
}

}  // namespace

std::int64_t attention_tiles_scratch_bytes() { return WaitingRuns::bytes(kMaxSlots); }

void attention_tiles(const AttentionLaunch& launch, CudaContext& context) {
  WorkPlan plan{ItemParts::of(launch, context.num_sms, kMinParts, kMaxSlots), {}, false};
  const ScratchScope scope(context.scratch);
  if (plan.parts > 1) plan.waiting = {WaitingRuns::allocate(kMaxSlots, context.scratch)};
  const CUtensorMap q_map =
      make_tensor_map(launch.q, launch.num_rows, launch.q_row_stride * 2, launch.num_heads, kWidth * 2,
                      launch.q_head_stride * 2, kGroupHeads, kTileDims * 2, TileSwizzle::k128B);
  plan.in_pairs = share_keys(launch, plan);
  const int most_blocks = plan.in_pairs ? context.num_sms / 2 * 2 : context.num_sms;
  const auto begin = [&](const auto& kernel, std::int64_t shared_bytes) {
    launch_kernel("attention_tiles", kernel,
                  {.grid = dim3(static_cast<unsigned>(std::min(plan.num_tasks(), most_blocks))),
                   .threads = kTileThreads,
                   .shared_bytes = shared_bytes + kRowGroupBytes,
                   .cluster = plan.in_pairs ? 2 : 1},
                  context.stream, launch, q_map, plan);
  };
  if (launch.form == RowForm::kV41) {
    begin(attention_tiles_kernel<RowForm::kV41, false, false>, sizeof(TileSmem<RowForm::kV41>));
  } else {
    begin(!plan.in_pairs         ? attention_tiles_kernel<RowForm::kV4, false, false>
          : plan.groups % 2 == 0 ? attention_tiles_kernel<RowForm::kV4, true, true>
                                 : attention_tiles_kernel<RowForm::kV4, true, false>,
          sizeof(TileSmem<RowForm::kV4>));
  }
  if (plan.parts > 1) gather_tiles(launch, plan, context);
}

}  // namespace baleen::sm90
