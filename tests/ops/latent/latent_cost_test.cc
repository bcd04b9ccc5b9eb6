// Costs of latents, counted by hand.
#include <gtest/gtest.h>

#include "ops/latent/latent.h"
#include "tests/support/unread_arrays.h"

namespace baleen {
namespace {

LatentArgs latents(const test::UnreadBatch& batch, int ratio) {
  const std::int64_t rows = batch.num_rows();
  LatentArgs args{.kv = test::unread_bf16<2>({rows, 512}),
                  .norm_weight = test::unread_span<const float>(512),
                  .ratio = ratio,
                  .batch = batch.batch(),
                  .latent = test::unread_bf16<2>({rows, 512})};
  if (ratio == 2) args.kv = args.gate = test::unread_f32<2>({rows, 512});
  return args;
}

TEST(LatentCost, OfPairs) {
  // Positions 3 to 9: the pairs (2, 3) to (8, 9), of which 2 stands before the step.
  const OpCost cost = latent_cost(latents(test::UnreadBatch({{3, 7}}), 2));
  EXPECT_EQ(cost.scalar_ops, 4 * 512 * (4 + 10));
  EXPECT_EQ(cost.total_bytes(), 7 * 512 * (4 + 4 + 2) + 2 * 512 + 8 * 512);
  // 4 to 8: one more waits for its pair.
  const OpCost waiting = latent_cost(latents(test::UnreadBatch({{4, 5}}), 2));
  EXPECT_EQ(waiting.scalar_ops, 2 * 512 * (4 + 10));
  EXPECT_EQ(waiting.total_bytes(), 5 * 512 * (4 + 4 + 2) + 2 * 512 + 8 * 512);
}

TEST(LatentCost, OfSingleTokens) {
  const OpCost cost = latent_cost(latents(test::UnreadBatch({{3, 7}, {0, 1}}), 1));
  EXPECT_EQ(cost.scalar_ops, 8 * 512 * 4);
  EXPECT_EQ(cost.total_bytes(), 8 * 512 * (2 + 2) + 2 * 512);
}

}  // namespace
}  // namespace baleen
