// Costs of entries and index keys, counted by hand.
#include <gtest/gtest.h>

#include "ops/entry_store/entry_store.h"
#include "tests/support/unread_arrays.h"

namespace baleen {
namespace {

TEST(EntryStoreCost, OfEntriesThatAreComplete) {
  // Positions 3 to 9: four pairs, 7 of one.
  for (const int ratio : {1, 2}) {
    const test::UnreadBatch batch({{3, 7}});
    const LatentFormat format{
        .nope = 448, .rope = 64, .grouped = GroupedRow{.codes = GroupedCodes::kFp4, .width = 512}};
    const OpCost cost = entry_store_cost({.latent = test::unread_bf16<2>({7, 512}),
                                          .key = test::unread_bf16<2>({7, 128}),
                                          .key_norm = test::unread_span<const float>(128),
                                          .frequencies = test::unread_span<const float>(32),
                                          .ratio = ratio,
                                          .batch = batch.batch(),
                                          .entries = {.rows_per_page = 256 / ratio, .format = format},
                                          .index_keys = {.rows_per_page = 256 / ratio}});
    const double entries = ratio == 1 ? 7 : 4;
    // Rotations; of the entry its rounding, of the key norm and rounding.
    EXPECT_EQ(cost.scalar_ops, entries * (2 * 32 * 6 + 4 * 512 + (4 + 5) * 128));
    EXPECT_DOUBLE_EQ(cost.total_bytes(), entries * (2 * (512 + 128) + 288 + 68) + 2 * 128);
  }
}

}  // namespace
}  // namespace baleen
