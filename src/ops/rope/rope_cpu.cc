#include "numeric/simd_targets.h"
#include "ops/operation/row_blocks.h"
#include "ops/rope/rope.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rope/rope_cpu.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "numeric/rounding-inl.h"
#include "numeric/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {
namespace {

/// kFused: one of a sum's two products is not rounded.
template <bool kInverse, bool kRound, bool kFused>
void rotate_head(float* values, const float* cosine, const float* sine, std::int64_t num_pairs) {
  for_each_vector(num_pairs, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto c = hn::LoadU(d, cosine + i);
    const auto s = kInverse ? hn::Neg(hn::LoadU(d, sine + i)) : hn::LoadU(d, sine + i);
    hn::Vec<decltype(d)> a;
    hn::Vec<decltype(d)> b;
    hn::LoadInterleaved2(d, values + 2 * i, a, b);
    hn::Vec<decltype(d)> even;
    hn::Vec<decltype(d)> odd;
    if constexpr (kFused) {
      even = hn::MulSub(a, c, hn::Mul(b, s));
      odd = hn::MulAdd(a, s, hn::Mul(b, c));
    } else {
      even = hn::Sub(hn::Mul(a, c), hn::Mul(b, s));
      odd = hn::Add(hn::Mul(a, s), hn::Mul(b, c));
    }
    if constexpr (kRound) {
      even = round_bf16_simd(d, even);
      odd = round_bf16_simd(d, odd);
    }
    hn::StoreInterleaved2(even, odd, d, values + 2 * i);
  });
}

template <bool kFused>
void rotate_rows(const RopeArgs& args, std::int64_t begin, std::int64_t end) {
  const std::int64_t num_pairs = args.cosine.extent(1);
  const std::int64_t first = args.x.extent(2) - 2 * num_pairs;
  const bool round = args.precision != Precision::kExact;
  const auto rotate = args.inverse
                          ? (round ? rotate_head<true, true, kFused> : rotate_head<true, false, kFused>)
                          : (round ? rotate_head<false, true, kFused> : rotate_head<false, false, kFused>);
  for (std::int64_t t = begin; t < end; ++t) {
    const View<float, 2> heads = args.x[t];
    for (std::int64_t head = 0; head < heads.extent(0); ++head) {
      rotate(heads.row(head).data() + first, args.cosine.row(t).data(), args.sine.row(t).data(), num_pairs);
    }
  }
}

}  // namespace

void rope_rows(const RopeArgs& args, std::int64_t begin, std::int64_t end) {
  rotate_rows<true>(args, begin, end);
}
void rope_rows_training(const RopeArgs& args, std::int64_t begin, std::int64_t end) {
  rotate_rows<false>(args, begin, end);
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {

HWY_EXPORT(rope_rows);
HWY_EXPORT(rope_rows_training);

namespace {

template <class Rows>
void for_rows(const RopeArgs& args, CpuContext& context, const Rows& rows) {
  for_row_blocks(context.pool, args.x.extent(0), 2 * args.cosine.extent(1) * args.x.extent(1),
                 [&](std::int64_t begin, std::int64_t end, int) { rows(args, begin, end); });
}

}  // namespace

void rope_cpu(const RopeArgs& args, CpuContext& context) {
  for_rows(args, context, HWY_DYNAMIC_DISPATCH(rope_rows));
}
void rope_training(const RopeArgs& args, CpuContext& context) {
  for_rows(args, context, HWY_DYNAMIC_DISPATCH(rope_rows_training));
}

}  // namespace baleen
#endif  // HWY_ONCE
