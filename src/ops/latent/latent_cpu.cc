#include <algorithm>

#include "base/check.h"
#include "numeric/simd_targets.h"
#include "ops/compressor/step_entries.h"
#include "ops/latent/latent.h"
#include "ops/latent/pair.h"
#include "ops/operation/row_blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/latent/latent_cpu.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "numeric/exp-inl.h"
#include "numeric/normalise-inl.h"
#include "numeric/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {
namespace {

/// Softmax over two gates and weighted sum, channel by channel.
void pool_pair(const Pair& pair, std::int64_t width, float* to) {
  for_each_vector(width, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto first = hn::LoadU(d, pair.gate[0] + i), second = hn::LoadU(d, pair.gate[1] + i);
    const auto most = hn::Max(first, second);
    const auto first_weight = safe_exp(d, hn::Sub(first, most));
    const auto second_weight = safe_exp(d, hn::Sub(second, most));
    const auto sum = hn::MulAdd(second_weight, hn::LoadU(d, pair.kv[1] + i),
                                hn::Mul(first_weight, hn::LoadU(d, pair.kv[0] + i)));
    hn::StoreU(hn::Div(sum, hn::Add(first_weight, second_weight)), d, to + i);
  });
}

}  // namespace

void make_latent_simd(const LatentArgs& args, const SequenceSlice& slice, std::int64_t row) {
  const std::int64_t width = args.kv.extent(1);
  const bool round = args.precision != Precision::kExact;
  float* to = args.latent.row(row).data();
  const float* values = args.kv.row(row).data();
  if (args.ratio != 1) {
    pool_pair(Pair(args, slice, row), width, to);
    if (round) round_row(to, width);
    values = to;
  }
  normalise_row(values, args.norm_weight.data(), args.eps, round, width, to);
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {

HWY_EXPORT(make_latent_simd);

void latent_cpu(const LatentArgs& args, CpuContext& context) {
  const std::int64_t width = args.kv.extent(1);
  BALEEN_CHECK_EQ(width % 16, 0);  // whole vectors of any instruction set
  for_row_blocks(context.pool, args.kv.extent(0), 2 * width,
                 [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
                   for (std::int64_t row = begin; row < end; ++row) {
                     const SequenceSlice& slice = args.batch.slice_of(row);
                     if (entry_of_row(slice, row, args.ratio) < 0) {
                       std::ranges::fill(args.latent.row(row), 0.0F);
                     } else {
                       HWY_DYNAMIC_DISPATCH(make_latent_simd)(args, slice, row);
                     }
                   }
                 });
  for (const SequenceSlice& slice : args.batch.slices) keep_pairs(args, slice);
}

}  // namespace baleen
#endif  // HWY_ONCE
