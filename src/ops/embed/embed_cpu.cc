#include "numeric/simd_targets.h"
#include "ops/embed/embed.h"
#include "ops/operation/row_blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/embed/embed_cpu.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "numeric/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

void embed_rows(const EmbedArgs& args, std::int64_t begin, std::int64_t end) {
  for (std::int64_t t = begin; t < end; ++t) {
    const Bf16Bits* from = args.table.row(args.tokens[static_cast<std::size_t>(t)]).data();
    const View<float, 2> out = args.out[t];
    for_each_vector(out.extent(1), [&](auto d, std::int64_t i) HWY_ATTR {
      const hn::RebindToUnsigned<decltype(d)> du;
      const hn::Rebind<std::uint16_t, decltype(d)> half;
      const auto bits = hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(half, from + i)));
      for (std::int64_t s = 0; s < out.extent(0); ++s) {
        hn::StoreU(hn::BitCast(d, bits), d, out.data() + s * out.stride(0) + i);
      }
    });
  }
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {

HWY_EXPORT(embed_rows);

void embed_cpu(const EmbedArgs& args, CpuContext& context) {
  for_row_blocks(context.pool, args.out.extent(0), args.out.extent(1) * args.out.extent(2),
                 [&](std::int64_t begin, std::int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(embed_rows)(args, begin, end);
                 });
}

}  // namespace baleen
#endif  // HWY_ONCE
