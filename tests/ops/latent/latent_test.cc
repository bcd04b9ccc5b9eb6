// Latents: by hand, SIMD against the reference, and that neither chunks, threads nor batch composition show
// in them.
#include "ops/latent/latent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "numeric/bf16.h"
#include "tests/support/compare.h"
#include "tests/support/every_target.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cpu.h"

namespace baleen {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// A layer's rings for several sequences; what was never written reads as NaN.
class Layer {
 public:
  Layer(int ratio, std::int64_t width, Precision precision, std::int64_t ring_rows = 2)
      : weight(static_cast<std::size_t>(width), 1.0F),
        ratio_(ratio),
        width_(width),
        ring_rows_(ring_rows),
        precision_(precision),
        state_(static_cast<std::size_t>(2 * 2 * ring_rows * width), kNaN) {}

  struct Part {
    SequenceSlice slice;  ///< first_row and num_tokens are filled in by `step`
    std::span<const float> kv, gate;
  };

  std::vector<float> step(std::vector<Part> parts, int num_threads = 1, test::Kernels kernels = test::kBest) {
    std::vector<float> kv, gate;
    std::vector<SequenceSlice> slices;
    for (Part& part : parts) {
      part.slice.first_row = std::ssize(kv) / width_;
      part.slice.num_tokens = std::ssize(part.kv) / width_;
      slices.push_back(part.slice);
      kv.insert(kv.end(), part.kv.begin(), part.kv.end());
      gate.insert(gate.end(), part.gate.begin(), part.gate.end());
    }
    const std::int64_t num_rows = std::ssize(kv) / width_;
    const std::vector<TokenId> tokens(static_cast<std::size_t>(num_rows));
    std::vector<float> latent(kv.size(), kNaN);
    LatentArgs args{.kv = {kv.data(), {num_rows, width_}},
                    .norm_weight = weight,
                    .ratio = ratio_,
                    .precision = precision_,
                    .batch = {tokens, slices},
                    .latent = {latent.data(), {num_rows, width_}}};
    if (ratio_ == 2) {
      args.gate = {gate.data(), {num_rows, width_}};
      args.state = {state_.data(), 2 * ring_rows_ * width_, ring_rows_, width_};
    }
    test::TestCpu cpu(num_threads, 0, kernels);
    cpu.run<ops::Latent>(args);
    return latent;
  }

  std::vector<float> weight;

 private:
  int ratio_;
  std::int64_t width_, ring_rows_;
  Precision precision_;
  std::vector<float> state_;
};

SequenceSlice at(std::int64_t start, std::int32_t slot = 0) { return {0, 0, start, {}, {}, slot}; }

/// y / rms(y)
std::vector<float> normalised(std::vector<float> y) {
  double squares = 0;
  for (const float value : y) squares += static_cast<double>(value) * value;
  for (float& value : y)
    value = static_cast<float>(value / std::sqrt(squares / static_cast<double>(y.size())));
  return y;
}

std::span<const float> row(const std::vector<float>& all, std::size_t index, std::size_t width) {
  return std::span(all).subspan(index * width, width);
}

class LatentByHand : public testing::TestWithParam<test::Kernels> {};

TEST_P(LatentByHand, EqualGatesGiveTheMeanAndOtherRowsAreZeros) {
  Layer layer(2, 16, Precision::kExact);
  const std::vector<float> kv = test::random_values(5 * 16, 1), gate(5 * 16, 0.75F);
  const std::vector<float> got = layer.step({{at(0), kv, gate}}, 1, GetParam());
  for (std::size_t t = 1; t < 5; t += 2) {
    std::vector<float> mean(16);
    for (std::size_t i = 0; i < 16; ++i) mean[i] = (kv[(t - 1) * 16 + i] + kv[t * 16 + i]) / 2;
    EXPECT_CLOSE(row(got, t, 16), normalised(mean), {.norm = 1e-6});
  }
  const std::vector<float> zeros(16, 0.0F);
  for (const std::size_t t : {0, 2, 4}) EXPECT_SAME_BITS(row(got, t, 16), zeros);
}

TEST_P(LatentByHand, EachChannelHasItsOwnSoftmax) {
  Layer layer(2, 16, Precision::kExact);
  const std::vector<float> kv = test::random_values(2 * 16, 1);
  std::vector<float> gate(2 * 16, 0.0F);
  for (std::size_t i = 0; i < 16; ++i) gate[i] = i % 2 == 0 ? 200.0F : -200.0F;
  std::vector<float> want(16);
  for (std::size_t i = 0; i < 16; ++i) want[i] = i % 2 == 0 ? kv[i] : kv[16 + i];
  EXPECT_CLOSE(row(layer.step({{at(0), kv, gate}}, 1, GetParam()), 1, 16), normalised(want), {.norm = 1e-6});
  // One channel's weights: e^0.5 to 1.
  gate.assign(gate.size(), 0.0F);
  std::fill_n(gate.begin(), 16, 0.5F);
  const float first = std::exp(0.5F) / (std::exp(0.5F) + 1);
  for (std::size_t i = 0; i < 16; ++i) want[i] = first * kv[i] + (1 - first) * kv[16 + i];
  EXPECT_CLOSE(row(layer.step({{at(0), kv, gate}}, 1, GetParam()), 1, 16), normalised(want), {.norm = 1e-6});
}

TEST_P(LatentByHand, AtRatioOneItIsTheNormOfTheTokensOwn) {
  Layer layer(1, 16, Precision::kExact);
  layer.weight = test::random_values(16, 5);
  const std::vector<float> kv = test::random_values(3 * 16, 1);
  const std::vector<float> got = layer.step({{at(7), kv, {}}}, 1, GetParam());
  for (std::size_t t = 0; t < 3; ++t) {
    std::vector<float> want = normalised({kv.begin() + static_cast<std::ptrdiff_t>(t * 16),
                                          kv.begin() + static_cast<std::ptrdiff_t>(t * 16 + 16)});
    for (std::size_t i = 0; i < 16; ++i) want[i] *= layer.weight[i];
    EXPECT_CLOSE(row(got, t, 16), want, {.norm = 1e-6});
  }
}

/// 1.004 is 1.0078125 in BF16, which the norm makes 1.0073 and BF16 1.0078125 again. If it were rounded
/// behind the norm alone it would be 1.0037, and in BF16 1.
TEST_P(LatentByHand, TheValueIsRoundedBeforeTheNorm) {
  std::vector<float> kv(2 * 16, 1.0F);
  kv[0] = kv[16] = 1.004F;
  const std::vector<float> gate(2 * 16, 0.0F);
  Layer layer(2, 16, Precision::kReleased);
  EXPECT_EQ(layer.step({{at(0), kv, gate}}, 1, GetParam())[16], 1.0078125F);
  Layer exact(2, 16, Precision::kExact);
  EXPECT_NEAR(exact.step({{at(0), kv, gate}}, 1, GetParam())[16], 1.00375, 1e-5);
}

TEST_P(LatentByHand, TheNormHasNoEpsilonToSpeakOf) {
  for (const int ratio : {1, 2}) {
    Layer layer(ratio, 64, Precision::kExact);
    std::vector<float> kv = test::random_values(2 * 64, 1);
    const std::vector<float> gate = test::random_values(2 * 64, 2);
    const std::vector<float> want = layer.step({{at(0), kv, gate}}, 1, GetParam());
    for (float& value : kv) value *= 0x1p-20F;
    EXPECT_CLOSE(layer.step({{at(0), kv, gate}}, 1, GetParam()), want, {.norm = 1e-6});
    // Of zeros it makes zeros.
    std::ranges::fill(kv, 0.0F);
    EXPECT_SAME_BITS(row(layer.step({{at(0), kv, gate}}, 1, GetParam()), 1, 64),
                     std::vector<float>(64, 0.0F));
  }
}

TEST_P(LatentByHand, LatentsOfEntriesThatExistAreLeftOut) {
  for (const int ratio : {1, 2}) {
    Layer layer(ratio, 16, Precision::kExact);
    const std::vector<float> kv = test::random_values(8 * 16, 1), gate = test::random_values(8 * 16, 2);
    SequenceSlice replayed = at(252);
    replayed.entries_until = 256;
    const std::vector<float> got = layer.step({{replayed, kv, gate}}, 1, GetParam());
    for (std::size_t t = 0; t < 8; ++t) {
      const bool made = t >= 4 && (t + 1) % static_cast<std::size_t>(ratio) == 0;
      EXPECT_EQ(got[t * 16] != 0.0F, made) << "ratio " << ratio << ", row " << t;
    }
  }
}

TEST_P(LatentByHand, NaNStaysVisible) {
  for (const bool in_gate : {false, true}) {
    Layer layer(2, 16, Precision::kReleased);
    std::vector<float> kv = test::random_values(2 * 16, 1), gate = test::random_values(2 * 16, 2);
    (in_gate ? gate : kv)[5] = kNaN;
    EXPECT_TRUE(std::isnan(layer.step({{at(0), kv, gate}}, 1, GetParam())[16 + 5]));
  }
}

/// A step of drafts that is taken back has not lost the token that waits for its pair.
TEST_P(LatentByHand, DraftsThatAreTakenBackLeaveThePendingToken) {
  constexpr std::int64_t kWidth = 16, kRing = 6;  // two and four drafts
  const std::vector<float> kv = test::random_values(12 * 16, 1), gate = test::random_values(12 * 16, 2);
  const auto part = [&](const std::vector<float>& all, std::size_t begin, std::size_t end) {
    return std::span(all).subspan(begin * 16, (end - begin) * 16);
  };
  Layer whole(2, kWidth, Precision::kReleased);
  const std::vector<float> want = whole.step({{at(0), kv, gate}}, 1, GetParam());
  Layer layer(2, kWidth, Precision::kReleased, kRing);
  layer.step({{at(0), part(kv, 0, 5), part(gate, 0, 5)}}, 1, GetParam());
  const std::vector<float> drafts = test::random_values(4 * 16, 3);
  layer.step({{at(5), drafts, drafts}}, 1, GetParam());
  const std::vector<float> got = layer.step({{at(5), part(kv, 5, 12), part(gate, 5, 12)}}, 1, GetParam());
  EXPECT_SAME_BITS(got, part(want, 5, 12));
}

INSTANTIATE_TEST_SUITE_P(BothKernels, LatentByHand, testing::Values(test::kReference, test::kBest));

class LatentSimd : public test::EveryTarget {};

TEST_P(LatentSimd, AgreesWithTheReference) {
  for (const Precision precision : {Precision::kExact, Precision::kBf16, Precision::kReleased}) {
    // BF16 rounds the other way here and there.
    const double norm = precision == Precision::kExact ? 1e-6 : 3e-4;
    for (const int ratio : {1, 2}) {
      for (const std::int64_t width : {16, 64, 512}) {
        for (const std::int64_t start : {0, 1, 254, 255}) {
          constexpr std::int64_t kTokens = 9;
          const auto size = static_cast<std::size_t>(kTokens * width);
          std::vector<float> kv = test::random_values(size, 3);
          if (ratio == 1 && precision != Precision::kExact)
            std::ranges::transform(kv, kv.begin(), round_bf16);
          const std::vector<float> gate = test::random_values(size, 4, 4.0F);
          Layer got(ratio, width, precision), want(ratio, width, precision);
          got.weight = want.weight = test::random_values(static_cast<std::size_t>(width), 5);
          if (start % 2 == 1) {  // the token before it is pending
            const auto first = std::span(gate).first(static_cast<std::size_t>(width));
            got.step({{at(start - 1), first, first}});
            want.step({{at(start - 1), first, first}});
          }
          EXPECT_CLOSE(got.step({{at(start), kv, gate}}, 2),
                       want.step({{at(start), kv, gate}}, 1, test::kReference), {.norm = norm})
              << precision_name(precision) << ", ratio " << ratio << ", width " << width << ", start "
              << start;
        }
      }
    }
  }
}

TEST_P(LatentSimd, ChunksThreadsAndBatchCompositionDoNotShow) {
  constexpr std::size_t kWidth = 64, kTokens = 61;
  const std::vector<float> kv = test::random_values(kTokens * kWidth, 1),
                           gate = test::random_values(kTokens * kWidth, 2, 4.0F);
  for (const int ratio : {1, 2}) {
    Layer layer(ratio, kWidth, Precision::kReleased);
    const std::vector<float> want = layer.step({{at(0), kv, gate}});
    for (const std::vector<std::size_t>& pieces :
         {std::vector<std::size_t>{1}, {3, 1, 2}, {60}, {7, 16, 1}}) {
      Layer cut(ratio, kWidth, Precision::kReleased);
      std::vector<float> got;
      std::size_t round = 0;
      for (std::size_t begin = 0; begin < kTokens; ++round) {
        const std::size_t count = std::min(pieces[round % pieces.size()], kTokens - begin);
        const auto part = [&](const std::vector<float>& all) {
          return std::span(all).subspan(begin * kWidth, count * kWidth);
        };
        // Beside another sequence, of three tokens a step.
        const auto other = std::span(gate).first(3 * kWidth);
        const std::vector<float> both =
            cut.step({{at(static_cast<std::int64_t>(3 * round), 0), other, other},
                      {at(static_cast<std::int64_t>(begin), 1), part(kv), part(gate)}},
                     1 + static_cast<int>(round % 3));
        got.insert(got.end(), both.begin() + 3 * kWidth, both.end());
        begin += count;
      }
      EXPECT_SAME_BITS(got, want) << "ratio " << ratio;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, LatentSimd, testing::ValuesIn(test::compiled_targets()),
                         test::target_name);

}  // namespace
}  // namespace baleen
