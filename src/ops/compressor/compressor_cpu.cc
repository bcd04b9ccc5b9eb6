#include <algorithm>
#include <span>

#include "base/check.h"
#include "numeric/simd_targets.h"
#include "ops/compressor/pooled_rows.h"
#include "ops/operation/row_blocks.h"
#include "ops/rope/rope_frequencies.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/compressor/compressor_cpu.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "numeric/exp-inl.h"
#include "numeric/hadamard-inl.h"
#include "numeric/latent_row-inl.h"
#include "numeric/normalise-inl.h"
#include "numeric/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {
namespace {

/// Softmax over the rows and weighted sum, kVecs vectors of channels from `channel` on.
template <int kVecs, class D>
HWY_INLINE void pool_channels(D d, const PooledRows& rows, std::size_t channel, float* to) {
  constexpr std::size_t kLanes = hn::MaxLanes(D());
  const auto count = static_cast<std::size_t>(rows.count);
  hn::Vec<D> maximum[kVecs];
  hn::Vec<D> weights[kVecs];
  hn::Vec<D> sums[kVecs];
  for (int v = 0; v < kVecs; ++v) maximum[v] = hn::LoadU(d, rows.gate[0] + channel + v * kLanes);
  for (std::size_t i = 1; i < count; ++i) {
    for (int v = 0; v < kVecs; ++v) {
      maximum[v] = hn::Max(maximum[v], hn::LoadU(d, rows.gate[i] + channel + v * kLanes));
    }
  }
  for (int v = 0; v < kVecs; ++v) weights[v] = sums[v] = hn::Zero(d);
  for (std::size_t i = 0; i < count; ++i) {
    for (int v = 0; v < kVecs; ++v) {
      const std::size_t at = channel + v * kLanes;
      const auto weight = safe_exp(d, hn::Sub(hn::LoadU(d, rows.gate[i] + at), maximum[v]));
      weights[v] = hn::Add(weights[v], weight);
      sums[v] = hn::MulAdd(weight, hn::LoadU(d, rows.kv[i] + at), sums[v]);
    }
  }
  for (int v = 0; v < kVecs; ++v) hn::StoreU(hn::Div(sums[v], weights[v]), d, to + channel + v * kLanes);
}

/// Four vectors at a time: rows lie kilobytes apart, and each read should take whole runs of cache lines.
void pool_simd(const PooledRows& rows, std::size_t head_dim, float* to) {
  const hn::CappedTag<float, 16> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t channel = 0;
  for (; channel + 4 * lanes <= head_dim; channel += 4 * lanes) pool_channels<4>(d, rows, channel, to);
  for (; channel < head_dim; channel += lanes) pool_channels<1>(d, rows, channel, to);
}

}  // namespace

void add_position_bias_simd(const CompressorArgs& args, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    const SequenceSlice& slice = args.batch.slice_of(row);
    const float* bias = args.ape.row((slice.start + row - slice.first_row) % args.ratio).data();
    float* gate = args.gate.row(row).data();
    for_each_vector(args.state.width, [&](auto d, std::int64_t i) HWY_ATTR {
      hn::StoreU(hn::Add(hn::LoadU(d, gate + i), hn::LoadU(d, bias + i)), d, gate + i);
    });
  }
}

/// y: [h], angles: [2 * pairs] of the calling thread.
void make_entry_simd(const CompressorArgs& args, const SequenceSlice& slice, std::int64_t entry, float* y,
                     float* angles) {
  const std::size_t head_dim = args.norm_weight.size(), num_pairs = args.frequencies.size();
  const auto width = static_cast<std::int64_t>(head_dim);
  const bool round = args.precision != Precision::kExact;
  pool_simd(PooledRows(args, slice, entry), head_dim, y);
  if (round) round_row(y, width);
  normalise_row(y, args.norm_weight.data(), args.eps, round, width, y);

  const std::span<float> cosine(angles, num_pairs), sine(angles + num_pairs, num_pairs);
  const std::span<float> rotated(y + head_dim - 2 * num_pairs, 2 * num_pairs);
  rope_angles(args.frequencies, entry * args.ratio, cosine, sine);
  rotate_pairs(rotated, cosine, sine);
  if (round) round_row(rotated.data(), static_cast<std::int64_t>(rotated.size()));

  const hn::CappedTag<float, 16> d;
  if (args.latent.base != nullptr) {
    const EntryPlace place = entry_place(args.latent, slice, entry);
    encode_latent_row_simd(d, args.latent.format, place.page, args.latent.rows_per_page, place.row, y);
  } else {
    hadamard_transform_simd(d, y, head_dim);
    if (round) round_row(y, width);
    const EntryPlace place = entry_place(args.index_key, slice, entry);
    // 128 values once in four tokens: the scalar form is quick enough.
    encode_index_key(args.index_key.format, place.page, args.index_key.rows_per_page, place.row,
                     {y, head_dim});
  }
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {

HWY_EXPORT(add_position_bias_simd);
HWY_EXPORT(make_entry_simd);

namespace {

/// The last rows of every sequence go to its ring, after all entries have been made from what was there; the
/// last of every page also to the page.
void keep_row(const CompressorArgs& args, std::int64_t row) {
  const SequenceSlice& slice = args.batch.slice_of(row);
  const std::int64_t position = slice.start + row - slice.first_row;
  if (args.overlap.base != nullptr && is_overlap(position)) {
    const PageId page = slice.window_pages[static_cast<std::size_t>(position / kPageTokens)];
    std::copy_n(args.kv.row(row).data(), args.overlap.width, args.overlap.kv_row(page, position));
    std::copy_n(args.gate.row(row).data(), args.overlap.width, args.overlap.gate_row(page, position));
  }
  if (position < slice.start + slice.num_tokens - args.state.ring_rows) return;
  std::ranges::copy(args.kv.row(row), args.state.kv_row(slice.state_slot, position));
  std::ranges::copy(args.gate.row(row), args.state.gate_row(slice.state_slot, position));
}

/// Sequences are few and entries many or none: the sequence of the n-th entry of the step is found by
/// counting.
struct EntryOfStep {
  const SequenceSlice* slice = nullptr;
  std::int64_t entry = 0;
};
EntryOfStep entry_of_step(const CompressorArgs& args, std::int64_t index) {
  for (const SequenceSlice& slice : args.batch.slices) {
    const std::int64_t first = first_entry(slice, args.ratio), count = end_entry(slice, args.ratio) - first;
    if (index < count) return {&slice, first + index};
    index -= count;
  }
  BALEEN_CHECK(false);
}

/// Floats of a thread's row and angles.
std::int64_t scratch_stride(std::int64_t head_dim) {
  return Arena::bytes_for<float>(2 * head_dim) / std::int64_t{sizeof(float)};
}

}  // namespace

std::int64_t compressor_scratch_bytes(std::int64_t head_dim, int num_threads) {
  return num_threads * Arena::bytes_for<float>(2 * head_dim);
}

void compressor_cpu(const CompressorArgs& args, CpuContext& context) {
  const auto head_dim = static_cast<std::int64_t>(args.norm_weight.size());
  BALEEN_CHECK_EQ(head_dim % 16, 0);  // whole vectors of any instruction set
  for_row_blocks(context.pool, args.gate.extent(0), args.state.width,
                 [&](std::int64_t begin, std::int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(add_position_bias_simd)(args, begin, end);
                 });

  std::int64_t num_entries = 0;
  for (const SequenceSlice& slice : args.batch.slices) {
    num_entries += end_entry(slice, args.ratio) - first_entry(slice, args.ratio);
  }
  const ScratchScope scope(context.scratch);
  const std::int64_t stride = scratch_stride(head_dim);
  auto* scratch = context.scratch.allocate<float>(context.pool.num_threads() * stride);
  context.pool.parallel_for(num_entries, [&](std::int64_t index, int thread) {
    const EntryOfStep at = entry_of_step(args, index);
    float* y = scratch + thread * stride;
    HWY_DYNAMIC_DISPATCH(make_entry_simd)(args, *at.slice, at.entry, y, y + head_dim);
  });

  for_row_blocks(context.pool, args.kv.extent(0), 2 * args.state.width,
                 [&](std::int64_t begin, std::int64_t end, int) {
                   for (std::int64_t row = begin; row < end; ++row) keep_row(args, row);
                 });
}

}  // namespace baleen
#endif  // HWY_ONCE
