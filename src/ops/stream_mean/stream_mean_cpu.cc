#include "numeric/simd_targets.h"
#include "ops/operation/row_blocks.h"
#include "ops/stream_mean/stream_mean.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/stream_mean/stream_mean_cpu.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "numeric/rounding-inl.h"
#include "numeric/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

void mean_of_rows(const StreamMeanArgs& args, std::int64_t begin, std::int64_t end) {
  const std::int64_t num_streams = args.streams.extent(1);
  const float share = 1.0F / static_cast<float>(num_streams);
  const bool round = args.precision != Precision::kExact;
  for (std::int64_t row = begin; row < end; ++row) {
    const View<const float, 2> streams = args.streams[row];
    float* to = args.out.row(row).data() + args.first_column;
    for_each_vector(streams.extent(1), [&](auto d, std::int64_t i) HWY_ATTR {
      auto sum = hn::Zero(d);
      for (std::int64_t stream = 0; stream < num_streams; ++stream) {
        sum = hn::Add(sum, hn::LoadU(d, streams.data() + stream * streams.stride(0) + i));
      }
      const auto mean = hn::Mul(sum, hn::Set(d, share));
      hn::StoreU(round ? round_bf16_simd(d, mean) : mean, d, to + i);
    });
  }
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {

HWY_EXPORT(mean_of_rows);

void stream_mean_cpu(const StreamMeanArgs& args, CpuContext& context) {
  for_row_blocks(context.pool, args.streams.extent(0), args.streams.extent(1) * args.streams.extent(2),
                 [&](std::int64_t begin, std::int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(mean_of_rows)(args, begin, end);
                 });
}

}  // namespace baleen
#endif  // HWY_ONCE
