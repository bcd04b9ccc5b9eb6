// What n-grams add to the streams: NumPy's values, signs of zeros, vectors against the reference, image
// tokens, rows by themselves, and the cost.
#include "ops/engram/engram.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/compare.h"
#include "tests/support/engram_problem.h"
#include "tests/support/every_target.h"
#include "tests/support/test_cpu.h"
#include "tests/support/unread_arrays.h"

namespace baleen {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// 1 / (1 + exp(-copysign(sqrt(maximum(abs(a), 1e-6)), a))) in NumPy, in float32.
TEST(EngramGate, NumPysValues) {
  const struct {
    float fit, gate;
  } cases[] = {
      {0.0F, 0x1.0020c4p-1F},
      {-0.0F, 0x1.ffbe78p-2F},
      {1e-7F, 0x1.0020c4p-1F},
      {-1e-7F, 0x1.ffbe78p-2F},
      {1e-6F, 0x1.0020c4p-1F},
      {-2.5e-6F, 0x1.ff9860p-2F},
      {0.25F, 0x1.3eb2fep-1F},
      {-0.25F, 0x1.829a06p-2F},
      {1.0F, 0x1.764d50p-1F},
      {-4.0F, 0x1.e84156p-4F},
      {100.0F, 0x1.fffa0cp-1F},
      {-100.0F, 0x1.7cd32ep-15F},
      {3e38F, 1.0F},
      {-3e38F, 0.0F},
      {kInf, 1.0F},
      {-kInf, 0.0F},
  };
  for (const auto& c : cases) EXPECT_NEAR(engram_gate(c.fit), c.gate, 2e-7F * c.gate) << c.fit;
  EXPECT_TRUE(std::isnan(engram_gate(std::nanf(""))));
}

class Engram : public test::EveryTarget {};

/// In NumPy: two rows, the second with a stream of zeros and one of large values with a large key.
struct NumPysRows {
  std::vector<float> streams{
      -3.6875F,   0.80078125F, -0.0207519531F, 1.5078125F, -3.984375F, 3.328125F,   0.28125F,   -3.515625F,
      -4.0625F,   -3.921875F,  -2.15625F,      3.5625F,    2.6875F,    -1.6328125F, -1.640625F, 5.78125F,
      0.0F,       0.0F,        0.0F,           0.0F,       0.0F,       0.0F,        0.0F,       0.0F,
      1785856.0F, 2457600.0F,  -1982464.0F,    -696320.0F, 6193152.0F, -585728.0F,  94208.0F,   1384448.0F};
  std::vector<float> projected{
      -0.578125F,   -0.390625F,   1.6796875F,       1.296875F,     -1.1015625F,  0.0649414062F,
      -1.2890625F,  -1.53125F,    0.00273132324F,   1.5234375F,    -0.08203125F, 1.46875F,
      -1.0546875F,  0.13671875F,  0.0810546875F,    0.0864257812F, 2.296875F,    1.703125F,
      2.859375F,    2.03125F,     0.515625F,        -0.8984375F,   -0.68359375F, -1.1875F,
      0.9921875F,   0.57421875F,  -0.55078125F,     -1.3515625F,   -0.5546875F,  -0.0206298828F,
      -0.55078125F, -1.5234375F,  -1.89582541e+09F, 872415232.0F,  274726912.0F, -629145600.0F,
      473956352.0F, 530579456.0F, -229638144.0F,    -459276288.0F, 0.130859375F, 0.41796875F,
      2.328125F,    2.6875F,      -0.0361328125F,   0.78125F,      -2.34375F,    -1.3515625F};
  std::vector<float> q{0.67578125F, 1.0390625F, 0.83984375F, 0.76953125F, 0.9921875F, 0.4375F,
                       0.96875F,    1.1328125F, 1.3671875F,  0.6484375F,  0.8671875F, 0.3828125F,
                       1.3984375F,  0.9375F,    1.0625F,     0.5390625F};
  std::vector<float> k{0.91796875F, 0.80859375F, 0.62890625F, 0.63671875F, 0.703125F, 0.7265625F,
                       0.4609375F,  1.3828125F,  0.9765625F,  1.015625F,   1.015625F, 0.90234375F,
                       0.9453125F,  1.125F,      0.8828125F,  1.34375F};
  std::vector<float> exact{
      -1.89839339F, 2.12739778F,  2.20650315F,   3.09001565F,  -3.58273888F, 2.62830448F, -0.251222193F,
      -4.44060516F, -3.3683393F,  -3.40715718F,  -1.29209065F, 4.1763835F,   2.84333205F, -1.904338F,
      -1.84722042F, 5.42236423F,  0.065462403F,  0.209088862F, 1.16464448F,  1.34442186F, -0.0180754382F,
      0.390820295F, -1.17246091F, -0.676119089F, 1785856.0F,   2457600.25F,  -1982463.0F, -696318.812F,
      6193152.0F,   -585727.688F, 94206.9688F,   1384447.38F};
  std::vector<float> released{
      -1.8984375F, 2.125F,     2.203125F,     3.09375F,     -3.578125F, 2.625F,      -0.251953125F,
      -4.4375F,    -3.375F,    -3.40625F,     -1.2890625F,  4.1875F,    2.84375F,    -1.90625F,
      -1.84375F,   5.4375F,    0.0654296875F, 0.208984375F, 1.1640625F, 1.34375F,    -0.0180664062F,
      0.390625F,   -1.171875F, -0.67578125F,  1785856.0F,   2457600.0F, -1982464.0F, -696320.0F,
      6193152.0F,  -585728.0F, 94208.0F,      1384448.0F};
};

std::vector<Bf16Bits> as_bf16(const std::vector<float>& values) {
  std::vector<Bf16Bits> bits;
  for (const float value : values) {
    EXPECT_EQ(round_bf16(value), value);
    bits.push_back(float_to_bf16(value));
  }
  return bits;
}

TEST_P(Engram, IsWhatNumPyComputes) {
  NumPysRows numpy;
  const std::vector<Bf16Bits> q = as_bf16(numpy.q), k = as_bf16(numpy.k);
  const std::vector<TokenId> tokens{5, 6};
  const std::vector<float> streams = numpy.streams;
  for (const Precision precision : {Precision::kExact, Precision::kReleased}) {
    for (const bool reference : {false, true}) {
      numpy.streams = streams;
      const EngramArgs args{.tokens = tokens,
                            .projected = {numpy.projected.data(), {2, 24}},
                            .q_weight = {q.data(), {2, 8}},
                            .k_weight = {k.data(), {2, 8}},
                            .eps = 1e-20F,
                            .precision = precision,
                            .streams = {numpy.streams.data(), {2, 2, 8}}};
      if (reference) {
        engram_ref(args);
      } else {
        test::TestCpu(1).run<ops::Engram>(args);
      }
      // None of the sums lies as near to the middle of two BF16 numbers as to be rounded otherwise.
      if (precision == Precision::kReleased) {
        EXPECT_SAME_BITS(numpy.streams, numpy.released);
      } else {
        EXPECT_CLOSE(numpy.streams, numpy.exact, {.absolute = 1e-6, .relative = 1e-6});
      }
    }
  }
}

/// A fit that is too small for float32, below zero: its zero has a sign, and the gate follows it.
TEST_P(Engram, ANegativeZeroClosesTheGateAndAPositiveOneOpensIt) {
  const std::vector<Bf16Bits> q{float_to_bf16(0x1p-16F), float_to_bf16(1.0F)};
  const std::vector<Bf16Bits> k{float_to_bf16(1.0F), float_to_bf16(1.0F)};
  const std::vector<TokenId> tokens{1};
  for (const float sign : {-1.0F, 1.0F}) {
    for (const bool reference : {false, true}) {
      std::vector<float> streams{sign * 0x1p-133F, 0.0F};
      const std::vector<float> projected{1.0F, 0x1p60F, 1024.0F, -1024.0F};
      const EngramArgs args{.tokens = tokens,
                            .projected = {projected.data(), {1, 4}},
                            .q_weight = {q.data(), {1, 2}},
                            .k_weight = {k.data(), {1, 2}},
                            .eps = 1e-20F,
                            .precision = Precision::kExact,
                            .streams = {streams.data(), {1, 1, 2}}};
      if (reference) {
        engram_ref(args);
      } else {
        test::TestCpu(1).run<ops::Engram>(args);
      }
      const float gate = sign < 0 ? 0x1.ffbe78p-2F : 0x1.0020c4p-1F;
      EXPECT_NEAR(streams[0], 1024.0F * gate, 1e-3F);
      EXPECT_NEAR(streams[1], -1024.0F * gate, 1e-3F);
    }
  }
}

TEST_P(Engram, EqualsTheReferenceWithinRounding) {
  for (const Precision precision : {Precision::kExact, Precision::kBf16, Precision::kReleased}) {
    for (const std::int64_t width : {1, 7, 64, 130, 5120}) {
      test::EngramProblem problem(5, 4, width, 7), reference = problem;
      EngramArgs args = problem.args(), want = reference.args();
      args.precision = want.precision = precision;
      test::TestCpu(2).run<ops::Engram>(args);
      engram_ref(want);
      // A sum between two BF16 numbers may be rounded to either.
      const double relative = precision == Precision::kExact ? 2e-6 : 0x1p-7;
      EXPECT_CLOSE(problem.streams, reference.streams, {.absolute = 1e-5, .relative = relative})
          << precision_name(precision) << ", " << width << " wide";
    }
  }
}

TEST_P(Engram, ARowDoesNotDependOnItsCompany) {
  constexpr std::int64_t kRows = 9, kStreams = 4, kWidth = 256;
  test::EngramProblem together(kRows, kStreams, kWidth, 11);
  std::vector<float> alone = together.streams;
  const EngramArgs args = together.args();
  for (std::int64_t row = 0; row < kRows; ++row) {
    EngramArgs one = args;
    one.tokens = args.tokens.subspan(static_cast<std::size_t>(row), 1);
    one.projected = args.projected.slice(row, row + 1);
    one.streams = {alone.data() + row * kStreams * kWidth, {1, kStreams, kWidth}};
    test::TestCpu(1).run<ops::Engram>(one);
  }
  test::TestCpu(2).run<ops::Engram>(args);
  EXPECT_SAME_BITS(together.streams, alone);
}

TEST_P(Engram, StreamsOfImageTokensStayAsTheyAre) {
  test::EngramProblem problem(3, 4, 64, 3), text = problem;
  const std::vector<float> before = problem.streams;
  for (const bool reference : {false, true}) {
    problem.streams = text.streams = before;
    EngramArgs args = problem.args(), without = text.args();
    args.image_token = 1;
    if (reference) {
      engram_ref(args);
      engram_ref(without);
    } else {
      test::TestCpu(1).run<ops::Engram>(args);
      test::TestCpu(1).run<ops::Engram>(without);
    }
    const std::size_t row = 4 * 64;
    EXPECT_SAME_BITS(std::span(problem.streams).subspan(row, row), std::span(before).subspan(row, row));
    EXPECT_SAME_BITS(std::span(problem.streams).first(row), std::span(text.streams).first(row));
    EXPECT_SAME_BITS(std::span(problem.streams).last(row), std::span(text.streams).last(row));
    EXPECT_NE(text.streams, before);
  }
}

/// A key, a stream or both without any value, whose mean square is nothing but eps.
TEST_P(Engram, ZerosAreFinite) {
  test::EngramProblem problem(3, 2, 32, 5);
  std::fill_n(problem.streams.begin(), 64, 0.0F);         // row 0: both streams
  std::fill_n(problem.projected.begin() + 96, 64, 0.0F);  // row 1: both keys
  std::fill_n(problem.streams.begin() + 128, 64, 0.0F);   // row 2: all of it
  std::fill_n(problem.projected.begin() + 192, 64, 0.0F);
  const std::vector<float> before = problem.streams;
  const EngramArgs args = problem.args();
  test::TestCpu(1).run<ops::Engram>(args);
  for (std::int64_t row = 0; row < 3; ++row) {
    for (std::int64_t i = 0; i < 64; ++i) {
      const auto at = static_cast<std::size_t>(row * 64 + i);
      // The gate of +0.
      EXPECT_NEAR(problem.streams[at], before[at] + 0x1.0020c4p-1F * args.projected(row, 64 + i % 32),
                  0.01F * (1 + std::fabs(before[at])));
    }
  }
}

TEST_P(Engram, NaNsAreKept) {
  test::EngramProblem problem(1, 2, 32, 5);
  problem.projected[3] = std::nanf("");  // of the first stream's key
  const EngramArgs args = problem.args();
  test::TestCpu(1).run<ops::Engram>(args);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(std::isnan(problem.streams[i]), i < 32) << i;
}

TEST_P(Engram, NoRowsIsANoOp) {
  test::EngramProblem problem(0, 4, 64, 1);
  test::TestCpu(1).run<ops::Engram>(problem.args());
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, Engram, testing::ValuesIn(test::compiled_targets()), test::target_name);

TEST(EngramCost, StreamsTwiceKeysAndValueOnce) {
  constexpr std::int64_t kRows = 3, kWidth = 5120;
  const std::vector<TokenId> tokens(kRows);
  const std::vector<Bf16Bits> weight(4 * kWidth);
  const OpCost cost = engram_cost({.tokens = tokens,
                                   .projected = test::unread_bf16<2>({kRows, 5 * kWidth}),
                                   .q_weight = {weight.data(), {4, kWidth}},
                                   .k_weight = {weight.data(), {4, kWidth}},
                                   .streams = test::unread_bf16<3>({kRows, 4, kWidth})});
  EXPECT_EQ(cost.total_bytes(), kRows * (4 + 2 * (4 + 4 + 5) * kWidth) + 2 * 2 * 4 * kWidth);
  EXPECT_EQ(cost.scalar_ops, kRows * 4 * kWidth * 11);
  EXPECT_EQ(cost.matrix_flops(), 0);
}

}  // namespace
}  // namespace baleen
