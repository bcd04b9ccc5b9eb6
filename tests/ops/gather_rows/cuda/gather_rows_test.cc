#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "ops/gather_rows/cuda/gather_rows.h"
#include "tests/support/test_cuda.h"

namespace baleen::BALEEN_ARCH {
namespace {

/// Rows of bytes of every width: whole 16-byte units and not, fewer and more pairs than one launch takes.
TEST(GatherRowsOnGpu, MovesRowsAndNothingElse) {
  BALEEN_NEEDS_GPU();
  constexpr std::int64_t kRows = 700;
  std::mt19937 random(3);
  for (const ElementType type : {ElementType::kF32, ElementType::kBf16}) {
    for (const std::int64_t width : {1, 7, 8, 24, 1030, 5000}) {
      const std::int64_t row_bytes = width * size_of(type);
      std::vector<std::byte> from(static_cast<std::size_t>(kRows * row_bytes));
      for (std::byte& byte : from) byte = static_cast<std::byte>(random());
      for (const std::size_t num_pairs : {0, 1, 5, 256, 300, 600}) {
        std::vector<std::int32_t> targets(kRows);
        for (std::int32_t i = 0; i < kRows; ++i) targets[static_cast<std::size_t>(i)] = i;
        std::shuffle(targets.begin(), targets.end(), random);
        std::vector<RowPair> pairs;
        for (std::size_t i = 0; i < num_pairs; ++i)
          pairs.push_back({static_cast<std::int32_t>(random() % kRows), targets[i]});

        test::TestCuda cuda(1 << 20);
        auto* to = cuda.allocate<std::byte>(kRows * row_bytes);
        BALEEN_ARCH::gather_rows(
            {.from = {static_cast<const std::byte*>(cuda.upload(from)), type, {kRows, width}},
             .pairs = pairs,
             .to = {to, type, {kRows, width}}},
            cuda.context());
        cuda.synchronise();
        std::vector<std::byte> want(from.size(), std::byte{0xFF});
        for (const RowPair& pair : pairs) {
          std::copy_n(from.begin() + pair.from * row_bytes, row_bytes, want.begin() + pair.to * row_bytes);
        }
        EXPECT_TRUE(cuda.download(to, kRows * row_bytes) == want)
            << width << " values, " << num_pairs << " pairs";
      }
    }
  }
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
