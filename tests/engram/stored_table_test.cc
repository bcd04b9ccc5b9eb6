// Tables as a checkpoint has them: where they lie, and what is said of one that is not as the config asks.
#include "engram/stored_table.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/engram/small_tables.h"

namespace baleen {
namespace {

/// The sentence that it throws.
template <class Function>
std::string error_of(const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(StoredEngramTables, LieInTheFilesOfTheCheckpoint) {
  const test::SmallTables small;
  const Checkpoint checkpoint(small.folder());
  const std::vector<StoredEngramTable> tables = stored_engram_tables(small.config, checkpoint);
  ASSERT_EQ(tables.size(), 2U);
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    const StoredEngramTable& table = tables[i];
    EXPECT_EQ(table.name, fmt::format("layers.{}.engram.embed", small.config.engram->layer_ids[i]));
    EXPECT_EQ(table.num_rows(), small.config.engram->num_embeddings[i]);
    EXPECT_EQ(table.width(), 40);
    EXPECT_EQ(table.scales.extent(1), 2);
    EXPECT_TRUE(table.is_in_files());
    EXPECT_EQ(reinterpret_cast<const std::byte*>(table.codes.data()),
              checkpoint.at(table.name + ".weight").bytes.data());
    bytes += table.size_bytes();
  }
  EXPECT_EQ(engram_table_bytes(*small.config.engram), bytes);
}

TEST(StoredEngramTables, OfTheReleaseTakeWhatIsPublished) {
  const ModelConfig config = parse_config(test::v41_config().dump(), "config.json");
  EXPECT_EQ(engram_table_bytes(*config.engram), 202'758'032'400);
}

TEST(StoredEngramTables, AModelWithoutThemHasNone) {
  const test::SmallTables small;
  ModelConfig config = small.config;
  config.engram.reset();
  EXPECT_TRUE(stored_engram_tables(config, Checkpoint(small.folder())).empty());
}

TEST(StoredEngramTables, AMissingScaleIsNamed) {
  const test::SmallTables small(test::small_engram_config(),
                                [](std::vector<TensorHeader>& headers) { headers.pop_back(); });
  const std::string why =
      error_of([&] { static_cast<void>(stored_engram_tables(small.config, Checkpoint(small.folder()))); });
  EXPECT_NE(why.find("layers.3.engram.embed.scale"), std::string::npos) << why;
}

TEST(StoredEngramTables, ScalesOfBlocksAreRefused) {
  // As FP8 matrices have them: one for 32 rows as well.
  const test::SmallTables small(test::small_engram_config(), [](std::vector<TensorHeader>& headers) {
    headers[1].shape[0] = (headers[1].shape[0] + 31) / 32;
  });
  const std::string why =
      error_of([&] { static_cast<void>(stored_engram_tables(small.config, Checkpoint(small.folder()))); });
  const std::int64_t rows = small.config.engram->num_embeddings[0];
  EXPECT_NE(why.find(fmt::format("layers.1.engram.embed.scale\" in {}: F8_E8M0 [{}, 2], where the config "
                                 "wants F8_E8M0 [{}, 2]",
                                 small.file().string(), (rows + 31) / 32, rows)),
            std::string::npos)
      << why;
}

}  // namespace
}  // namespace baleen
