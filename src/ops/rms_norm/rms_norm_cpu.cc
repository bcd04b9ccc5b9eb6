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

float InverseRmsStepByStep(const float* x, std::int64_t width, float eps) {
  const float sum = SumOverVectors(width, [x](auto d, std::int64_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, x + i);
    return RoundBf16(d, hn::Mul(v, v));
  });
  const float mean = round_bf16(sum / static_cast<float>(width));
  return round_bf16(1.0F / std::sqrt(round_bf16(mean + eps)));
}

}  // namespace

void RmsNormRows(const RmsNormArgs& args, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = args.x.extent(1);
  const bool round = args.precision != Precision::kExact;
  for (std::int64_t row = begin; row < end; ++row) {
    const float* x = args.x.row(row).data();
    float* y = args.y.row(row).data();
    if (!args.weight.empty()) {
      NormaliseRow(x, args.weight.data(), args.eps, round, width, y);
    } else if (round) {
      ScaleRow<false, true>(x, nullptr, InverseRmsStepByStep(x, width, args.eps), width, y);
    } else {
      ScaleRow<false, false>(x, nullptr, InverseRms(x, width, args.eps), width, y);
    }
  }
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {

HWY_EXPORT(RmsNormRows);

void rms_norm_cpu(const RmsNormArgs& args, CpuContext& context) {
  for_row_blocks(context.pool, args.x.extent(0), args.x.extent(1),
                 [&](std::int64_t begin, std::int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(RmsNormRows)(args, begin, end);
                 });
}

}  // namespace baleen
#endif  // HWY_ONCE
