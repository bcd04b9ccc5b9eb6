#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "numeric/simd_targets.h"
#include "ops/hc_post/hc_post.h"
#include "ops/operation/row_blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/hc_post/hc_post_cpu.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "numeric/rounding-inl.h"
#include "numeric/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {
namespace {

// The old values of all streams over one range of columns, in the first-level cache while the new ones
// overwrite them.
constexpr std::int64_t kOldValues = 1024;

/// Columns [begin, begin + count) of token t.
void post_columns(const HcPostArgs& args, std::int64_t t, std::int64_t begin, std::int64_t count) {
  const View<float, 2> streams = args.streams[t];
  const View<const float, 2> entering = args.entering()[t];
  const std::int64_t n = streams.extent(0);
  const bool round = args.precision != Precision::kExact;
  const float* f = args.f.row(t).data() + begin;
  alignas(64) float old[kOldValues];
  for (std::int64_t j = 0; j < n; ++j) {
    std::memcpy(old + j * count, entering.row(j).data() + begin,
                static_cast<std::size_t>(count) * sizeof(float));
  }
  for (std::int64_t k = 0; k < n; ++k) {
    float* to = streams.row(k).data() + begin;
    const float post = args.post(t, k);
    const float* comb = &args.comb(t, 0, k);
    for_each_vector(count, [&](auto d, std::int64_t i) HWY_ATTR {
      auto sum = hn::Mul(hn::Set(d, post), hn::LoadU(d, f + i));
      for (std::int64_t j = 0; j < n; ++j) {
        sum = hn::MulAdd(hn::Set(d, comb[j * args.comb.stride(1)]), hn::LoadU(d, old + j * count + i), sum);
      }
      hn::StoreU(round ? round_bf16_simd(d, sum) : sum, d, to + i);
    });
  }
}

}  // namespace

void hc_post_rows(const HcPostArgs& args, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = args.streams.extent(2);
  const std::int64_t range = kOldValues / args.streams.extent(1) / 16 * 16;
  for (std::int64_t t = begin; t < end; ++t) {
    for (std::int64_t i = 0; i < width; i += range) post_columns(args, t, i, std::min(range, width - i));
  }
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {

HWY_EXPORT(hc_post_rows);

void hc_post_cpu(const HcPostArgs& args, CpuContext& context) {
  BALEEN_CHECK_LE(args.streams.extent(1), 64);
  for_row_blocks(context.pool, args.streams.extent(0), args.streams.extent(1) * args.streams.extent(2),
                 [&](std::int64_t begin, std::int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(hc_post_rows)(args, begin, end);
                 });
}

}  // namespace baleen
#endif  // HWY_ONCE
