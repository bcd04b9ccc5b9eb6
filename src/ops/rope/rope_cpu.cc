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

template <bool kInverse, bool kRound>
void rotate_head(float* values, const float* cosine, const float* sine, std::int64_t num_pairs) {
  for_each_vector(num_pairs, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto c = hn::LoadU(d, cosine + i);
    const auto s = kInverse ? hn::Neg(hn::LoadU(d, sine + i)) : hn::LoadU(d, sine + i);
    hn::Vec<decltype(d)> a;
    hn::Vec<decltype(d)> b;
    hn::LoadInterleaved2(d, values + 2 * i, a, b);
    auto even = hn::MulSub(a, c, hn::Mul(b, s));
    auto odd = hn::MulAdd(a, s, hn::Mul(b, c));
    if constexpr (kRound) {
      even = round_bf16_simd(d, even);
      odd = round_bf16_simd(d, odd);
    }
    hn::StoreInterleaved2(even, odd, d, values + 2 * i);
  });
}

}  // namespace

void rope_rows(const RopeArgs& args, std::int64_t begin, std::int64_t end) {
  const std::int64_t num_pairs = args.cosine.extent(1);
  const std::int64_t first = args.x.extent(2) - 2 * num_pairs;
  const bool round = args.precision != Precision::kExact;
  const auto turn = args.inverse ? (round ? rotate_head<true, true> : rotate_head<true, false>)
                                 : (round ? rotate_head<false, true> : rotate_head<false, false>);
  for (std::int64_t t = begin; t < end; ++t) {
    const View<float, 2> heads = args.x[t];
    for (std::int64_t head = 0; head < heads.extent(0); ++head) {
      turn(heads.row(head).data() + first, args.cosine.row(t).data(), args.sine.row(t).data(), num_pairs);
    }
  }
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {

HWY_EXPORT(rope_rows);

void rope_cpu(const RopeArgs& args, CpuContext& context) {
  for_row_blocks(context.pool, args.x.extent(0), 2 * args.cosine.extent(1) * args.x.extent(1),
                 [&](std::int64_t begin, std::int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(rope_rows)(args, begin, end);
                 });
}

}  // namespace baleen
#endif  // HWY_ONCE
