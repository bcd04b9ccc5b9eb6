// Bytes of the cache against the figures of the specification, derived there by hand from the released
// geometries.
#include "kv_cache/geometry.h"

#include <gtest/gtest.h>

#include "model/cache_geometry.h"
#include "model/presets.h"

namespace baleen {
namespace {

CacheGeometry released(std::string_view preset, std::int64_t max_draft_tokens = 0) {
  return cache_geometry(preset_config(preset), Precision::kReleased, max_draft_tokens);
}

TEST(CacheGeometry, RowsAreThoseOfTheReleasedLayout) {
  const CacheGeometry flash = released("flash");
  EXPECT_EQ(flash.latent.data_bytes(), 576);
  EXPECT_EQ(flash.latent.row_bytes(), 584);
  EXPECT_EQ(flash.index_key.row_bytes(), 68);
  // Page strides of 256, 64 and 2 latent rows, and of 64 keys. (source: cache specification 2.1, 2.4)
  EXPECT_EQ(flash.latent.page_stride_bytes(256), 149'760);
  EXPECT_EQ(flash.latent.page_stride_bytes(64), 37'440);
  EXPECT_EQ(flash.latent.page_stride_bytes(2), 1'728);
  EXPECT_EQ(flash.index_key.page_stride_bytes(64), 4'352);
}

TEST(CacheGeometry, EntriesOfAPage) {
  const CacheGeometry flash = released("flash");
  ASSERT_EQ(flash.num_blocks(), 44);
  EXPECT_EQ(flash.entries_per_page(0), 0);
  EXPECT_EQ(flash.entries_per_page(2), 64);
  EXPECT_EQ(flash.entries_per_page(3), 2);
  EXPECT_EQ(flash.entries_per_page(43), 0);  // MTP
}

TEST(CacheGeometry, FlashAndProTakeThePublishedBytes) {
  const CacheGeometry flash = released("flash");
  EXPECT_EQ(flash.bytes_per_token(), 21 * (584 + 68) / 4.0 + 20 * 584 / 128.0);
  EXPECT_NEAR(flash.bytes_per_token(), 3'514, 0.5);
  EXPECT_EQ(flash.page_bytes(), 21 * (37'440 + 4'352) + 20 * 1'728);
  // Rows of 43 layers and the MTP block; of 21 layers' last 4 positions 512 + 128 floats of kv and of gate.
  EXPECT_EQ(flash.window_page_bytes(), 44 * 149'760 + 21 * 4 * 2 * (512 + 128) * 4);
  EXPECT_EQ(flash.overlap_bytes(2), 4 * 2 * (512 + 128) * 4);
  EXPECT_EQ(flash.overlap_bytes(3), 0);
  EXPECT_EQ(43 * flash.window_bytes(), 128 * 584 * 43);
  EXPECT_EQ(flash.state_bytes(0), 0);
  EXPECT_EQ(21 * flash.state_bytes(2), 1'720'320);
  EXPECT_EQ(20 * flash.state_bytes(3), 10'485'760);
  EXPECT_EQ(flash.state_slot_bytes(), 1'720'320 + 10'485'760);

  const CacheGeometry pro = released("pro");
  EXPECT_NEAR(pro.bytes_per_token(), 5'031, 0.5);
  EXPECT_EQ(pro.page_bytes(), 30 * (37'440 + 4'352) + 31 * 1'728);
  EXPECT_EQ(pro.state_slot_bytes(), 2'457'600 + 16'252'928);
}

TEST(CacheGeometry, OtherPrecisionsHaveWiderRows) {
  const ModelConfig config = preset_config("flash");
  const CacheGeometry bf16 = cache_geometry(config, Precision::kBf16),
                      exact = cache_geometry(config, Precision::kExact);
  EXPECT_EQ(bf16.latent.row_bytes(), 1'024);
  EXPECT_EQ(exact.latent.row_bytes(), 2'048);
  EXPECT_EQ(bf16.index_key.row_bytes(), 256);
  EXPECT_EQ(exact.index_key.row_bytes(), 512);
  EXPECT_EQ(bf16.state_slot_bytes(), released("flash").state_slot_bytes());  // states are float32 everywhere
}

TEST(CacheGeometry, RingsHoldWhatASpeculativeStepMayTakeBack) {
  EXPECT_EQ(released("flash").ring_rows(2), 8);
  EXPECT_EQ(released("flash").ring_rows(3), 128);
  EXPECT_EQ(released("flash", 1).ring_rows(2), 12);  // 9 rows needed, whole blocks kept
  EXPECT_EQ(released("flash", 8).ring_rows(2), 16);
  EXPECT_EQ(released("flash", 1).ring_rows(3), 256);
}

TEST(CacheGeometry, PagesForPositions) {
  EXPECT_EQ(pages_for(0), 0);
  EXPECT_EQ(pages_for(256), 1);
  EXPECT_EQ(pages_for(257), 2);
}

/// The most pages that positions start - window .. start + tokens - 1 touch, over every start.
std::int64_t most_pages(std::int64_t window, std::int64_t tokens) {
  std::int64_t most = 0;
  for (std::int64_t start = window; start < window + 2 * kPageTokens; ++start) {
    most = std::max(most, (start + tokens - 1) / kPageTokens - (start - window) / kPageTokens + 1);
  }
  return most;
}

TEST(CacheGeometry, WindowPagesAreThoseOfTheWorstStep) {
  for (const std::int64_t window : {2, 64, 128, 256, 300}) {
    CacheGeometry geometry = released("tiny-flash");
    geometry.window_tokens = window;
    geometry.max_draft_tokens = window % 3;
    std::vector<std::int64_t> pages;  // by tokens of one sequence
    for (std::int64_t tokens = 0; tokens <= 700; ++tokens) {
      pages.push_back(most_pages(geometry.kept_tokens(), tokens));
    }
    std::vector<std::int64_t> most(701,
                                   0);  // over all ways to divide so many tokens among the sequences so far
    for (std::int64_t num_sequences = 1; num_sequences <= 4; ++num_sequences) {
      std::vector<std::int64_t> with_one_more(701, 0);
      for (std::size_t all = 0; all <= 700; ++all) {
        for (std::size_t own = 0; own <= all; ++own) {
          with_one_more[all] = std::max(with_one_more[all], pages[own] + most[all - own]);
        }
      }
      most = with_one_more;
      for (std::size_t tokens = 0; tokens <= 700; ++tokens) {
        ASSERT_EQ(max_window_pages(geometry, num_sequences, static_cast<std::int64_t>(tokens)), most[tokens])
            << num_sequences << " sequences, " << tokens << " tokens, window of " << window;
      }
    }
  }
}

TEST(CacheGeometry, SequencesThatShareKeepTheirLastWholePage) {
  CacheGeometry geometry = released("tiny-flash");
  geometry.window_tokens = 128;
  EXPECT_EQ(geometry.kept_tokens(), 128);
  geometry.shares_prefixes = true;
  geometry.max_draft_tokens = 2;
  EXPECT_EQ(geometry.kept_tokens(), 258);
  for (std::int64_t next = 256; next < 1200; ++next) {
    for (std::int64_t taken_back = 0; taken_back <= 2; ++taken_back) {
      const std::int64_t last_whole_page = (next - taken_back) / kPageTokens - 1;
      EXPECT_LE(std::max<std::int64_t>(0, next - geometry.kept_tokens()) / kPageTokens,
                std::max<std::int64_t>(0, last_whole_page));
    }
  }
}

}  // namespace
}  // namespace baleen
