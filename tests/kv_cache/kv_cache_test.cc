// Where the pools of the cache lie: every byte belongs to one pool, page or slot.
#include "kv_cache/kv_cache.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "base/error.h"

namespace baleen {
namespace {

CacheGeometry small_geometry(Precision precision) {
  return {.blocks = {{}, {4, true, true}, {128}, {}},
          .latent = {64, 64, precision},
          .index_key = {128, precision}};
}

using Range = std::pair<const std::byte*, const std::byte*>;

/// All bytes that views of the cache reach.
std::vector<Range> reachable(const KvCache& cache) {
  const CacheGeometry& geometry = cache.geometry();
  const CacheCapacity& capacity = cache.capacity();
  std::vector<Range> ranges;
  const auto pool = [&](const auto& view, std::int64_t num_pages) {
    for (std::int64_t page = 0; page < num_pages; ++page) {
      ranges.emplace_back(view.page(page), view.page(page) + view.page_stride_bytes);
    }
  };
  const auto rings = [&](const CompressorState& state) {
    for (std::int64_t slot = 0; slot < capacity.num_state_slots; ++slot) {
      const auto* begin = reinterpret_cast<const std::byte*>(state.kv_row(slot, 0));
      ranges.emplace_back(begin, begin + 2 * state.ring_rows * state.width * std::int64_t{sizeof(float)});
    }
  };
  for (std::int64_t block = 0; block < geometry.num_blocks(); ++block) {
    pool(cache.window(block), capacity.num_window_pages);
    const auto overlap = [&](const CompressorOverlap& view) {
      if (view.base == nullptr) return;
      for (std::int64_t page = 0; page < capacity.num_window_pages; ++page) {
        const auto* begin = reinterpret_cast<const std::byte*>(view.kv_row(static_cast<PageId>(page), 252));
        ranges.emplace_back(begin, begin + view.page_stride * std::int64_t{sizeof(float)});
      }
    };
    overlap(cache.main_overlap(block));
    overlap(cache.index_overlap(block));
    if (geometry.block(block).ratio == 0) continue;
    pool(cache.compressed(block), capacity.num_pages);
    rings(cache.main_state(block));
    if (!geometry.block(block).overlaps) continue;
    pool(cache.index_keys(block), capacity.num_pages);
    rings(cache.index_state(block));
  }
  return ranges;
}

class KvCacheLayout : public testing::TestWithParam<Precision> {};

TEST_P(KvCacheLayout, PoolsTileTheBuffer) {
  const KvCache cache(small_geometry(GetParam()),
                      {.num_pages = 5, .num_window_pages = 3, .num_state_slots = 2});
  std::vector<Range> ranges = reachable(cache);
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i) EXPECT_EQ(ranges[i - 1].second, ranges[i].first) << i;
  EXPECT_EQ(ranges.back().second - ranges.front().first, cache.capacity().total_bytes(cache.geometry()));
}

TEST_P(KvCacheLayout, StatesAreAlignedForFloats) {
  const KvCache cache(small_geometry(GetParam()),
                      {.num_pages = 1, .num_window_pages = 1, .num_state_slots = 3});
  for (std::int64_t slot = 0; slot < 3; ++slot) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(cache.main_state(1).gate_row(slot, 7)) % alignof(float), 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(cache.index_state(1).gate_row(slot, 7)) % alignof(float), 0u);
  }
}

TEST_P(KvCacheLayout, BlocksHaveOnlyThePoolsOfTheirRatio) {
  const KvCache cache(small_geometry(GetParam()),
                      {.num_pages = 1, .num_window_pages = 1, .num_state_slots = 1});
  EXPECT_EQ(cache.compressed(0).base, nullptr);
  EXPECT_EQ(cache.index_keys(0).base, nullptr);
  EXPECT_EQ(cache.compressed(1).rows_per_page, 64);
  EXPECT_EQ(cache.index_keys(1).rows_per_page, 64);
  EXPECT_EQ(cache.compressed(2).rows_per_page, 2);
  EXPECT_EQ(cache.index_keys(2).base, nullptr);
  EXPECT_EQ(cache.window(3).rows_per_page, 256);
}

/// Writes every byte of a page, and of a window page, through the views; other pages stay as they are.
TEST_P(KvCacheLayout, PagesGoOutAndComeBackWhole) {
  KvCache cache(small_geometry(GetParam()), {.num_pages = 3, .num_window_pages = 4, .num_state_slots = 1});
  const auto bytes = [](std::int64_t size, int seed) {
    std::vector<std::byte> values(static_cast<std::size_t>(size));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<std::byte>(i * 7 + i / 251 + seed);
    return values;
  };
  const auto page = bytes(cache.geometry().page_bytes(), 1),
             window = bytes(cache.geometry().window_page_bytes(), 2);
  cache.write_page(PageId{1}, page);
  cache.write_window_page(PageId{2}, window);
  std::vector<std::byte> got(page.size());
  cache.read_page(PageId{1}, got);
  EXPECT_EQ(got, page);
  for (const PageId other : {PageId{0}, PageId{2}}) {
    cache.read_page(other, got);
    EXPECT_EQ(got, std::vector<std::byte>(page.size()));
  }
  got.resize(window.size());
  cache.read_window_page(PageId{2}, got);
  EXPECT_EQ(got, window);
  cache.read_window_page(PageId{1}, got);
  EXPECT_EQ(got, std::vector<std::byte>(window.size()));
  EXPECT_EQ(cache.window(3).page(2)[5],
            window[static_cast<std::size_t>(cache.geometry().window_page_bytes() -
                                            cache.window(3).page_stride_bytes + 5)]);
}

/// Writes every ring of a slot; the ranges name each byte of it once.
TEST_P(KvCacheLayout, StateSlotsGoOutAndComeBackWhole) {
  KvCache cache(small_geometry(GetParam()), {.num_pages = 1, .num_window_pages = 1, .num_state_slots = 3});
  std::vector<std::byte> slot(static_cast<std::size_t>(cache.geometry().state_slot_bytes())),
      got(slot.size());
  for (std::size_t i = 0; i < slot.size(); ++i) slot[i] = static_cast<std::byte>(i * 7 + i / 251 + 3);
  cache.write_state_slot(1, slot);
  cache.read_state_slot(1, got);
  EXPECT_EQ(got, slot);
  for (const std::int32_t other : {0, 2}) {
    cache.read_state_slot(other, got);
    EXPECT_EQ(got, std::vector<std::byte>(slot.size()));
  }
  const auto* const ring = reinterpret_cast<const std::byte*>(cache.main_state(1).kv_row(1, 0));
  EXPECT_EQ(ring[5], slot[5]);
}

TEST_P(KvCacheLayout, RangesNameEveryByteOnce) {
  const KvCache cache(small_geometry(GetParam()),
                      {.num_pages = 1, .num_window_pages = 1, .num_state_slots = 1});
  const auto names = [](std::span<const PoolRange> ranges, std::int64_t num_bytes) {
    std::vector<std::string_view> pools;
    std::int64_t end = 0;
    for (const PoolRange& range : ranges) {
      EXPECT_EQ(range.offset, end);
      EXPECT_GT(range.num_bytes, 0);
      end += range.num_bytes;
      pools.push_back(range.pool);
    }
    EXPECT_EQ(end, num_bytes);
    return pools;
  };
  using Pools = std::vector<std::string_view>;
  EXPECT_EQ(names(cache.page_ranges(), cache.geometry().page_bytes()),
            (Pools{"compressed entries", "indexer keys", "compressed entries"}));
  EXPECT_EQ(names(cache.window_page_ranges(), cache.geometry().window_page_bytes()),
            (Pools{"window rows", "window rows", "compressor overlap rows", "indexer overlap rows",
                   "window rows", "window rows"}));
  EXPECT_EQ(names(cache.state_slot_ranges(), cache.geometry().state_slot_bytes()),
            (Pools{"main compressor rings", "indexer compressor rings", "main compressor rings"}));
}

TEST_P(KvCacheLayout, RingsAreRestoredFromTheEndOfAPage) {
  KvCache cache(small_geometry(GetParam()), {.num_pages = 1, .num_window_pages = 2, .num_state_slots = 2});
  const CompressorOverlap main = cache.main_overlap(1), index = cache.index_overlap(1);
  for (std::int64_t position = 764; position < 768; ++position) {
    main.kv_row(PageId{1}, position)[3] = static_cast<float>(position);
    main.gate_row(PageId{1}, position)[main.width - 1] = static_cast<float>(position + 1000);
    index.kv_row(PageId{1}, position)[0] = static_cast<float>(position + 2000);
  }
  cache.restore_rings(PageId{1}, 1, 768);
  for (std::int64_t position = 764; position < 768; ++position) {
    EXPECT_EQ(cache.main_state(1).kv_row(1, position)[3], static_cast<float>(position));
    EXPECT_EQ(cache.main_state(1).gate_row(1, position)[main.width - 1], static_cast<float>(position + 1000));
    EXPECT_EQ(cache.index_state(1).kv_row(1, position)[0], static_cast<float>(position + 2000));
    EXPECT_EQ(cache.main_state(1).kv_row(0, position)[3], 0.0F);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryPrecision, KvCacheLayout,
                         testing::Values(Precision::kExact, Precision::kBf16, Precision::kReleased),
                         [](const auto& tested) { return std::string(precision_name(tested.param)); });

TEST(KvCache, MoreMemoryThanThereIsIsAnError) {
  EXPECT_THROW(KvCache(small_geometry(Precision::kReleased),
                       {.num_pages = std::int64_t{1} << 42, .num_window_pages = 1, .num_state_slots = 1}),
               Error);
}

}  // namespace
}  // namespace baleen
