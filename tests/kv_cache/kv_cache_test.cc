// Where the pools of the cache lie: every byte belongs to one pool, page or slot.
#include "kv_cache/kv_cache.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "base/error.h"

namespace baleen {
namespace {

CacheGeometry small_geometry(Precision precision) {
  return {.ratios = {0, 4, 128, 0}, .latent = {64, 64, precision}, .index_key = {128, precision}};
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
    if (geometry.ratio(block) == 0) continue;
    pool(cache.compressed(block), capacity.num_pages);
    rings(cache.main_state(block));
    if (geometry.ratio(block) != 4) continue;
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
