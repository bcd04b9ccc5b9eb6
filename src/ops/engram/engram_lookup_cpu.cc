#include "numeric/simd_targets.h"
#include "ops/engram/engram_lookup.h"
#include "ops/operation/row_blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/engram/engram_lookup_cpu.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "numeric/e8m0.h"
#include "numeric/rounding-inl.h"
#include "numeric/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

namespace engram_codes {

/// Values of e4m3 codes. No operand is a subnormal float32, which processors take long for.
template <class D>
HWY_INLINE hn::Vec<D> decode_e4m3(D d, const std::uint8_t* from) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<std::uint8_t, D> bytes;
  const auto code = hn::PromoteTo(di, hn::LoadU(bytes, from));
  const auto magnitude = hn::And(code, hn::Set(di, 0x7F));
  // Exponents count from -7 here and from -127 in float32; a subnormal is a multiple of 2^-9.
  const auto normal = hn::BitCast(d, hn::Add(hn::ShiftLeft<20>(magnitude), hn::Set(di, 120 << 23)));
  const auto subnormal = hn::Mul(hn::ConvertTo(d, magnitude), hn::Set(d, 0x1p-9F));
  const auto is_normal = hn::RebindMask(d, hn::Gt(magnitude, hn::Set(di, 7)));
  const auto is_nan = hn::RebindMask(d, hn::Eq(magnitude, hn::Set(di, 0x7F)));
  const auto sign = hn::BitCast(d, hn::ShiftLeft<24>(hn::And(code, hn::Set(di, 0x80))));
  const auto value = hn::Or(hn::IfThenElse(is_normal, normal, subnormal), sign);
  return hn::IfThenElse(is_nan, hn::BitCast(d, hn::Set(di, 0x7FC00000)), value);
}

}  // namespace engram_codes

void look_up_rows(const EngramLookupArgs& args, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = args.codes.extent(1);
  for (std::int64_t r = begin; r < end; ++r) {
    float* to = args.z.row(r).data();
    for (const std::int64_t row : args.rows.row(r)) {
      const std::uint8_t* const codes = args.codes.row(row).data();
      const std::uint8_t* const scales = args.scales.row(row).data();
      for (std::int64_t group = 0; group < args.scales.extent(1); ++group) {
        const std::int64_t first = group * kEngramScaleColumns;
        const float scale = e8m0_to_float(scales[group]);
        for_each_vector(HWY_MIN(kEngramScaleColumns, width - first), [&](auto d, std::int64_t i) HWY_ATTR {
          const auto value = hn::Mul(engram_codes::decode_e4m3(d, codes + first + i), hn::Set(d, scale));
          hn::StoreU(round_bf16_simd(d, value), d, to + first + i);
        });
      }
      to += width;
    }
  }
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {

HWY_EXPORT(look_up_rows);

void engram_lookup_cpu(const EngramLookupArgs& args, CpuContext& context) {
  for_row_blocks(context.pool, args.rows.extent(0), args.z.extent(1),
                 [&](std::int64_t begin, std::int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(look_up_rows)(args, begin, end);
                 });
}

}  // namespace baleen
#endif  // HWY_ONCE
