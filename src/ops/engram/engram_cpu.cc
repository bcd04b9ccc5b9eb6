#include "numeric/simd_targets.h"
#include "ops/engram/engram.h"
#include "ops/operation/row_blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/engram/engram_cpu.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "numeric/normalise-inl.h"
#include "numeric/rounding-inl.h"
#include "numeric/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

namespace engram_rows {

template <class D>
HWY_INLINE hn::Vec<D> load_bf16(D d, const Bf16Bits* from) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<std::uint16_t, D> half;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(half, from))));
}

/// How well `key` fits the stream `x`.
HWY_INLINE float fit(const float* x, const Bf16Bits* q, const Bf16Bits* k, const float* key, float eps,
                     std::int64_t width) {
  const float sum = sum_over_vectors(width, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto weighted = hn::Mul(hn::Mul(hn::LoadU(d, x + i), load_bf16(d, q + i)), load_bf16(d, k + i));
    return hn::Mul(weighted, hn::LoadU(d, key + i));
  });
  return sum * inverse_rms_simd(x, width, eps) * inverse_rms_simd(key, width, eps) /
         std::sqrt(static_cast<float>(width));
}

}  // namespace engram_rows

void add_engram_rows(const EngramArgs& args, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = args.num_streams(), width = args.width();
  const bool round = args.precision != Precision::kExact;
  for (std::int64_t row = begin; row < end; ++row) {
    if (args.tokens[static_cast<std::size_t>(row)] == args.image_token) continue;
    const View<float, 2> streams = args.streams[row];
    const float* const projected = args.projected.row(row).data();
    const float* const value = projected + n * width;
    for (std::int64_t s = 0; s < n; ++s) {
      float* const x = streams.row(s).data();
      const float gate =
          engram_gate(engram_rows::fit(x, args.q_weight.row(s).data(), args.k_weight.row(s).data(),
                                       projected + s * width, args.eps, width));
      for_each_vector(width, [&](auto d, std::int64_t i) HWY_ATTR {
        const auto added = hn::Mul(hn::Set(d, gate), hn::LoadU(d, value + i));
        const auto sum = hn::Add(hn::LoadU(d, x + i), added);
        hn::StoreU(round ? round_bf16_simd(d, sum) : sum, d, x + i);
      });
    }
  }
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {

HWY_EXPORT(add_engram_rows);

void engram_cpu(const EngramArgs& args, CpuContext& context) {
  for_row_blocks(context.pool, args.streams.extent(0), args.num_streams() * args.width(),
                 [&](std::int64_t begin, std::int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(add_engram_rows)(args, begin, end);
                 });
}

}  // namespace baleen
#endif  // HWY_ONCE
