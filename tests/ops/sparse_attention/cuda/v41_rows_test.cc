// Attention on the device over V4.1's rows, of 528 bytes a position and 288 an entry, against the reference;
// and that neither chunks, batch composition nor launch shapes show in its bits.
#include <string>

#include "attention_cases.h"

namespace baleen::BALEEN_ARCH::attention_cases {
namespace {

TEST(V41RowsOnGpu, AgreeWithTheReference) {
  BALEEN_NEEDS_GPU();
  for (const Geometry geometry : {Geometry{4, 128}, {8, 512}, {32, 512}, {64, 512}, {80, 512}}) {
    for (const int ratio : {0, 1, 2}) {
      for (const bool selects : {false, true}) {
        if (ratio == 0 && selects) continue;
        const Layer layer = v41_layer(ratio, selects, geometry.head_dim, 0, 420);
        for (const std::int64_t start : {0, 1, 127, 254, 401}) {
          if (geometry.num_heads >= 32 && start != 1 && start != 401) continue;
          Step step = step_at(layer, geometry.num_heads, start, 3, 71);
          step.sink[0] = -kInfinity;
          step.sink[1] = kInfinity;
          EXPECT_CLOSE(run(layer, step), want(layer, step), kTolerance)
              << geometry.num_heads << " x " << geometry.head_dim << ", ratio " << ratio << ", position "
              << start;
        }
      }
    }
  }
}

TEST(V41RowsOnGpu, ChunksAndLaunchShapesDoNotShow) {
  BALEEN_NEEDS_GPU();
  constexpr std::int64_t kStart = 1'000, kRows = 150, kTopK = 512;
  for (const Geometry geometry : {Geometry{8, 128}, {32, 512}, {64, 512}, {128, 512}}) {
    for (const int ratio : {0, 1, 2}) {
      const Layer layer = v41_layer(ratio, ratio != 0, geometry.head_dim, kStart - 128, kStart + kRows);
      const Step all = step_at(layer, geometry.num_heads, kStart, kRows, kTopK);
      const std::vector<float> got = run(layer, all);
      for (const std::int64_t chunk : {1, 2, 7, 40})
        expect_same_bits_in_part(layer, all, got, chunk % 5, chunk, 140);
    }
  }
}

/// Where `got` is not `values`, rotated back: in float32, whose two products and their sum are each off by
/// 2^-24 of themselves, then rounded to BF16, which is monotone. Empty if nowhere.
std::string beyond_rotation(const std::vector<float>& got, std::vector<float> values, const Step& step) {
  const std::int64_t num_rows = step.num_rows(), num_pairs = kRope / 2;
  const std::vector<float> cosine = angles(num_rows, 11), sine = angles(num_rows, 12);
  const std::size_t heads = static_cast<std::size_t>(num_rows * step.num_heads),
                    width = values.size() / heads;
  for (std::size_t head = 0; head < heads; ++head) {
    const std::size_t of_row = head / static_cast<std::size_t>(step.num_heads) * num_pairs;
    for (std::size_t i = 0; i < static_cast<std::size_t>(num_pairs); ++i) {
      const std::size_t at = (head + 1) * width - kRope + 2 * i;
      const double a = values[at], b = values[at + 1], c = cosine[of_row + i], s = -sine[of_row + i];
      const auto within = [&](std::size_t where, double first, double second) {
        const double room = 0x1p-23 * (std::fabs(first) + std::fabs(second));
        values[where] = std::clamp(got[where], round_bf16(static_cast<float>(first + second - room)),
                                   round_bf16(static_cast<float>(first + second + room)));
      };
      within(at, a * c, -b * s);
      within(at + 1, a * s, b * c);
    }
  }
  return test::difference(got, values, {});
}

/// Every e2m1 code times every e4m3 scale, and every e4m3 code times scales of powers of two: a query that
/// sees one row, by a sink that weighs nothing, has its values, exactly. A query of zeros: kernels round the
/// maximum up to a whole power of two, of which a score of 0 is one, so that the row's weight is 1. Another
/// weight would be rounded to BF16 and, in the sum that it is divided by, not.
TEST(V41RowsOnGpu, EveryCodeIsItsValue) {
  BALEEN_NEEDS_GPU();
  constexpr std::int64_t kTopK = 16;
  // By two kernels, by one, and dequantised first.
  for (const std::int64_t num_rows : {1, 200, 300}) {
    for (const bool of_entry : {false, true}) {
      for (int seed = 0; seed < 8; ++seed) {
        Layer layer = v41_layer(1, true, 512, 0, 256 + num_rows);
        test::LatentPages& pages = of_entry ? layer.compressed : layer.window;
        const GroupedRow& format = *pages.pool().format.grouped;
        for (std::int64_t row = 0; row < 256 + num_rows; ++row) {
          const PageId page =
              (of_entry ? layer.pages : layer.window_pages)[static_cast<std::size_t>(row / 256)];
          std::byte* bytes =
              pages.pool().page(static_cast<std::int64_t>(page)) + row % 256 * format.row_bytes();
          for (std::int64_t i = 0; i < format.row_bytes(); ++i) {
            const bool scale = i >= format.code_bytes();
            // Scales of entries from 0 to the largest number, of positions from 2^-20 to 2^20.
            const std::int64_t of_scale = of_entry ? (i + 32 * seed) % 127 : 107 + (i + 5 * seed) % 40;
            bytes[i] = static_cast<std::byte>(scale ? of_scale : (7 * i + seed) % 256);
            if (!scale && !of_entry && (bytes[i] & std::byte{0x7F}) == std::byte{0x7F})
              bytes[i] = std::byte{0};
          }
        }
        Step step = step_at(layer, 8, 255, num_rows, kTopK);
        step.window_tokens = of_entry ? 0 : 1;
        for (std::size_t i = 0; i < step.selected.size(); ++i)
          step.selected[i] = of_entry && i % kTopK == 0 ? static_cast<std::int32_t>(i / kTopK) : -1;
        std::fill(step.sink.begin(), step.sink.end(), -kInfinity);
        std::fill(step.q.begin(), step.q.end(), 0.0F);
        EXPECT_EQ(beyond_rotation(run(layer, step), attended(layer, step), step), "")
            << num_rows << (of_entry ? " rows, entries " : " rows, positions ") << seed;
      }
    }
  }
}

TEST(V41RowsOnGpu, AgreeOnTheReleasedShapes) {
  BALEEN_NEEDS_GPU();
  for (const int ratio : {1, 2}) {
    const Layer layer = v41_layer(ratio, true, 512, 1'400, 1'700);
    for (const std::int64_t num_heads : {32, 64}) {
      const Step step = step_at(layer, num_heads, 1'600, 2, 512);
      EXPECT_CLOSE(run(layer, step), want(layer, step), kTolerance) << num_heads << " heads, ratio " << ratio;
    }
  }
}

/// More than 256 rows, from the first position on: lists of every length, of positions and entries in one run
/// of 64, read from rows that were dequantised first.
TEST(V41RowsOnGpu, ManyRowsAgreeWithTheReference) {
  BALEEN_NEEDS_GPU();
  for (const int ratio : {1, 2}) {
    const Layer layer = v41_layer(ratio, true, 512, 0, 400);
    const Step step = step_at(layer, 8, 0, 397, 71);
    EXPECT_CLOSE(run(layer, step), want(layer, step), kTolerance) << "ratio " << ratio;
  }
}

TEST(V41RowsOnGpu, DequantisedRowsDoNotShow) {
  BALEEN_NEEDS_GPU();
  constexpr std::int64_t kStart = 1'000, kRows = 300, kTopK = 512;
  for (const std::int64_t num_heads : {24, 64, 128}) {
    for (const int ratio : {0, 1, 2}) {
      for (const bool selects : {false, true}) {
        if (selects && ratio == 0) continue;
        const Layer layer = v41_layer(ratio, selects, 512, kStart - 128, kStart + kRows);
        const Step all = step_at(layer, num_heads, kStart, kRows, kTopK);
        const std::vector<float> got = run(layer, all);
        expect_same_bits_in_part(layer, all, got, 0, 150, 140);
        expect_same_bits_in_part(layer, all, got, 3, 290, 140);
        expect_same_bits_in_part(layer, all, got, 299, 1, 140);
        expect_same_bits_in_part(layer, all, got, 211, 9, 0);
      }
    }
  }
}

TEST(V41RowsOnGpu, SeveralSequencesAreDequantisedTogether) {
  BALEEN_NEEDS_GPU();
  const Layer layer = v41_layer(2, true, 512, 0, 900);
  const Step all = step_at(layer, 64, 0, 880, 71);
  const std::vector<float> got = run(layer, all);
  Step step = all;
  step.slices = {layer.slice(0, 301), layer.slice(301, 180, 301), layer.slice(481, 2, 481),
                 layer.slice(483, 1, 483), layer.slice(484, 396, 484)};
  EXPECT_SAME_BITS(run(layer, step), got);
}

TEST(V41RowsOnGpu, LongListsDoNotShowHowTheyAreCut) {  // 127 runs: many rounds of values
  BALEEN_NEEDS_GPU();
  const Layer layer = v41_layer(1, false, 512, 7'800, 8'040);
  const Step all = step_at(layer, 64, 8'000, 36, 0);
  const std::vector<float> got = run(layer, all);
  for (const std::int64_t chunk : {1, 3, 9}) expect_same_bits_in_part(layer, all, got, 5, chunk, 30);
}

TEST(V41RowsOnGpu, RowsThatSeeAheadAllHaveTheList) {
  BALEEN_NEEDS_GPU();
  for (const std::int64_t start : {0, 5, 254}) {
    for (const std::int64_t num_heads : {32, 64}) {
      const Layer layer = v41_layer(0, false, 512, 0, start + 5);
      Step step = step_at(layer, num_heads, start, 5, 0);
      step.slices[0].sees_ahead = true;
      EXPECT_CLOSE(run(layer, step), want(layer, step), kTolerance)
          << num_heads << " heads, position " << start;
    }
  }
}

TEST(V41RowsOnGpu, PaddingRowsAreFiniteAndNothingToSeeGivesZeros) {
  BALEEN_NEEDS_GPU();
  const Layer layer = v41_layer(1, true, 512, 0, 300);
  for (const std::int32_t padding : {3, 20, 200}) {
    Step step = step_at(layer, 64, 290, 2, 64);
    const std::vector<float> alone = run(layer, step);
    step.padding_rows = padding;
    const std::vector<float> got = run(layer, step);
    EXPECT_SAME_BITS(std::span(got).first(alone.size()), alone);
    for (const float value : got) ASSERT_TRUE(std::isfinite(value));
  }
  for (const std::int64_t rows : {1, 40, 280}) {
    Step step = step_at(layer, 8, 5, rows, 16);
    std::fill(step.selected.begin(), step.selected.end(), -1);
    EXPECT_CLOSE(run(layer, step), want(layer, step), kTolerance);  // the window alone
    step.window_tokens = 0;
    EXPECT_CLOSE(run(layer, step), std::vector<float>(step.q.size(), 0.0F), {});
  }
}

TEST(V41RowsOnGpu, PoolsAtOddAddresses) {
  BALEEN_NEEDS_GPU();
  const Layer layer = v41_layer(2, true, 512, 0, 300);
  const Step step = step_at(layer, 8, 290, 2, 64);
  // The last two are no multiples of what the fast kernels read.
  for (const std::int64_t offset : {16, 48, 8, 2})
    EXPECT_CLOSE(run(layer, step, 0, offset), want(layer, step), kTolerance) << offset;
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH::attention_cases
