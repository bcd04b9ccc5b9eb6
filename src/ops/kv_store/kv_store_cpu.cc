#include "base/check.h"
#include "numeric/simd_targets.h"
#include "ops/kv_store/kv_store.h"
#include "ops/operation/row_blocks.h"
#include "ops/rope/rope_frequencies.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/kv_store/kv_store_cpu.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "numeric/latent_row-inl.h"
#include "numeric/normalise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

/// `y`: [head_dim] of the calling thread.
void store_row(const KvStoreArgs& args, std::int64_t row, float* y) {
  const LatentPool& pool = args.window;
  const bool round = pool.format.precision != Precision::kExact;
  normalise_row(args.kv.row(row).data(), args.weight.data(), args.eps, round, pool.format.width(), y);
  float* rotated = y + pool.format.nope;
  rotate_pairs({rotated, static_cast<std::size_t>(pool.format.rope)}, args.cosine.row(row),
               args.sine.row(row));
  if (round) round_row(rotated, pool.format.rope);

  const SequenceSlice& slice = args.batch.slice_of(row);
  const std::int64_t position = slice.start + row - slice.first_row;
  const PageId page = slice.window_pages[static_cast<std::size_t>(position / pool.rows_per_page)];
  encode_latent_row_simd(hn::CappedTag<float, 16>(), pool.format, pool.page(static_cast<std::int64_t>(page)),
                         pool.rows_per_page, static_cast<int>(position % pool.rows_per_page), y);
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {

HWY_EXPORT(store_row);

std::int64_t kv_store_scratch_bytes(std::int64_t head_dim, int num_threads) {
  return num_threads * Arena::bytes_for<float>(head_dim);
}

void kv_store_cpu(const KvStoreArgs& args, CpuContext& context) {
  BALEEN_CHECK_EQ(args.window.format.rope % 16, 0);  // whole vectors of any instruction set
  const ScratchScope scope(context.scratch);
  const std::int64_t stride = Arena::bytes_for<float>(args.kv.extent(1)) / std::int64_t{sizeof(float)};
  auto* rows = context.scratch.allocate<float>(context.pool.num_threads() * stride);
  for_row_blocks(context.pool, args.kv.extent(0), args.kv.extent(1),
                 [&](std::int64_t begin, std::int64_t end, int thread) {
                   for (std::int64_t row = begin; row < end; ++row) {
                     HWY_DYNAMIC_DISPATCH(store_row)(args, row, rows + thread * stride);
                   }
                 });
}

}  // namespace baleen
#endif  // HWY_ONCE
