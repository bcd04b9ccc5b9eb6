#include "ops/embed/embed.h"

#include <cmath>
#include <numeric>

#include "tests/support/compare.h"
#include "tests/support/every_target.h"
#include "tests/support/test_cpu.h"

namespace baleen {
namespace {

using test::TestCpu;

class Embed : public test::EveryTarget {};

/// Every bit pattern occurs once, NaN and infinity included.
std::vector<Bf16Bits> all_patterns() {
  std::vector<Bf16Bits> table(65536);
  std::iota(table.begin(), table.end(), Bf16Bits{0});
  return table;
}

TEST(EmbedReference, RepeatsTheRowOnEveryStream) {
  const std::vector<Bf16Bits> table = {0x3F80, 0x4000, 0xBF80, 0x3F00};  // 1, 2 / -1, 0.5
  const std::vector<TokenId> tokens = {1, 0, 1};
  std::vector<float> out(12);
  embed_ref({.tokens = tokens, .table = {table.data(), {2, 2}}, .out = {out.data(), {3, 2, 2}}});
  EXPECT_SAME_BITS(out, (std::vector<float>{-1, 0.5, -1, 0.5, 1, 2, 1, 2, -1, 0.5, -1, 0.5}));
}

TEST_P(Embed, EqualsTheReferenceToTheBitAtAnyWidth) {
  const std::vector<Bf16Bits> table = all_patterns();
  for (const int num_threads : {1, 2}) {
    TestCpu cpu(num_threads);
    for (const std::int64_t width : {1, 3, 16, 31, 257, 4096, 7168}) {
      const std::int64_t rows = 65536 / width;
      std::vector<TokenId> tokens;
      for (std::int64_t t = 0; t < 11; ++t) tokens.push_back(static_cast<TokenId>(t * 40'503 % rows));
      const std::size_t size = tokens.size() * 4 * static_cast<std::size_t>(width);
      std::vector<float> got(size), want(size);
      EmbedArgs args{
          .tokens = tokens, .table = {table.data(), {rows, width}}, .out = {got.data(), {11, 4, width}}};
      cpu.run<ops::Embed>(args);
      args.out = {want.data(), {11, 4, width}};
      embed_ref(args);
      EXPECT_SAME_BITS(got, want);
    }
  }
}

TEST_P(Embed, WritesIntoStridedMisalignedViewsAndNowhereElse) {
  TestCpu cpu;
  const std::vector<Bf16Bits> table = all_patterns();
  const std::vector<TokenId> tokens = {5, 9};
  std::vector<float> buffer(1 + 2 * 3 * 40, -7.0F);
  const Activations<3> out(buffer.data() + 1, {2, 3, 37}, {120, 40, 1});
  embed_cpu({.tokens = tokens, .table = {table.data() + 1, {100, 37}}, .out = out}, cpu.context);
  for (std::int64_t t = 0; t < 2; ++t) {
    for (std::int64_t s = 0; s < 3; ++s) {
      for (std::int64_t i = 0; i < 37; ++i) {
        const auto bits = static_cast<Bf16Bits>(1 + tokens[static_cast<std::size_t>(t)] * 37 + i);
        EXPECT_EQ(out(t, s, i), bf16_to_float(bits));
      }
    }
  }
  for (std::size_t i = 38; i < buffer.size(); i += 40) EXPECT_EQ(buffer[i], -7.0F);
}

TEST_P(Embed, NoTokensIsANoOp) {
  TestCpu cpu;
  const std::vector<Bf16Bits> table(8);
  cpu.run<ops::Embed>({.tokens = {}, .table = {table.data(), {2, 4}}, .out = {nullptr, {0, 4, 4}}});
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, Embed, testing::ValuesIn(test::compiled_targets()), test::target_name);

}  // namespace
}  // namespace baleen
