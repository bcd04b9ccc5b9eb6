// SIMD indexer. A work item is a query, or, when there are fewer queries than threads, a contiguous part of
// its keys; parts find their own top_k, which are merged at the end. A selection is a set and the order of
// scores is total, so neither parts nor groups show in the result.

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>

#include "base/check.h"
#include "numeric/bf16.h"
#include "numeric/simd_targets.h"
#include "ops/indexer/indexer.h"
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
    hadamard_transform_simd(FloatTag(), values, kIndexDim);
    if (round) round_row(values, kIndexDim);
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

void score_group(const IndexerArgs& args, const SequenceSlice& slice, std::int64_t begin, int count,
                 bool byte_dots, IndexerScratch& scratch, FloatVec (&scores)[kGroupVecs]) {
  for (FloatVec& score : scores) score = hn::Zero(FloatTag());
  if (args.precision != Precision::kReleased) {
    decode_keys(args.keys, slice.pages, begin, count, scratch);
    return score_float(args.q.extent(1), scratch, scores);
  }
  const PackedKeys packed = locate_keys(args.keys, slice.pages, begin, count, scratch);
  unpack_keys(packed.codes, scratch.keys);
  const auto score = byte_dots ? score_fp4<HWY_TARGET == HWY_AVX3> : score_fp4<false>;
  score(args.q.extent(1), packed.scales, scratch, scores);
}

}  // namespace

/// Offers the keys [begin, end) of the row's sequence.
void score_keys(const IndexerArgs& args, std::int64_t row, std::int64_t begin, std::int64_t end,
                IndexerScratch& scratch, TopK& top) {
  const FloatTag d;
  const SequenceSlice& slice = args.batch.slice_of(row);
  prepare_query(args, row, scratch);
  const bool byte_dots = has_byte_dots();
  for (std::int64_t key = begin; key < end; key += kGroup) {
    const int count = static_cast<int>(std::min<std::int64_t>(kGroup, end - key));
    FloatVec scores[kGroupVecs];
    score_group(args, slice, key, count, byte_dots, scratch, scores);
    if (top.has_threshold()) {
      const auto threshold = hn::Set(d, top.threshold());
      if (hn::AllFalse(d, hn::Gt(scores[0], threshold)) && hn::AllFalse(d, hn::Gt(scores[1], threshold)))
        continue;
    }
    alignas(64) float stored[kGroup];
    for (int v = 0; v < kGroupVecs; ++v) hn::Store(scores[v], d, stored + v * kLanes);
    for (int i = 0; i < count; ++i) top.offer(stored[i], static_cast<std::int32_t>(key + i));
  }
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

std::int64_t num_visible(const IndexerArgs& args, std::int64_t row) {
  const SequenceSlice& slice = args.batch.slice_of(row);
  return (slice.start + row - slice.first_row + 1) / 4;
}

/// First key of a part: whole groups, so that no two threads unpack the same keys.
std::int64_t part_begin(std::int64_t num_keys, std::int64_t part, std::int64_t num_parts) {
  const std::int64_t num_groups = (num_keys + kMaxGroup - 1) / kMaxGroup;
  return std::min(num_keys, num_groups * part / num_parts * kMaxGroup);
}

}  // namespace

std::int64_t indexer_scratch_bytes(std::int64_t num_heads, std::int64_t dim, std::int64_t top_k,
                                   int num_threads) {
  BALEEN_CHECK_EQ(dim, kIndexDim);
  const std::int64_t max_parts = 2 * num_threads;
  return num_threads * IndexerScratch::bytes(num_heads, top_k) +
         Arena::bytes_for<IndexerScratch>(num_threads) + Arena::bytes_for<ScoredIndex>(max_parts * top_k) +
         Arena::bytes_for<std::int64_t>(max_parts);
}

void indexer_cpu(const IndexerArgs& args, CpuContext& context) {
  BALEEN_CHECK_EQ(args.q.extent(2), kIndexDim);
  const std::int64_t num_rows = args.q.extent(0), top_k = args.selected.extent(1);
  if (num_rows == 0) return;
  const int num_threads = context.pool.num_threads();
  const std::int64_t num_parts = num_parts_of(num_rows, num_threads);
  const ScratchScope scope(context.scratch);
  auto* scratch = context.scratch.allocate<IndexerScratch>(num_threads);
  for (int thread = 0; thread < num_threads; ++thread) {
    std::construct_at(scratch + thread, args.q.extent(1), top_k, context.scratch);
  }
  const std::int64_t num_kept = num_parts > 1 ? num_rows * num_parts : 0;
  auto* kept = context.scratch.allocate<ScoredIndex>(num_kept * top_k);
  auto* kept_counts = context.scratch.allocate<std::int64_t>(num_kept);

  context.pool.parallel_for(num_rows * num_parts, [&](std::int64_t item, int thread) {
    const std::int64_t row = item / num_parts, part = item % num_parts, num_keys = num_visible(args, row);
    if (num_keys <= top_k) {
      if (part == 0) select_all(num_keys, args.selected.row(row));
      return;
    }
    TopK top({scratch[thread].candidates, static_cast<std::size_t>(2 * top_k)}, top_k);
    HWY_DYNAMIC_DISPATCH(score_keys)
    (args, row, part_begin(num_keys, part, num_parts), part_begin(num_keys, part + 1, num_parts),
     scratch[thread], top);
    const std::span<const ScoredIndex> best = top.best();
    if (num_parts == 1) {
      write_selection(best, args.selected.row(row));
    } else {
      std::ranges::copy(best, kept + item * top_k);
      kept_counts[item] = static_cast<std::int64_t>(best.size());
    }
  });

  for (std::int64_t row = 0; num_parts > 1 && row < num_rows; ++row) {
    if (num_visible(args, row) <= top_k) continue;
    ScoredIndex* first = kept + row * num_parts * top_k;
    ScoredIndex* end = first;
    for (std::int64_t part = 0; part < num_parts; ++part) {
      end = std::copy_n(first + part * top_k, kept_counts[row * num_parts + part], end);
    }
    std::nth_element(first, first + top_k, end, better);
    write_selection({first, static_cast<std::size_t>(top_k)}, args.selected.row(row));
  }
}

}  // namespace baleen
#endif  // HWY_ONCE
