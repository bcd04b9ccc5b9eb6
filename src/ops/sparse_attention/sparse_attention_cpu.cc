// SIMD attention. A work item is a query and a group of heads. Its list is taken in blocks of 64 entries:
//
//     decode      rows -> values, strips of [64 rows][64 dims]: 8 for head_dim 512 (128 KB, second level)
//     per strip   turn it into keys [64 dims][64 rows] (16 KB, first level);
//                 scores[h][row] += q[h][dim] keys[dim][row]
//     per head    running maximum, exponentials, sum
//     per strip   out[h][dim] = out[h][dim] correction[h] + sum over rows p[h][row] values[row][dim]
//
// Both products are the same kernel: [heads, depth] times a first-level resident [depth, 64], lanes along the
// 64, so nothing is ever added across lanes. Turning costs 28 instructions for 64 values; horizontal sums
// instead would cost the same per head and dim strip, not once per block.
//
// Every head has accumulators of its own and a fixed order (dims ascending within a strip, strips ascending;
// rows ascending within a block, blocks ascending), so grouping, tiles and threads do not show in the result.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "base/check.h"
#include "numeric/simd_targets.h"
#include "ops/sparse_attention/entry_list.h"
#include "ops/sparse_attention/sparse_attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/sparse_attention/sparse_attention_cpu.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "numeric/exp-inl.h"
#include "numeric/latent_row-inl.h"
#include "numeric/rounding-inl.h"
#include "numeric/transpose-inl.h"

#ifndef BALEEN_OPS_SPARSE_ATTENTION_WORK_ITEM_
#define BALEEN_OPS_SPARSE_ATTENTION_WORK_ITEM_
namespace baleen {
namespace {

constexpr std::int64_t kBlock = 64;  ///< list entries a block, and dims a strip
constexpr std::int64_t kTile = kBlock * kBlock;

/// One thread's scratch for `num_heads` heads.
struct AttentionScratch {
  float* values;       ///< [head_dim / 64][64 rows][64 dims]
  float* keys;         ///< [64 dims][64 rows], one strip at a time
  float* scores;       ///< [heads][64], then the weights
  float* sums;         ///< [heads][head_dim]
  float* maximum;      ///< [heads]
  float* denominator;  ///< [heads]
  float* correction;   ///< [heads]

  AttentionScratch(std::int64_t num_heads, std::int64_t head_dim, Arena& arena)
      : values(arena.allocate<float>(kBlock * head_dim)),
        keys(arena.allocate<float>(kTile)),
        scores(arena.allocate<float>(num_heads * kBlock)),
        sums(arena.allocate<float>(num_heads * head_dim)),
        maximum(arena.allocate<float>(num_heads)),
        denominator(arena.allocate<float>(num_heads)),
        correction(arena.allocate<float>(num_heads)) {}

  static std::int64_t bytes(std::int64_t num_heads, std::int64_t head_dim) {
    return Arena::bytes_for<float>(kBlock * head_dim) + Arena::bytes_for<float>(kTile) +
           Arena::bytes_for<float>(num_heads * kBlock) + Arena::bytes_for<float>(num_heads * head_dim) +
           3 * Arena::bytes_for<float>(num_heads);
  }
};

struct AttentionItem {
  std::int64_t query = 0;
  std::int64_t head_begin = 0;
  std::int64_t num_heads = 0;
};

}  // namespace
}  // namespace baleen
#endif  // BALEEN_OPS_SPARSE_ATTENTION_WORK_ITEM_

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {
namespace {

using FloatTag = hn::CappedTag<float, 16>;
using FloatVec = hn::Vec<FloatTag>;
constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(FloatTag()));

// 4 x 4 accumulators where there are 32 registers, 4 x 2 where there are 16: at least the eight independent
// chains that cover a latency of 4 cycles at 2 multiply-adds a cycle, and at most 0.75 loads for each.
constexpr int kTileHeads = 4;
constexpr int kTileVecs = kLanes == 16 || HWY_ARCH_ARM_A64 ? 4 : 2;

/// c[h][0..63] = c[h][..] factor[h] + sum_k a[h][k] b[k][..], k ascending.
struct Product {
  const float* a;
  std::int64_t a_stride;
  std::int64_t depth;
  const float* b;  ///< [depth][64], aligned
  float* c;
  std::int64_t c_stride;
};

template <int kHeads>
HWY_INLINE void multiply_heads(const Product& product, const float* factor, std::int64_t head) {
  const FloatTag d;
  for (std::int64_t column = 0; column < kBlock; column += kTileVecs * kLanes) {
    FloatVec sums[kHeads][kTileVecs];
    for (int h = 0; h < kHeads; ++h) {
      for (int v = 0; v < kTileVecs; ++v) sums[h][v] = hn::Zero(d);
    }
    const float* a = product.a + head * product.a_stride;
    const float* b = product.b + column;
    for (std::int64_t k = 0; k < product.depth; ++k, b += kBlock) {
      FloatVec row[kTileVecs];
      for (int v = 0; v < kTileVecs; ++v) row[v] = hn::Load(d, b + v * kLanes);
      for (int h = 0; h < kHeads; ++h) {
        const FloatVec weight = hn::Set(d, a[h * product.a_stride + k]);
        for (int v = 0; v < kTileVecs; ++v) sums[h][v] = hn::MulAdd(weight, row[v], sums[h][v]);
      }
    }
    for (int h = 0; h < kHeads; ++h) {
      float* c = product.c + (head + h) * product.c_stride + column;
      const FloatVec scale = hn::Set(d, factor[head + h]);
      for (int v = 0; v < kTileVecs; ++v) {
        hn::StoreU(hn::MulAdd(hn::LoadU(d, c + v * kLanes), scale, sums[h][v]), d, c + v * kLanes);
      }
    }
  }
}

void multiply_simd(const Product& product, const float* factor, std::int64_t num_heads) {
  std::int64_t head = 0;
  for (; head + kTileHeads <= num_heads; head += kTileHeads)
    multiply_heads<kTileHeads>(product, factor, head);
  for (; head < num_heads; ++head) multiply_heads<1>(product, factor, head);
}

/// Asks for a row's cache lines. Selected rows lie anywhere in memory, and a row is decoded in a tenth of the
/// time that its first line needs to arrive.
HWY_INLINE void prefetch_row(const EntryList& list, std::int64_t index) {
  const EntryList::Place place = list[index];
  const LatentFormat& format = place.pool->format;
  const LatentRowPlace at = place_of_simd(format, place.page, place.pool->rows_per_page, place.row);
  for (std::int64_t offset = 0; offset < format.data_bytes(); offset += 64) hwy::Prefetch(at.data + offset);
  hwy::Prefetch(at.scales);
}

/// Rows [begin, begin + num_rows) of the list as float32 strips.
void decode_block(const EntryList& list, std::int64_t begin, std::int64_t num_rows, std::int64_t num_strips,
                  float* values) {
  constexpr std::int64_t kRowsAhead = 8;
  const FloatTag d;
  for (std::int64_t row = 0; row < num_rows; ++row) {
    if (begin + row + kRowsAhead < list.size()) prefetch_row(list, begin + row + kRowsAhead);
    const EntryList::Place place = list[begin + row];
    const LatentFormat& format = place.pool->format;
    const LatentRowPlace at = place_of_simd(format, place.page, place.pool->rows_per_page, place.row);
    for (std::int64_t strip = 0; strip < num_strips; ++strip) {
      decode_latent_part(d, format, at, static_cast<int>(strip), values + strip * kTile + row * kBlock);
    }
  }
}

/// keys[dim][row] = values[row][dim], in runs of as many rows as lanes; rows past the last hold anything.
void rotate_strip(const float* values, std::int64_t num_rows, float* keys) {
  const FloatTag d;
  for (std::int64_t row = 0; row < num_rows; row += kLanes) {
    for (std::int64_t dim = 0; dim < kBlock; dim += 4) {
      FloatVec column[4];
      transpose_four(d, values + row * kBlock + dim, kBlock, column[0], column[1], column[2], column[3]);
      for (int i = 0; i < 4; ++i) hn::Store(column[i], d, keys + (dim + i) * kBlock + row);
    }
  }
}

/// Scores become weights; the head's maximum, denominator and correction follow.
void softmax_block(float* scores, std::int64_t num_rows, float scale, bool round, float& maximum,
                   float& denominator, float& correction) {
  const FloatTag d;
  const auto lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  FloatVec largest = lowest;
  for (std::int64_t i = 0; i < kBlock; i += kLanes) {
    const auto valid = hn::FirstN(d, static_cast<std::size_t>(std::max<std::int64_t>(0, num_rows - i)));
    const auto score = hn::IfThenElse(valid, hn::Mul(hn::Load(d, scores + i), hn::Set(d, scale)), lowest);
    largest = hn::Max(largest, score);
    hn::Store(score, d, scores + i);
  }
  const float new_maximum = std::max(maximum, hn::GetLane(hn::MaxOfLanes(d, largest)));
  correction = new_maximum == maximum ? 1.0F : std::exp(maximum - new_maximum);
  FloatVec sum = hn::Zero(d);
  for (std::int64_t i = 0; i < kBlock; i += kLanes) {
    const FloatVec weight = safe_exp(d, hn::Sub(hn::Load(d, scores + i), hn::Set(d, new_maximum)));
    sum = hn::Add(sum, weight);
    hn::Store(round ? round_bf16_simd(d, weight) : weight, d, scores + i);
  }
  denominator = denominator * correction + hn::GetLane(hn::SumOfLanes(d, sum));
  maximum = new_maximum;
}

void store_output(const SparseAttentionArgs& args, const AttentionItem& item, bool round,
                  AttentionScratch& scratch) {
  const FloatTag d;
  const std::int64_t head_dim = args.q.extent(2);
  for (std::int64_t h = 0; h < item.num_heads; ++h) {
    const float sink = args.sink[static_cast<std::size_t>(item.head_begin + h)];
    const float denominator = scratch.denominator[h] + std::exp(sink - scratch.maximum[h]);
    const auto inverse = hn::Set(d, 1.0F / denominator);
    float* out = &args.out(item.query, item.head_begin + h, 0);
    for (std::int64_t i = 0; i < head_dim; i += kLanes) {
      const auto value = hn::Mul(hn::Load(d, scratch.sums + h * head_dim + i), inverse);
      hn::StoreU(round ? round_bf16_simd(d, value) : value, d, out + i);
    }
  }
}

}  // namespace

void attend_simd(const SparseAttentionArgs& args, const AttentionItem& item, AttentionScratch& scratch) {
  const std::int64_t head_dim = args.q.extent(2), num_strips = head_dim / kBlock;
  const bool round = args.precision != Precision::kExact;
  const EntryList list(args, item.query);
  if (list.size() == 0) {
    for (std::int64_t h = 0; h < item.num_heads; ++h) {
      std::fill_n(&args.out(item.query, item.head_begin + h, 0), head_dim, 0.0F);
    }
    return;
  }
  const float* q = &args.q(item.query, item.head_begin, 0);
  std::fill_n(scratch.sums, item.num_heads * head_dim, 0.0F);
  std::fill_n(scratch.maximum, item.num_heads, -std::numeric_limits<float>::infinity());
  std::fill_n(scratch.denominator, item.num_heads, 0.0F);
  for (std::int64_t begin = 0; begin < list.size(); begin += kBlock) {
    const std::int64_t num_rows = std::min(kBlock, list.size() - begin);
    decode_block(list, begin, num_rows, num_strips, scratch.values);

    std::fill_n(scratch.scores, item.num_heads * kBlock, 0.0F);
    std::fill_n(scratch.correction, item.num_heads, 1.0F);
    for (std::int64_t strip = 0; strip < num_strips; ++strip) {
      rotate_strip(scratch.values + strip * kTile, num_rows, scratch.keys);
      multiply_simd({q + strip * kBlock, args.q.stride(1), kBlock, scratch.keys, scratch.scores, kBlock},
                    scratch.correction, item.num_heads);
    }

    for (std::int64_t h = 0; h < item.num_heads; ++h) {
      softmax_block(scratch.scores + h * kBlock, num_rows, args.scale, round, scratch.maximum[h],
                    scratch.denominator[h], scratch.correction[h]);
    }

    for (std::int64_t strip = 0; strip < num_strips; ++strip) {
      multiply_simd({scratch.scores, kBlock, num_rows, scratch.values + strip * kTile,
                     scratch.sums + strip * kBlock, head_dim},
                    scratch.correction, item.num_heads);
    }
  }
  store_output(args, item, round, scratch);
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {

HWY_EXPORT(attend_simd);

namespace {

/// Groups of heads a query is cut into: one, so that its rows are decoded once, unless there are too few
/// queries to occupy the threads.
std::int64_t num_head_groups(std::int64_t num_queries, std::int64_t num_heads, int num_threads) {
  constexpr std::int64_t kQueriesPerThread = 4;  // then the last, uneven round costs at most an eighth
  if (num_queries >= kQueriesPerThread * num_threads) return 1;
  return std::clamp<std::int64_t>(num_heads / 4, 1, num_threads);
}

}  // namespace

std::int64_t sparse_attention_scratch_bytes(std::int64_t num_heads, std::int64_t head_dim, int num_threads) {
  return num_threads * (AttentionScratch::bytes(num_heads, head_dim) + Arena::bytes_for<AttentionScratch>(1));
}

void sparse_attention_cpu(const SparseAttentionArgs& args, CpuContext& context) {
  const std::int64_t num_queries = args.q.extent(0), num_heads = args.q.extent(1),
                     head_dim = args.q.extent(2);
  if (num_queries == 0) return;
  BALEEN_CHECK(args.window.format.layout == LatentLayout::kV4);
  BALEEN_CHECK_EQ(head_dim % kBlock, 0);
  BALEEN_CHECK_EQ(args.window.format.nope % kBlock, 0);
  const int num_threads = context.pool.num_threads();
  const std::int64_t num_groups = num_head_groups(num_queries, num_heads, num_threads);
  const ScratchScope scope(context.scratch);
  auto* scratch = context.scratch.allocate<AttentionScratch>(num_threads);
  for (int thread = 0; thread < num_threads; ++thread) {
    std::construct_at(scratch + thread, num_heads, head_dim, context.scratch);
  }
  context.pool.parallel_for(num_queries * num_groups, [&](std::int64_t index, int thread) {
    const std::int64_t group = index % num_groups;
    const std::int64_t head_begin = num_heads * group / num_groups,
                       head_end = num_heads * (group + 1) / num_groups;
    HWY_DYNAMIC_DISPATCH(attend_simd)
    (args, {index / num_groups, head_begin, head_end - head_begin}, scratch[thread]);
  });
}

}  // namespace baleen
#endif  // HWY_ONCE
