// Which bytes ranges share, and what of an array a range has.
#include "tensor/accesses.h"

#include <gtest/gtest.h>

#include <vector>

namespace baleen {
namespace {

/// Byte by byte, with rows of any stride.
bool share_a_byte(const MemoryRange& one, const MemoryRange& other) {
  for (std::int64_t row = 0; row < one.num_rows; ++row) {
    for (std::int64_t i = 0; i < one.row_bytes; ++i) {
      if (other.has(one.begin + row * one.stride_bytes + i)) return true;
    }
  }
  return false;
}

bool has_by_rows(const MemoryRange& range, const std::byte* address) {
  for (std::int64_t row = 0; row < range.num_rows; ++row) {
    const std::byte* const begin = range.begin + row * range.stride_bytes;
    if (address >= begin && address < begin + range.row_bytes) return true;
  }
  return false;
}

TEST(MemoryRange, OverlapsWhereAByteIsInBoth) {
  std::vector<std::byte> memory(64);
  std::vector<MemoryRange> ranges{{}, {memory.data() + 3, 0}};
  for (const std::int64_t begin : {0, 3, 7, 8, 13, 30}) {
    for (const std::int64_t bytes : {1, 3, 8, 11}) {
      ranges.push_back({memory.data() + begin, bytes});
      for (const std::int64_t stride : {8, 11}) {
        if (bytes <= stride && bytes < 11) ranges.push_back({memory.data() + begin, bytes, 3, stride});
      }
    }
  }
  for (const MemoryRange& one : ranges) {
    if (!one.empty()) {
      for (const std::byte& byte : memory) EXPECT_EQ(one.has(&byte), has_by_rows(one, &byte));
    }
    for (const MemoryRange& other : ranges) {
      const bool shared = !one.empty() && !other.empty() && share_a_byte(one, other);
      const bool exact = one.num_rows == 1 || other.num_rows == 1 || one.stride_bytes == other.stride_bytes;
      if (shared || exact) {
        EXPECT_EQ(overlap(one, other), shared)
            << one.begin - memory.data() << " + " << one.row_bytes << " x " << one.num_rows << ", "
            << other.begin - memory.data() << " + " << other.row_bytes << " x " << other.num_rows;
      }
      EXPECT_EQ(overlap(one, other), overlap(other, one));
    }
  }
}

TEST(MemoryRange, ColumnsOfRowsSideBySideDoNotOverlap) {
  std::vector<float> matrix(6 * 10);
  const auto columns = [&](std::int64_t first, std::int64_t count) {
    return range_of(View<float, 2>(matrix.data() + first, {6, count}, {10, 1}));
  };
  EXPECT_FALSE(overlap(columns(0, 4), columns(4, 6)));
  EXPECT_TRUE(overlap(columns(0, 5), columns(4, 6)));
  EXPECT_TRUE(overlap(columns(0, 4), range_of(std::span(matrix).subspan(6, 5))));
  EXPECT_FALSE(overlap(columns(0, 4), range_of(std::span(matrix).subspan(6, 4))));
}

TEST(MemoryRange, PagesOfAPoolWithoutAnEndReachToTheEndOfMemory) {
  std::vector<std::byte> memory(100);
  const MemoryRange known = range_of_pages(memory.data(), 4, 3, 10);
  const MemoryRange unknown = range_of_pages(memory.data(), 4, 0, 10);
  EXPECT_FALSE(known.has(memory.data() + 30));
  EXPECT_TRUE(unknown.has(memory.data() + 30));
  EXPECT_FALSE(unknown.has(memory.data() + 35));
  EXPECT_TRUE(overlap(unknown, {memory.data() + 95, 6}));
  EXPECT_FALSE(overlap(unknown, {memory.data() - 8, 8}));
}

TEST(MemoryRange, IsWhatAViewShows) {
  std::vector<float> values(60);
  const View<float, 3> dense(values.data(), {3, 4, 5});
  EXPECT_EQ(range_of(dense), (MemoryRange{reinterpret_cast<std::byte*>(values.data()), 240}));
  const View<float, 3> rows(values.data(), {3, 2, 5}, {20, 5, 1});
  EXPECT_EQ(range_of(rows), (MemoryRange{reinterpret_cast<std::byte*>(values.data()), 40, 3, 80}));
  // Gaps within a row are not left out.
  const View<float, 3> heads(values.data(), {3, 2, 3}, {20, 5, 1});
  EXPECT_EQ(range_of(heads), (MemoryRange{reinterpret_cast<std::byte*>(values.data()), 32, 3, 80}));
  EXPECT_TRUE(range_of(View<float, 2>(values.data(), {0, 5})).empty());
  EXPECT_TRUE(range_of(View<float, 3>(values.data(), {2, 0, 5})).empty());
  EXPECT_TRUE(range_of(View<float, 2>()).empty());
  const Activations<2> bf16(reinterpret_cast<std::byte*>(values.data()), ElementType::kBf16, {2, 5});
  EXPECT_EQ(range_of(bf16).row_bytes, 20);
}

}  // namespace
}  // namespace baleen
