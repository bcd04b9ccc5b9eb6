// A limit on the instruction set reaches the kernels and stays, also after a caller asks which one is in use.
#include <gtest/gtest.h>

#include "base/error.h"
#include "hardware/instruction_sets.h"
#include "ops/matmul/matmul.h"
#include "tests/support/random_weights.h"

namespace baleen {
namespace {

std::vector<float> product() {
  const test::RandomWeight weight(WeightFormat::kF32, 8, 4096, 1);
  auto x = test::random_values(4096, 2);
  std::vector<float> y(8);
  ThreadPool pool(1);
  Arena scratch(matmul_scratch_bytes(1, 4096));
  CpuContext context{pool, scratch};
  const MatmulProduct one{.weight = &weight.matrix(), .x = {x.data(), {1, 4096}}, .y = {y.data(), {1, 8}}};
  matmul({&one, 1}, context);
  return y;
}

TEST(InstructionSets, LimitHoldsUntilTakenAway) {
  const auto names = available_instruction_sets();
  ASSERT_FALSE(names.empty());
  if (names.size() < 2) GTEST_SKIP() << "this machine has one only";
  const auto best = product();
  limit_instruction_set(names.back());
  EXPECT_EQ(instruction_set_in_use(), names.back());
  const auto limited = product();
  EXPECT_NE(limited, best);  // another number of lanes adds up in another order
  EXPECT_EQ(available_instruction_sets(), std::vector<std::string>{names.back()});
  EXPECT_EQ(product(), limited);
  limit_instruction_set("best");
  EXPECT_EQ(instruction_set_in_use(), names.front());
  EXPECT_EQ(product(), best);
}

TEST(InstructionSets, UnknownNameIsAnError) { EXPECT_THROW(limit_instruction_set("AVX7"), Error); }

}  // namespace
}  // namespace baleen
