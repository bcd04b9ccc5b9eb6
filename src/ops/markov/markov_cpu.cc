// SIMD form of the Markov head. A thread takes rows of w2, eight at a time, which stay in the first-level
// cache while rows of logits pass. An output has a vector accumulator that takes its products in ascending j,
// and whose lanes are added at the end: the same however outputs are shared out.

#include "numeric/simd_targets.h"
#include "ops/markov/markov.h"
#include "ops/operation/row_blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/markov/markov_cpu.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "numeric/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {
namespace {

using FloatTag = hn::CappedTag<float, 8>;  // whose lanes divide the rank
using FloatVec = hn::Vec<FloatTag>;

/// Values that lie at any address.
HWY_INLINE FloatVec load_bf16(const std::byte* from) {
  const FloatTag d;
  const hn::RebindToUnsigned<FloatTag> words;
  const hn::Rebind<std::uint16_t, FloatTag> halves;
  const hn::Repartition<std::uint8_t, decltype(halves)> bytes;
  const auto codes = hn::BitCast(halves, hn::LoadU(bytes, reinterpret_cast<const std::uint8_t*>(from)));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(words, codes)));
}

/// logits[i] += term times row i of `weights`, for kOutputs rows.
template <int kOutputs>
HWY_INLINE void add_products(const std::byte* term, const std::byte* weights, std::int64_t rank,
                             float* logits) {
  const FloatTag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  FloatVec sums[kOutputs];
  for (FloatVec& sum : sums) sum = hn::Zero(d);
  for (std::int64_t j = 0; j < rank; j += lanes) {
    const FloatVec x = load_bf16(term + 2 * j);
    for (int i = 0; i < kOutputs; ++i)
      sums[i] = hn::MulAdd(x, load_bf16(weights + 2 * (i * rank + j)), sums[i]);
  }
  for (int i = 0; i < kOutputs; ++i) logits[i] += hn::GetLane(hn::SumOfLanes(d, sums[i]));
}

}  // namespace

/// Outputs [begin, end) of all rows.
void markov_outputs(const MarkovArgs& args, std::int64_t begin, std::int64_t end) {
  constexpr int kOutputs = 8;
  const std::int64_t rank = args.w1.extent(1);
  const auto for_each_row = [&](auto&& body) {
    for (std::int64_t row = 0; row < args.logits.extent(0); ++row) {
      const TokenId token = args.tokens[static_cast<std::size_t>(row)];
      body(reinterpret_cast<const std::byte*>(args.w1.row(token).data()), args.logits.row(row).data());
    }
  };
  for (; begin + kOutputs <= end; begin += kOutputs) {
    for_each_row([&](const std::byte* term, float* logits) {
      add_products<kOutputs>(term, args.w2->data + 2 * begin * rank, rank, logits + begin);
    });
  }
  for (; begin < end; ++begin) {
    for_each_row([&](const std::byte* term, float* logits) {
      add_products<1>(term, args.w2->data + 2 * begin * rank, rank, logits + begin);
    });
  }
}

void markov_confidence(const MarkovArgs& args, std::int64_t begin, std::int64_t end) {
  const std::int64_t rank = args.w1.extent(1), width = args.hidden.extent(1);
  const float* weight = args.confidence_weight.data();
  for (std::int64_t row = begin; row < end; ++row) {
    const FloatTag d;
    const float* hidden = args.hidden.row(row).data();
    const auto r = static_cast<std::size_t>(row);
    const auto* term = reinterpret_cast<const std::byte*>(args.w1.row(args.tokens[r]).data());
    const float of_hidden = sum_over_vectors(width, [&](auto tag, std::int64_t i) HWY_ATTR {
      return hn::Mul(hn::LoadU(tag, hidden + i), hn::LoadU(tag, weight + i));
    });
    FloatVec of_term = hn::Zero(d);
    for (std::int64_t j = 0; j < rank; j += static_cast<std::int64_t>(hn::Lanes(d)))
      of_term = hn::MulAdd(load_bf16(term + 2 * j), hn::LoadU(d, weight + width + j), of_term);
    args.confidence[r] = of_hidden + hn::GetLane(hn::SumOfLanes(d, of_term));
  }
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {

HWY_EXPORT(markov_outputs);
HWY_EXPORT(markov_confidence);

void markov_cpu(const MarkovArgs& args, CpuContext& context) {
  if (args.logits.extent(0) == 0) return;
  for_row_blocks(context.pool, args.w2->rows, args.w2->cols, [&](std::int64_t begin, std::int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(markov_outputs)(args, begin, end);
  });
  if (args.confidence_weight.empty()) return;
  for_row_blocks(context.pool, args.logits.extent(0), std::ssize(args.confidence_weight),
                 [&](std::int64_t begin, std::int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(markov_confidence)(args, begin, end);
                 });
}

}  // namespace baleen
#endif  // HWY_ONCE
