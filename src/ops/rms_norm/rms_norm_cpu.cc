#include <cmath>

#include "numeric/bf16.h"
#include "numeric/simd_targets.h"
#include "ops/operation/row_blocks.h"
#include "ops/rms_norm/rms_norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rms_norm/rms_norm_cpu.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "numeric/normalise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {
namespace {

float inverse_rms_step_by_step(const float* x, std::int64_t width, float eps) {
  const float sum = sum_over_vectors(width, [x](auto d, std::int64_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, x + i);
    return round_bf16_simd(d, hn::Mul(v, v));
  });
  const float mean = round_bf16(sum / static_cast<float>(width));
  return round_bf16(1.0F / std::sqrt(round_bf16(mean + eps)));
}

}  // namespace

void rms_norm_rows(const RmsNormArgs& args, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = args.x.extent(1);
  const bool round = args.precision != Precision::kExact;
  for (std::int64_t row = begin; row < end; ++row) {
    const float* x = args.x.row(row).data();
    float* y = args.y.row(row).data();
    if (!args.weight.empty()) {
      normalise_row(x, args.weight.data(), args.eps, round, width, y);
    } else if (round) {
      scale_row<false, true>(x, nullptr, inverse_rms_step_by_step(x, width, args.eps), width, y);
    } else {
      scale_row<false, false>(x, nullptr, inverse_rms_simd(x, width, args.eps), width, y);
    }
  }
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {

HWY_EXPORT(rms_norm_rows);

void rms_norm_cpu(const RmsNormArgs& args, CpuContext& context) {
  for_row_blocks(context.pool, args.x.extent(0), args.x.extent(1),
                 [&](std::int64_t begin, std::int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(rms_norm_rows)(args, begin, end);
                 });
}

}  // namespace baleen
#endif  // HWY_ONCE
