// Attention over an item's list in one block of eight warps, 32 entries at a time.
//
//     rows      codes of the next tile's rows come by cp.async to where their values will be; the warp that
//               copied them brings them to BF16 while other warps still multiply
//     scores    warp 4 m + k has of the queries heads 32 m .. and dims 128 k .., in registers; what it has
//               multiplied it hands on, eight heads to each of its four neighbours
//     weights   each warp adds up, and weighs, the scores of eight heads
//     sums      warp w has dims 64 w .. of all heads, in registers
//
// Two barriers are between a tile's scores and its sums, one between its sums and the next tile's scores.
#include <algorithm>

#include "cuda/kernel_launch.h"
#include "cuda/ptx/cp_async.h"
#include "cuda/ptx/grid_dependency.h"
#include "ops/sparse_attention/cuda/row_forms.cuh"
#include "ops/sparse_attention/sm80/mma_tile_work.cuh"
#include "ops/sparse_attention/sm80/mma_tiles.h"

namespace baleen::sm80::mma_tiles {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarpLanes;
constexpr int kStages = 2;
constexpr int kRowThreads = kThreads / kTileEntries;  ///< that copy and dequantise a row
/// From row to row: eight rows' 16 bytes fall into different banks.
constexpr int kRowPitch = kWidth * 2 + 16;
constexpr int kWeightPitch = kTileEntries * 2 + 16;

constexpr int kScoreHeads = 32, kScoreDims = 128;  ///< a warp multiplies these with keys
constexpr int kSharers = kWidth / kScoreDims;      ///< warps whose sums make a score
constexpr int kScoreSteps = kScoreDims / kDepth;
constexpr int kOwnHeads = kScoreHeads / kSharers;  ///< whose scores a warp adds up
constexpr int kHalves = 2;                         ///< 16 entries each, multiplied one after the other
static_assert(kOwnHeads == 8 && kTileEntries == kHalves * kDepth && kRowThreads == 8);
static_assert(kWarps == kDimTiles && kGroupHeads / kScoreHeads * kSharers == kWarps);

/// Lists in shared memory: of the item under way, of the two after it, and one on its way.
constexpr int kLists = 4;

struct TileSmem {
  alignas(16) std::byte rows[kStages][kTileEntries][kRowPitch];
  /// For each warp what its neighbours have of its heads: four scores a lane for either half of the entries.
  float4 partial_scores[kWarps][kSharers - 1][kHalves][kWarpLanes];
  alignas(16) std::byte weights[kGroupHeads][kWeightPitch];
  float factors[kGroupHeads];  ///< what the sums so far are to be multiplied with; in the end the inverse sum
  EntryList lists[kLists];
};
static_assert(sizeof(TileSmem) <= kSharedBytes);

/// A thread's part in bringing a row of a form to BF16 in shared memory: `piece` of kRowThreads.
template <RowForm kForm>
class RowPart;

template <>
class RowPart<RowForm::kV4> {
 public:
  /// Codes, then scales behind the row; the rotary part to its place. Where no row `exists`, zeros.
  __device__ void copy(int piece, std::byte* row, const std::byte* data, const std::byte* scales, bool exists,
                       bool /*entry*/) {
#pragma unroll
    for (int i = 0; i < (kCodeChunks + kRowThreads - 1) / kRowThreads; ++i) {
      const int chunk = piece + i * kRowThreads;
      if (chunk < kCodeChunks) ptx::cp_async_16(row + chunk * 16, data + chunk * 16, exists);
    }
    ptx::cp_async_16(row + 2 * kNope + piece * 16, data + kNope + piece * 16, exists);
    if (piece < 2) ptx::cp_async_4(row + kScalesAt + piece * 4, scales + piece * 4, exists);
  }

  /// By the warps that have copied it. A row is one warp's, and read before it is written.
  __device__ void dequantise(int piece, std::byte* row) const {
    uint2 codes[kGroups];
    const uint2 scales = *reinterpret_cast<const uint2*>(row + kScalesAt);
#pragma unroll
    for (int i = 0; i < kGroups; ++i)
      codes[i] = *reinterpret_cast<const uint2*>(row + (piece + i * kRowThreads) * 8);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      const std::uint32_t scale = (i < 4 ? scales.x : scales.y) >> (8 * (i % 4)) & 0xFFu;
      *reinterpret_cast<uint4*>(row + (piece + i * kRowThreads) * 16) = dequantised(codes[i], scale);
    }
  }

 private:
  static constexpr int kScalesAt = kWidth * 2;  ///< where a row's scales wait: between rows
  static constexpr int kCodeChunks = kNope / 16;
  static constexpr int kGroups = kNope / kLatentGroup;  ///< a thread has eight codes of each
  static_assert(kRowThreads * 8 == kLatentGroup && kRowThreads * 16 == 2 * kRope);
};

/// The row as it is, which begins where its values will.
template <>
class RowPart<RowForm::kV41> {
 public:
  __device__ void copy(int piece, std::byte* row, const std::byte* data, const std::byte* /*scales*/,
                       bool exists, bool entry) {
    entry_ = entry;
    const int num_chunks = (entry ? entry_row_bytes(kWidth) : position_row_bytes(kWidth)) / 16;
#pragma unroll
    for (int i = 0; i < (position_row_bytes(kWidth) / 16 + kRowThreads - 1) / kRowThreads; ++i) {
      const int chunk = piece + i * kRowThreads;
      if (chunk < num_chunks) ptx::cp_async_16(row + chunk * 16, data + chunk * 16, exists);
    }
  }

  __device__ void dequantise(int piece, std::byte* row) const {
    uint2 codes[kEights];
    std::uint32_t scales[kEights];
#pragma unroll
    for (int i = 0; i < kEights; ++i) {
      const int eight = piece + i * kRowThreads;
      codes[i] = entry_ ? uint2{*reinterpret_cast<const std::uint32_t*>(row + eight * 4), 0}
                        : *reinterpret_cast<const uint2*>(row + eight * 8);
      scales[i] = static_cast<std::uint32_t>(
          row[entry_ ? kWidth / 2 + eight * 8 / kEntryGroup : kWidth + eight * 8 / kPositionGroup]);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kEights; ++i) {
      *reinterpret_cast<uint4*>(row + (piece + i * kRowThreads) * 16) =
          entry_ ? dequantised_entry(codes[i].x, scales[i]) : dequantised(codes[i], scales[i]);
    }
  }

 private:
  static constexpr int kEights = kWidth / 8 / kRowThreads;  ///< groups of eight codes that a thread has
  static_assert(position_row_bytes(kWidth) <= kRowPitch && position_row_bytes(kWidth) % 16 == 0 &&
                entry_row_bytes(kWidth) % 16 == 0);

  bool entry_ = false;  ///< whether the row copied last is an entry
};

/// What a thread does for rows on their way: its part of the row with its number in each tile.
template <RowForm kForm>
class RowLoader {
 public:
  __device__ RowLoader(const AttentionLaunch& launch, TileSmem& smem)
      : launch_(launch),
        smem_(smem),
        entry_(static_cast<int>(threadIdx.x) / kRowThreads),
        piece_(static_cast<int>(threadIdx.x) % kRowThreads) {}

  /// Which row is to be copied next, then its page: reads that depend on each other, with other work in
  /// between. The list stays where it is meanwhile.
  __device__ void find_row(const EntryList& list, int tile) {
    list_ = &list;
    index_ = tile * kTileEntries + entry_;
    row_ = list.row(index_);
  }
  __device__ void find_page() { page_ = list_->page(launch_, index_, row_); }

  /// Begins to copy the row that was found.
  __device__ void copy(int stage) {
    const bool of_entry = index_ >= list_->num_window;
    const RowPlace place = row_place<kForm>(launch_, of_entry, page_, row_);
    const bool exists = place.data != nullptr;
    part_.copy(piece_, smem_.rows[stage][entry_], exists ? place.data : launch_.window.base,
               exists ? place.scales : launch_.window.base, exists, of_entry);
    ptx::cp_async_commit();
  }

  /// By the warps that copied: waits for the row and brings its codes to BF16.
  __device__ void dequantise(int stage) const {
    ptx::cp_async_wait<0>();
    __syncwarp();
    part_.dequantise(piece_, smem_.rows[stage][entry_]);
  }

 private:
  const AttentionLaunch& launch_;
  TileSmem& smem_;
  int entry_, piece_;
  RowPart<kForm> part_;
  const EntryList* list_ = nullptr;
  int index_ = 0, row_ = -1;
  PageId page_ = PageId::kNone;
};

class TileWarp {
 public:
  __device__ TileWarp(const AttentionLaunch& launch, TileSmem& smem)
      : launch_(launch),
        smem_(smem),
        warp_(static_cast<int>(threadIdx.x) / kWarpLanes),
        lane_(static_cast<int>(threadIdx.x) % kWarpLanes) {}

  /// Heads beyond the last one are zeros. A lane reads 16 bytes of a head, every fourth piece, and has of all
  /// pieces its own two dims when the four lanes have exchanged theirs.
  __device__ void load_queries(int query, int group) {
    const int first = group * kGroupHeads + score_group() * kScoreHeads + lane_ / 4;
    const Bf16Bits* q = launch_.q + query * launch_.q_row_stride + sharer() * kScoreDims + lane_ % 4 * 8;
#pragma unroll
    for (int tile = 0; tile < kScoreTiles; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int head = first + 16 * tile + 8 * half;
        const bool exists = head < launch_.num_heads;
        const Bf16Bits* of_head = q + head * launch_.q_head_stride;
#pragma unroll
        for (int part = 0; part < kScoreDims / 32; ++part) {
          uint4 piece{};
          if (exists) piece = __ldcg(reinterpret_cast<const uint4*>(of_head + part * 32));
          q_[tile][2 * part][half] = piece.x;
          q_[tile][2 * part][half + 2] = piece.y;
          q_[tile][2 * part + 1][half] = piece.z;
          q_[tile][2 * part + 1][half + 2] = piece.w;
        }
      }
    }
  }

  /// The exchange, before the queries are used.
  __device__ void spread_queries() {
#pragma unroll
    for (auto& tile : q_) {
#pragma unroll
      for (int step = 0; step < kScoreSteps; step += 2) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          std::uint32_t words[4] = {tile[step][half], tile[step][half + 2], tile[step + 1][half],
                                    tile[step + 1][half + 2]};
          transpose_in_quad(words);
          tile[step][half] = words[0];
          tile[step][half + 2] = words[1];
          tile[step + 1][half] = words[2];
          tile[step + 1][half + 2] = words[3];
        }
      }
    }
  }

  /// This warp's part of the scores of the rows in `stage`.
  __device__ void multiply_keys(int stage) {
    const std::byte* keys =
        &smem_.rows[stage][lane_ / 16 * 8 + lane_ % 8][sharer() * kScoreDims * 2 + lane_ / 8 % 2 * 16];
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      float scores[kScoreTiles][2][4] = {};
#pragma unroll
      for (int step = 0; step < kScoreSteps; ++step) {
        std::uint32_t words[4];
        ptx::ldmatrix_x4(words, keys + half * 16 * kRowPitch + step * kDepth * 2);
#pragma unroll
        for (int tile = 0; tile < kScoreTiles; ++tile) {
          const std::uint32_t(&q)[4] = q_[tile][step];
          ptx::mma_16x8x16(scores[tile][0], q[0], q[1], q[2], q[3], words[0], words[1]);
          ptx::mma_16x8x16(scores[tile][1], q[0], q[1], q[2], q[3], words[2], words[3]);
        }
      }
#pragma unroll
      for (int owner = 0; owner < kSharers; ++owner) {
        const auto& of_owner = scores[owner / 2];
        const int row = owner % 2 * 2;
        const float4 part = {of_owner[0][row], of_owner[0][row + 1], of_owner[1][row], of_owner[1][row + 1]};
        if (owner == sharer()) {
          own_[half] = part;
        } else {
          const int slot = sharer() < owner ? sharer() : sharer() - 1;
          smem_.partial_scores[score_group() * kSharers + owner][slot][half][lane_] = part;
        }
      }
    }
  }

  /// The scores of eight heads become weights: in shared memory, brought to the maximum so far, or in slot
  /// `slot` if that is not negative. `num_valid`: entries of the tile that exist.
  __device__ void weigh(int num_valid, const WaitingTiles& waiting, int slot) {
    float values[kHalves * 4];
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      const float4 score = whole_score(half);
      values[4 * half] = score.x, values[4 * half + 1] = score.y;
      values[4 * half + 2] = score.z, values[4 * half + 3] = score.w;
    }
    float maximum = -INFINITY;
#pragma unroll
    for (int i = 0; i < kHalves * 4; ++i) {
      if (8 * (i / 2) + 2 * (lane_ % 4) + i % 2 >= num_valid) values[i] = -INFINITY;
      maximum = fmaxf(maximum, values[i]);
    }
    maximum = ceilf(warp_max<4>(maximum) * launch_.scale_log2);
    float sum = 0;
#pragma unroll
    for (float& value : values) {
      value = ptx::exp2_approximate(fmaf(value, launch_.scale_log2, -maximum));
      sum += value;
    }

    const int head = own_head();
    if (slot >= 0) {
      sum = warp_sum<4>(sum);
#pragma unroll
      for (int i = 0; i < kHalves * 2; ++i) {
        auto* operand = reinterpret_cast<std::uint32_t*>(waiting.operand(slot, i / 2, head / 16) + lane_);
        operand[head / 8 % 2 + 2 * (i % 2)] = pack_bf16(values[2 * i], values[2 * i + 1]);
      }
      if (lane_ % 4 == 0) waiting.heads(slot)[head] = {maximum, sum};
      return;
    }
    run_sum_ = sum;
    RunningSoftmax::meet(maximum, maximum_, kept_, added_);
    const std::uint32_t added = pack_bf16(added_, added_);
#pragma unroll
    for (int i = 0; i < kHalves * 2; ++i) {
      *reinterpret_cast<std::uint32_t*>(&smem_.weights[head][16 * i + 4 * (lane_ % 4)]) =
          ptx::multiply_bf16_pair(pack_bf16(values[2 * i], values[2 * i + 1]), added);
    }
    if (lane_ % 4 == 0) smem_.factors[head] = kept_;
  }

  /// What others need not wait for.
  __device__ void add_weights() {
    denominator_ = RunningSoftmax::add(warp_sum<4>(run_sum_), denominator_, kept_, added_);
  }

  /// Adds weights times the values in `stage`, of this warp's dims.
  __device__ void multiply_values(int stage) {
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
      const float kept[2] = {smem_.factors[16 * tile + lane_ / 4], smem_.factors[16 * tile + 8 + lane_ / 4]};
      SoftmaxState::scale(sums_[tile], kept);
    }
#pragma unroll
    for (int step = 0; step < kTileSteps; ++step) {
      ValueOperands<kTileDims / 8> values;
      load_values(&smem_.rows[stage][step * kDepth][warp_ * kTileDims * 2], kRowPitch, values);
#pragma unroll
      for (int tile = 0; tile < kHeadTiles; ++tile) {
        std::uint32_t weights[4];
        ptx::ldmatrix_x4(weights,
                         &smem_.weights[16 * tile + lane_ % 16][step * kDepth * 2 + lane_ / 16 * 16]);
        add_values(weights, values, sums_[tile]);
      }
    }
  }

  /// By all warps, when the item is done. What comes then is another one.
  __device__ void store(int query, int group, bool nothing) {
    const int head = own_head();
    const float sink = launch_.sink[min(group * kGroupHeads + head, launch_.num_heads - 1)];
    __syncthreads();
    if (lane_ % 4 == 0)
      smem_.factors[head] = nothing ? 0.0F : inverse_denominator(denominator_, maximum_, sink);
    __syncthreads();
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
      const int row = 16 * tile + lane_ / 4;
      const float inverse[2] = {smem_.factors[row], smem_.factors[row + 8]};
      store_tile(launch_, query, group, warp_, tile * kWarpLanes + lane_, sums_[tile], inverse);
#pragma unroll
      for (float& sum : sums_[tile]) sum = 0;
    }
    maximum_ = -INFINITY;
    denominator_ = 0;
  }

 private:
  static constexpr int kScoreTiles = kScoreHeads / 16;

  [[nodiscard]] __device__ int score_group() const { return warp_ / kSharers; }
  [[nodiscard]] __device__ int sharer() const { return warp_ % kSharers; }
  /// Of the group, whose scores this lane adds up with three others.
  [[nodiscard]] __device__ int own_head() const { return warp_ * kOwnHeads + lane_ / 4; }

  /// The four parts of this lane's scores, added up in the order of the dims.
  [[nodiscard]] __device__ float4 whole_score(int half) const {
    const auto part = [&](int slot) { return smem_.partial_scores[warp_][slot][half][lane_]; };
    const float4 own = own_[half], first = part(0), second = part(1), third = part(2);
    const auto sum = [&](float a, float b, float c, float d) {  // a: own
      const int place = sharer();
      const float two = b + (place < 2 ? a : c);
      const float three = two + (place < 2 ? c : place == 2 ? a : d);
      return three + (place < 3 ? d : a);
    };
    return {sum(own.x, first.x, second.x, third.x), sum(own.y, first.y, second.y, third.y),
            sum(own.z, first.z, second.z, third.z), sum(own.w, first.w, second.w, third.w)};
  }

  const AttentionLaunch& launch_;
  TileSmem& smem_;
  int warp_, lane_;
  std::uint32_t q_[kScoreTiles][kScoreSteps][4];
  float4 own_[kHalves];
  float maximum_ = -INFINITY, denominator_ = 0.0F;  ///< own_head()'s, so far
  float run_sum_, kept_, added_;                    ///< the tile's; the sum a lane's part
  float sums_[kHeadTiles][kTileSums] = {};
};

/// The tiles of a block's items, one after the other: an item's number in the block, a tile of it, and where
/// the block's tiles of it end. An item with nothing to see has a tile without entries.
struct TilePlace {
  int number, tile, end;
};

class BlockWork {
 public:
  __device__ BlockWork(const WorkPlan& plan, TileSmem& smem)
      : plan_(plan), smem_(smem), first_(static_cast<int>(blockIdx.x) / plan.parts) {}

  [[nodiscard]] __device__ int item(int number) const {
    return plan_.parts > 1 ? first_ + number * plan_.items : first_ + number * static_cast<int>(gridDim.x);
  }
  [[nodiscard]] __device__ bool exists(const TilePlace& place) const {
    return item(place.number) < plan_.items;
  }
  [[nodiscard]] __device__ int query(int number) const { return item(number) / plan_.groups; }
  [[nodiscard]] __device__ int group(int number) const { return item(number) % plan_.groups; }
  /// Of the item under way and the two after it.
  [[nodiscard]] __device__ const EntryList& list(int number) const { return smem_.lists[number % kLists]; }

  [[nodiscard]] __device__ TilePlace after(const TilePlace& place) const {
    if (place.tile + 1 < place.end) return {place.number, place.tile + 1, place.end};
    const TilePlace next{place.number + 1, 0, 0};
    return exists(next) ? TilePlace{next.number, 0, max(1, num_tiles_of(list(next.number)))} : next;
  }

  /// Begins to copy an item's list, as part of what the thread copies next.
  __device__ void copy_list(int number) const {
    constexpr int kWords = sizeof(EntryList) / 4;
    const int word = static_cast<int>(threadIdx.x);
    if (word >= kWords || plan_.lists == nullptr || item(number) >= plan_.items) return;
    ptx::cp_async_4(reinterpret_cast<std::uint32_t*>(&smem_.lists[number % kLists]) + word,
                    reinterpret_cast<const std::uint32_t*>(plan_.lists + query(number)) + word);
  }

  /// By the whole block: the first lists. They are there behind a barrier.
  __device__ void find_lists(const AttentionLaunch& launch) const {
    if (plan_.lists != nullptr) {
      for (int number = 0; number < kLists - 1; ++number) copy_list(number);
      ptx::cp_async_commit();
      ptx::cp_async_wait<0>();
    } else if (threadIdx.x < kWarpLanes) {
      const EntryList list = EntryList::of(launch, query(0));
      if (threadIdx.x == 0) smem_.lists[0] = list;
    }
  }

 private:
  const WorkPlan& plan_;
  TileSmem& smem_;
  int first_;
};

template <RowForm kForm>
__global__ void __launch_bounds__(kThreads, 1)
    attention_tiles_kernel(const __grid_constant__ AttentionLaunch launch,
                           const __grid_constant__ WorkPlan plan, NextBehindWait order) {
  extern __shared__ __align__(16) std::byte dynamic_shared[];
  TileSmem& smem = *reinterpret_cast<TileSmem*>(dynamic_shared);
  order.wait().launch_next();
  const BlockWork work(plan, smem);
  TileWarp warp(launch, smem);
  work.find_lists(launch);
  warp.load_queries(work.query(0), work.group(0));
  __syncthreads();
  const int num_tiles = num_tiles_of(work.list(0)), part = static_cast<int>(blockIdx.x) % plan.parts;
  const TileRange tiles = plan.range(num_tiles, part);
  const bool shared = plan.shares(num_tiles);
  if (plan.parts > 1 && tiles.begin == tiles.end) return;

  RowLoader<kForm> loader(launch, smem);
  TilePlace now{0, tiles.begin, max(1, tiles.end)}, next = work.after(now);
  loader.find_row(work.list(0), now.tile);
  loader.find_page();
  loader.copy(0);
  if (work.exists(next)) {
    loader.find_row(work.list(next.number), next.tile);
    loader.find_page();
  }
  warp.spread_queries();
  loader.dequantise(0);
  for (int stage = 0;; stage ^= 1) {
    const bool more = work.exists(next), last = now.tile + 1 == now.end;
    TilePlace ahead = next;
    bool more_ahead = false;
    __syncthreads();  // the tile's rows are there, and the tile before is done with
    if (more) {
      if (now.tile == 0) work.copy_list(now.number + kLists - 1);
      loader.copy(stage ^ 1);
      ahead = work.after(next);
      more_ahead = work.exists(ahead);
      if (more_ahead) loader.find_row(work.list(ahead.number), ahead.tile);
    }
    warp.multiply_keys(stage);
    if (last && more) warp.load_queries(work.query(next.number), work.group(next.number));
    __syncthreads();
    if (more_ahead) loader.find_page();
    const int list_size = work.list(now.number).size;
    const bool nothing = list_size == 0;
    if (!nothing) {
      warp.weigh(list_size - now.tile * kTileEntries, plan.waiting,
                 shared ? work.item(0) * plan.slots + now.tile : -1);
    }
    if (!shared) {
      __syncthreads();
      if (!nothing) {
        warp.add_weights();
        warp.multiply_values(stage);
      }
    }
    if (more) loader.dequantise(stage ^ 1);
    if (last && more) warp.spread_queries();
    if (last && !shared) warp.store(work.query(now.number), work.group(now.number), nothing);
    if (!more) break;
    now = next;
    next = ahead;
  }
}

/// The lists of all queries, a warp each.
__global__ void __launch_bounds__(kThreads) find_lists_kernel(const __grid_constant__ AttentionLaunch launch,
                                                              EntryList* lists, NextBehindWait order) {
  order.wait().launch_next();
  const int query = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / kWarpLanes;
  if (query >= launch.num_rows) return;
  const EntryList list = EntryList::of(launch, query);
  if (threadIdx.x % kWarpLanes == 0) lists[query] = list;
}

/// Tiles that wait for their values: those of 64 items with lists of 2,304 entries.
constexpr int kMaxSlots = 4608;
constexpr int kMinParts = 2;

}  // namespace

std::int64_t scratch_bytes(std::int64_t max_rows) {
  return std::max(WaitingTiles::bytes(kMaxSlots), Arena::bytes_for<EntryList>(max_rows));
}

void attend(const AttentionLaunch& launch, CudaContext& context) {
  WorkPlan plan{ItemParts::of(launch, context.num_sms, kMinParts, kMaxSlots), {}, nullptr};
  const ScratchScope scope(context.scratch);
  if (plan.parts > 1) {
    plan.waiting = {WaitingTiles::allocate(kMaxSlots, context.scratch)};
  } else if (plan.items > context.num_sms) {
    auto* const lists = context.scratch.allocate<EntryList>(launch.num_rows);
    launch_kernel(
        "find_lists", find_lists_kernel,
        {.grid = dim3(static_cast<unsigned>((launch.num_rows + kWarps - 1) / kWarps)), .threads = kThreads},
        context.stream, launch, lists);
    plan.lists = lists;
  }
  const int blocks = plan.parts > 1 ? plan.items * plan.parts : std::min(plan.items, context.num_sms);
  launch_kernel(
      "attention_tiles",
      launch.form == RowForm::kV41 ? attention_tiles_kernel<RowForm::kV41>
                                   : attention_tiles_kernel<RowForm::kV4>,
      {.grid = dim3(static_cast<unsigned>(blocks)), .threads = kThreads, .shared_bytes = sizeof(TileSmem)},
      context.stream, launch, plan);
  if (plan.parts > 1) gather(launch, plan, context);
}

}  // namespace baleen::sm80::mma_tiles
