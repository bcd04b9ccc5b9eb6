#include <algorithm>

#include "base/check.h"
#include "numeric/simd_targets.h"
#include "ops/compressor/step_entries.h"
#include "ops/entry_store/entry_store.h"
#include "ops/operation/row_blocks.h"
#include "ops/rope/rope_frequencies.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/entry_store/entry_store_cpu.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "numeric/latent_row-inl.h"
#include "numeric/normalise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

/// y: [c] and angles: [2 * pairs] of the calling thread.
void store_entry(const EntryStoreArgs& args, std::int64_t row, float* y, float* angles) {
  const SequenceSlice& slice = args.batch.slice_of(row);
  const std::int64_t entry = entry_of_row(slice, row, args.ratio);
  if (entry < 0) return;
  const std::size_t num_pairs = args.frequencies.size();
  const bool round = args.entries.format.precision != Precision::kExact;
  const std::span<float> cosine(angles, num_pairs), sine(angles + num_pairs, num_pairs);
  rope_angles(args.frequencies, entry * args.ratio, cosine, sine);
  const auto rotate = [&](std::int64_t width) {
    const std::span<float> rotated(y + width - static_cast<std::int64_t>(2 * num_pairs), 2 * num_pairs);
    rotate_pairs(rotated, cosine, sine);
    if (round) round_row(rotated.data(), static_cast<std::int64_t>(rotated.size()));
  };

  std::ranges::copy(args.latent.row(row), y);
  rotate(args.latent.extent(1));
  const EntryPlace place = entry_place(args.entries, slice, entry);
  encode_latent_row_simd(hn::CappedTag<float, 16>(), args.entries.format, place.page,
                         args.entries.rows_per_page, place.row, y);

  const std::int64_t key_dim = args.key.extent(1);
  normalise_row(args.key.row(row).data(), args.key_norm.data(), args.eps, round, key_dim, y);
  rotate(key_dim);
  const EntryPlace key_place = entry_place(args.index_keys, slice, entry);
  encode_index_key(args.index_keys.format, key_place.page, args.index_keys.rows_per_page, key_place.row,
                   {y, static_cast<std::size_t>(key_dim)});
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {

HWY_EXPORT(store_entry);

namespace {

/// Floats of a thread's row and angles.
std::int64_t scratch_stride(std::int64_t head_dim) {
  return Arena::bytes_for<float>(2 * head_dim) / std::int64_t{sizeof(float)};
}

}  // namespace

std::int64_t entry_store_scratch_bytes(std::int64_t head_dim, int num_threads) {
  return num_threads * Arena::bytes_for<float>(2 * head_dim);
}

void entry_store_cpu(const EntryStoreArgs& args, CpuContext& context) {
  const std::int64_t head_dim = std::max(args.latent.extent(1), args.key.extent(1));
  BALEEN_CHECK_EQ(args.latent.extent(1) % 16, 0);  // whole vectors of any instruction set
  BALEEN_CHECK_EQ(args.entries.format.rope % 16, 0);
  const ScratchScope scope(context.scratch);
  const std::int64_t stride = scratch_stride(head_dim);
  auto* scratch = context.scratch.allocate<float>(context.pool.num_threads() * stride);
  for_row_blocks(context.pool, args.latent.extent(0), head_dim,
                 [&](std::int64_t begin, std::int64_t end, int thread) {
                   float* y = scratch + thread * stride;
                   for (std::int64_t row = begin; row < end; ++row)
                     HWY_DYNAMIC_DISPATCH(store_entry)(args, row, y, y + head_dim);
                 });
}

}  // namespace baleen
#endif  // HWY_ONCE
