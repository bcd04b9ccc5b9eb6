// SIMD indexer. A work item is a query, or, when there are fewer queries than threads, a contiguous part of
// its keys; parts find their own best, which are merged at the end. A selection is a set and the order of
// scores is total, so neither parts nor groups show in the result. Parts end between blocks.

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <span>

#include "base/check.h"
#include "numeric/bf16.h"
#include "numeric/simd_targets.h"
#include "ops/indexer/best_blocks.h"
#include "ops/indexer/indexer.h"
#include "ops/indexer/key_list.h"
#include "ops/indexer/query.h"
#include "ops/indexer/top_k.h"
#include "ops/rope/rope_frequencies.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/indexer/indexer_cpu.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "numeric/hadamard-inl.h"
#include "numeric/index_key-inl.h"
#include "numeric/normalise-inl.h"
#include "ops/indexer/score_keys-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {
namespace {

/// Codes, scales and offsets of one head from its 128 rounded values.
void quantise_head(const float* values, std::int64_t head, IndexerScratch& scratch) {
  alignas(64) std::int8_t doubled[kIndexDim];
  for (int block = 0; block < kIndexBlocks; ++block) {
    std::int8_t* codes = doubled + block * kIndexerGroup;
    const std::uint8_t scale = quantise_fp4_doubled(FloatTag(), values + block * kIndexerGroup, codes);
    std::int32_t sum = 0;
    for (int i = 0; i < kIndexerGroup; ++i) sum += codes[i];
    scratch.scales[head * kIndexBlocks + block] = e8m0_to_float(scale) * 0.25F;
    scratch.offsets[head * kIndexBlocks + block] = -kKeyOffset * sum;
  }
  auto* bytes = reinterpret_cast<std::int8_t*>(scratch.codes + head * kQuads);
  for (int dim = 0; dim < kIndexDim; ++dim) bytes[dim / 8 * 8 + dim % 2 * 4 + dim % 8 / 2] = doubled[dim];
}

void prepare_query(const IndexerArgs& args, std::int64_t row, IndexerScratch& scratch) {
  const std::int64_t num_heads = args.q.extent(1);
  const bool round = args.precision != Precision::kExact;
  const auto rotary_dim = 2 * static_cast<std::size_t>(args.cosine.extent(1));
  const auto factor = static_cast<float>(1.0 / std::sqrt(double{kIndexDim} * static_cast<double>(num_heads)));
  for (std::int64_t head = 0; head < num_heads; ++head) {
    float* values = scratch.values + head * kIndexDim;
    std::copy_n(&args.q(row, head, 0), kIndexDim, values);
    float* rotated = values + kIndexDim - rotary_dim;
    rotate_pairs({rotated, rotary_dim}, args.cosine.row(row), args.sine.row(row));
    if (round) round_row(rotated, static_cast<std::int64_t>(rotary_dim));
    if (args.hadamard) {
      hadamard_transform_simd(FloatTag(), values, kIndexDim);
      if (round) round_row(values, kIndexDim);
    }
    if (args.precision == Precision::kReleased) quantise_head(values, head, scratch);
    const float weight = args.head_weights(row, head) * factor;
    scratch.weights[head] = round ? round_bf16(weight) : weight;
  }
}

template <bool kByteDots>
void score_fp4(std::int64_t num_heads, const std::uint32_t* key_scales, IndexerScratch& scratch,
               FloatVec (&scores)[kGroupVecs]) {
  std::int64_t head = 0;
  for (; head + kTileHeads <= num_heads; head += kTileHeads) {
    score_heads_fp4<kTileHeads, kByteDots>(scratch, head, key_scales, scores);
  }
  for (; head < num_heads; ++head) score_heads_fp4<1, kByteDots>(scratch, head, key_scales, scores);
}

void score_float(std::int64_t num_heads, IndexerScratch& scratch, FloatVec (&scores)[kGroupVecs]) {
  std::int64_t head = 0;
  for (; head + kFloatTileHeads <= num_heads; head += kFloatTileHeads)
    score_heads_float<kFloatTileHeads>(scratch, head, scores);
  for (; head < num_heads; ++head) score_heads_float<1>(scratch, head, scores);
}

void score_group(const IndexerArgs& args, const SequenceSlice& slice, const KeyList& keys, std::int64_t begin,
                 int count, bool byte_dots, IndexerScratch& scratch, FloatVec (&scores)[kGroupVecs]) {
  for (FloatVec& score : scores) score = hn::Zero(FloatTag());
  if (args.precision != Precision::kReleased) {
    decode_keys(args.keys, slice.pages, keys, begin, count, scratch);
    return score_float(args.q.extent(1), scratch, scores);
  }
  const PackedKeys packed = locate_keys(args.keys, slice.pages, keys, begin, count, scratch);
  unpack_keys(packed.codes, scratch.keys);
  const auto score = byte_dots ? score_fp4<HWY_TARGET == HWY_AVX3> : score_fp4<false>;
  score(args.q.extent(1), packed.scales, scratch, scores);
}

}  // namespace

/// Offers the keys [begin, end) of the row's list; `blocks` where blocks are chosen.
void score_keys(const IndexerArgs& args, std::int64_t row, const KeyList& keys, std::int64_t begin,
                std::int64_t end, IndexerScratch& scratch, TopK& top, BestBlocks* blocks) {
  const FloatTag d;
  const SequenceSlice& slice = args.batch.slice_of(row);
  prepare_query(args, row, scratch);
  const bool byte_dots = has_byte_dots();
  for (std::int64_t key = begin; key < end; key += kGroup) {
    const int count = static_cast<int>(std::min<std::int64_t>(kGroup, end - key));
    FloatVec scores[kGroupVecs];
    score_group(args, slice, keys, key, count, byte_dots, scratch, scores);
    if (top.has_threshold() && blocks == nullptr) {
      const auto threshold = hn::Set(d, top.threshold());
      if (hn::AllFalse(d, hn::Gt(scores[0], threshold)) && hn::AllFalse(d, hn::Gt(scores[1], threshold)))
        continue;
    }
    alignas(64) float stored[kGroup];
    for (int v = 0; v < kGroupVecs; ++v) hn::Store(scores[v], d, stored + v * kLanes);
    for (int i = 0; i < count; ++i) top.offer(stored[i], static_cast<std::int32_t>(keys[key + i]));
    for (int i = 0; i < count && blocks != nullptr; ++i) blocks->offer(stored[i], keys[key + i]);
  }
  if (blocks != nullptr) blocks->end_block();
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {

HWY_EXPORT(score_keys);

namespace {

/// Parts a query's keys are cut into.
std::int64_t num_parts_of(std::int64_t num_queries, int num_threads) {
  return num_queries >= num_threads ? 1 : (num_threads + num_queries - 1) / num_queries;
}

/// First of a part: whole groups, so that no two threads unpack the same keys, and whole blocks.
std::int64_t part_begin(const IndexerArgs& args, std::int64_t num_keys, std::int64_t part,
                        std::int64_t num_parts) {
  const std::int64_t unit = std::lcm<std::int64_t>(kMaxGroup, std::max<std::int64_t>(1, args.blocks.size));
  const std::int64_t num_units = (num_keys + unit - 1) / unit;
  return std::min(num_keys, num_units * part / num_parts * unit);
}

/// What the parts of each row found best, until they are merged.
class KeptLists {
 public:
  KeptLists(std::int64_t num_items, std::int64_t most, Arena& arena)
      : most_(most),
        lists_(arena.allocate<ScoredIndex>(num_items * most)),
        counts_(arena.allocate<std::int64_t>(num_items)) {
    std::fill_n(counts_, num_items, 0);
  }
  static std::int64_t bytes(std::int64_t num_items, std::int64_t most) {
    return Arena::bytes_for<ScoredIndex>(num_items * most) + Arena::bytes_for<std::int64_t>(num_items);
  }

  void keep(std::int64_t item, std::span<const ScoredIndex> best) {
    std::ranges::copy(best, lists_ + item * most_);
    counts_[item] = static_cast<std::int64_t>(best.size());
  }
  /// The best `most` of the items from `first_item` on.
  [[nodiscard]] std::span<const ScoredIndex> best_of(std::int64_t first_item, std::int64_t num_items,
                                                     std::int64_t most) {
    ScoredIndex* first = lists_ + first_item * most_;
    ScoredIndex* end = first;
    for (std::int64_t i = 0; i < num_items; ++i)
      end = std::copy_n(first + i * most_, counts_[first_item + i], end);
    if (end - first > most) {
      std::nth_element(first, first + most, end, better);
      end = first + most;
    }
    return {first, end};
  }

 private:
  std::int64_t most_;
  ScoredIndex* lists_;
  std::int64_t* counts_;
};

/// Whether all keys of the list are selected, and all blocks chosen, whatever their scores are.
bool takes_all(const IndexerArgs& args, const KeyList& keys) {
  return keys.size() <= args.selected.extent(1) &&
         (!args.blocks.are_chosen() || keys.num_blocks() <= args.blocks.count());
}

void take_all(const IndexerArgs& args, std::int64_t row, const KeyList& keys) {
  const std::span<std::int32_t> selected = args.selected.row(row);
  std::ranges::fill(selected, -1);
  for (std::int64_t i = 0; i < keys.size(); ++i)
    selected[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(keys[i]);
  if (args.blocks.are_chosen()) select_all(keys.num_blocks(), args.blocks.chosen.row(row));
}

}  // namespace

std::int64_t indexer_scratch_bytes(std::int64_t num_heads, std::int64_t dim, std::int64_t top_k,
                                   int num_threads, std::int64_t num_blocks) {
  BALEEN_CHECK_EQ(dim, kIndexDim);
  const std::int64_t max_parts = 2 * num_threads;
  return num_threads * IndexerScratch::bytes(num_heads, top_k, num_blocks) +
         Arena::bytes_for<IndexerScratch>(num_threads) + KeptLists::bytes(max_parts, top_k) +
         KeptLists::bytes(max_parts, num_blocks);
}

void indexer_cpu(const IndexerArgs& args, CpuContext& context) {
  BALEEN_CHECK_EQ(args.q.extent(2), kIndexDim);
  const std::int64_t num_rows = args.q.extent(0), top_k = args.selected.extent(1);
  if (num_rows == 0) return;
  const int num_threads = context.pool.num_threads();
  const std::int64_t num_parts = num_parts_of(num_rows, num_threads);
  const bool chooses = args.blocks.are_chosen();
  const std::int64_t num_blocks = chooses ? args.blocks.count() : 0;
  const ScratchScope scope(context.scratch);
  auto* scratch = context.scratch.allocate<IndexerScratch>(num_threads);
  for (int thread = 0; thread < num_threads; ++thread) {
    std::construct_at(scratch + thread, args.q.extent(1), top_k, num_blocks, context.scratch);
  }
  const std::int64_t num_kept = num_parts > 1 ? num_rows * num_parts : 0;
  KeptLists kept(num_kept, top_k, context.scratch), kept_blocks(num_kept, num_blocks, context.scratch);

  context.pool.parallel_for(num_rows * num_parts, [&](std::int64_t item, int thread) {
    const std::int64_t row = item / num_parts, part = item % num_parts;
    const KeyList keys(args, row);
    if (takes_all(args, keys)) {
      if (part == 0) take_all(args, row, keys);
      return;
    }
    IndexerScratch& own = scratch[thread];
    TopK top({own.candidates, static_cast<std::size_t>(2 * top_k)}, top_k);
    std::optional<BestBlocks> blocks;
    if (chooses) {
      blocks.emplace(std::span(own.blocks, static_cast<std::size_t>(2 * num_blocks)), num_blocks,
                     args.blocks.size, keys.num_blocks());
    }
    HWY_DYNAMIC_DISPATCH(score_keys)
    (args, row, keys, part_begin(args, keys.size(), part, num_parts),
     part_begin(args, keys.size(), part + 1, num_parts), own, top, blocks ? &*blocks : nullptr);
    if (num_parts == 1) {
      write_selection(top.best(), args.selected.row(row));
      if (blocks) write_blocks(blocks->best_others(), keys.num_blocks() - 1, args.blocks.chosen.row(row));
    } else {
      kept.keep(item, top.best());
      if (blocks) kept_blocks.keep(item, blocks->best_others());
    }
  });

  for (std::int64_t row = 0; num_parts > 1 && row < num_rows; ++row) {
    const KeyList keys(args, row);
    if (takes_all(args, keys)) continue;
    const std::int64_t item = row * num_parts;
    write_selection(kept.best_of(item, num_parts, top_k), args.selected.row(row));
    if (!chooses) continue;
    write_blocks(kept_blocks.best_of(item, num_parts, num_blocks - 1), keys.num_blocks() - 1,
                 args.blocks.chosen.row(row));
  }
}

}  // namespace baleen
#endif  // HWY_ONCE
