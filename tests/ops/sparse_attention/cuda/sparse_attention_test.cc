// Attention on the device against the reference, and that neither chunks, batch composition nor launch shapes
// show in its bits.
#include "attention_cases.h"

namespace baleen::BALEEN_ARCH::attention_cases {
namespace {

TEST(SparseAttentionOnGpu, AgreesWithTheReference) {
  BALEEN_NEEDS_GPU();
  for (const Geometry geometry : {Geometry{4, 128}, {9, 192}, {8, 512}, {64, 512}, {80, 512}, {128, 512}}) {
    for (const int ratio : {0, 4, 128}) {
      const Layer layer(ratio, geometry.head_dim, 0, 620);
      for (const std::int64_t start : {0, 3, 62, 127, 254, 511}) {
        if (geometry.num_heads >= 64 && start != 3 && start != 511) continue;
        constexpr std::int64_t kRows = 3, kTopK = 71;
        Step step = step_at(layer, geometry.num_heads, start, kRows, kTopK);
        step.sink[0] = -kInfinity;
        step.sink[1] = kInfinity;
        EXPECT_CLOSE(run(layer, step), want(layer, step), kTolerance)
            << geometry.num_heads << " x " << geometry.head_dim << ", ratio " << ratio << ", position "
            << start;
      }
    }
  }
}

TEST(SparseAttentionOnGpu, AgreesOnRowsOfV32) {
  BALEEN_NEEDS_GPU();
  for (const int ratio : {0, 4, 128}) {
    const Layer layer(ratio, 576, 0, 620, LatentLayout::kV32);
    for (const std::int64_t start : {0, 62, 511}) {
      Step step = step_at(layer, 16, start, 3, 71);
      step.sink[0] = -kInfinity;
      step.sink[1] = kInfinity;
      EXPECT_CLOSE(run(layer, step), want(layer, step), kTolerance) << "ratio " << ratio << ", " << start;
    }
  }
}

TEST(SparseAttentionOnGpu, AgreesOnTheReleasedShapes) {
  BALEEN_NEEDS_GPU();
  {
    const Layer layer(4, 512, 2600, 2900);
    const Step step = step_at(layer, 64, 2800, 2, 512);
    EXPECT_CLOSE(run(layer, step), want(layer, step), kTolerance);
  }
  {
    const Layer layer(128, 512, 131'000, 131'200);  // 1,024 entries
    const Step step = step_at(layer, 64, 131'190, 2, 0);
    EXPECT_CLOSE(run(layer, step), want(layer, step), kTolerance);
  }
}

/// Without a window a list has compressed entries alone. In steps of one row, of few, of many, and of so many
/// that rows are dequantised first.
TEST(SparseAttentionOnGpu, AgreesWithoutAWindow) {
  BALEEN_NEEDS_GPU();
  for (const Geometry geometry : {Geometry{8, 128}, {8, 512}, {64, 512}, {128, 512}}) {
    for (const int ratio : {0, 4, 128}) {
      const Layer layer(ratio, geometry.head_dim, 0, 1'000);
      for (const std::int64_t rows : {1, 3, 40, 300}) {
        Step step = step_at(layer, geometry.num_heads, 600, rows, 71);
        step.window_tokens = 0;
        Step last = step_at(layer, geometry.num_heads, 600 + rows - 1, 1, 71);
        last.window_tokens = 0;
        const auto row_size = static_cast<std::ptrdiff_t>(geometry.num_heads * geometry.head_dim);
        last.q.assign(step.q.end() - row_size, step.q.end());
        if (ratio == 4) last.selected.assign(step.selected.end() - 71, step.selected.end());
        const std::vector<float> got = run(layer, step);
        const std::vector<float> got_last = run(layer, last, rows - 1);
        EXPECT_SAME_BITS(std::span(got).last(static_cast<std::size_t>(row_size)), got_last)
            << geometry.num_heads << " x " << geometry.head_dim << ", ratio " << ratio << ", rows " << rows;
        if (rows > 40) continue;
        EXPECT_CLOSE(got, want(layer, step), kTolerance)
            << geometry.num_heads << " x " << geometry.head_dim << ", ratio " << ratio << ", rows " << rows;
      }
    }
  }
}

TEST(SparseAttentionOnGpu, ManyRowsAtOnce) {  // several items for each block of threads, of every length
  BALEEN_NEEDS_GPU();
  const Layer layer(4, 512, 0, 400);
  const Step step = step_at(layer, 8, 0, 397, 71);
  EXPECT_CLOSE(run(layer, step), want(layer, step), kTolerance);
}

TEST(SparseAttentionOnGpu, ChunksCompanyAndLaunchShapesDoNotShow) {
  BALEEN_NEEDS_GPU();
  constexpr std::int64_t kStart = 2'800, kRows = 150, kTopK = 512;
  for (const Geometry geometry : {Geometry{8, 128}, {64, 512}, {80, 512}, {128, 512}}) {
    for (const int ratio : {0, 4, 128}) {
      const Layer layer(ratio, geometry.head_dim, kStart - 128, kStart + kRows);
      const Step all = step_at(layer, geometry.num_heads, kStart, kRows, kTopK);
      const std::vector<float> got = run(layer, all);
      for (const std::int64_t chunk : {1, 2, 7, 40}) {
        const std::int64_t begin = chunk % 5;
        expect_same_bits_in_part(layer, all, got, begin, chunk, 140);
        expect_same_bits_in_part(layer, all, got, begin + chunk, chunk, 140);
      }
    }
  }
}

/// Steps of more than 256 rows read cache rows that were dequantised once; here every other sequence, of one
/// row, does not.
TEST(SparseAttentionOnGpu, DequantisedRowsDoNotShow) {
  BALEEN_NEEDS_GPU();
  constexpr std::int64_t kStart = 2'800, kRows = 300, kTopK = 512;
  for (const std::int64_t num_heads : {24, 128}) {
    for (const int ratio : {0, 4, 128}) {
      const Layer layer(ratio, 512, kStart - 128, kStart + kRows);
      const Step all = step_at(layer, num_heads, kStart, kRows, kTopK);
      const std::vector<float> got = run(layer, all);
      expect_same_bits_in_part(layer, all, got, 0, 150, 140);
      expect_same_bits_in_part(layer, all, got, 3, 290, 140);
    }
  }
}

TEST(SparseAttentionOnGpu, SeveralSequencesAreDequantisedTogether) {
  BALEEN_NEEDS_GPU();
  const Layer layer(4, 512, 0, 900);
  const Step all = step_at(layer, 64, 0, 880, 71);
  const std::vector<float> got = run(layer, all);
  Step step = all;
  step.slices = {layer.slice(0, 301), layer.slice(301, 180, 301), layer.slice(481, 2, 481),
                 layer.slice(483, 1, 483), layer.slice(484, 396, 484)};
  EXPECT_SAME_BITS(run(layer, step), got);
}

TEST(SparseAttentionOnGpu, LongListsDoNotShowHowTheyAreCut) {  // 125 blocks: many rounds of values
  BALEEN_NEEDS_GPU();
  const Layer layer(128, 512, 999'800, 1'000'060);
  const Step all = step_at(layer, 64, 1'000'000, 36, 0);
  const std::vector<float> got = run(layer, all);
  for (const std::int64_t chunk : {1, 3, 9}) expect_same_bits_in_part(layer, all, got, 5, chunk, 30);
}

TEST(SparseAttentionOnGpu, NothingToSeeGivesZeros) {
  BALEEN_NEEDS_GPU();
  for (const Geometry geometry : {Geometry{8, 128}, {64, 512}, {128, 512}}) {
    const Layer layer(4, geometry.head_dim, 0, 40);
    for (const std::int64_t rows : {1, 30}) {
      Step step = step_at(layer, geometry.num_heads, 5, rows, 16);
      std::fill(step.selected.begin(), step.selected.end(), -1);
      EXPECT_CLOSE(run(layer, step), want(layer, step), kTolerance);  // the window alone
      step.window_tokens = 0;
      EXPECT_CLOSE(run(layer, step), std::vector<float>(step.q.size(), 0.0F), {});
      for (float& sink : step.sink) sink = -kInfinity;
      EXPECT_CLOSE(run(layer, step), std::vector<float>(step.q.size(), 0.0F), {});
    }
  }
}

TEST(SparseAttentionOnGpu, TheWindowBeginsWhereTheSliceSays) {
  BALEEN_NEEDS_GPU();
  for (const Geometry geometry : {Geometry{8, 128}, {64, 512}}) {
    const Layer layer(0, geometry.head_dim, 20, 60);  // earlier rows are NaN
    Step step = step_at(layer, geometry.num_heads, 39, 3, 0);
    step.slices[0].window_begin = 20;
    EXPECT_CLOSE(run(layer, step), want(layer, step), kTolerance);
  }
}

SequenceSlice seeing_ahead(SequenceSlice slice) {
  slice.sees_ahead = true;
  return slice;
}

/// Steps of one slice, and of so many that no item has several parts.
TEST(SparseAttentionOnGpu, RowsThatSeeAheadAllHaveTheList) {
  BALEEN_NEEDS_GPU();
  for (const Geometry geometry : {Geometry{8, 128}, {64, 512}, {80, 512}, {128, 512}}) {
    for (const std::int64_t start : {0, 1, 5, 127, 128, 251, 254, 300}) {
      if (geometry.num_heads >= 64 && start != 5 && start != 254) continue;
      for (const std::int64_t num_rows : {5, 16}) {
        const std::int64_t window_begin = start / 3;
        // Other rows are NaN.
        const Layer layer(0, geometry.head_dim, std::max(window_begin, start - 128), start + num_rows);
        Step step = step_at(layer, geometry.num_heads, start, num_rows, 0);
        step.slices[0].sees_ahead = true;
        step.slices[0].window_begin = window_begin;
        const std::vector<float> got = run(layer, step);
        if (num_rows == 5) {
          EXPECT_CLOSE(got, want(layer, step), kTolerance)
              << geometry.num_heads << " x " << geometry.head_dim << ", position " << start;
        }

        // Each row's list is that of a lone row at the slice's last position with a longer window.
        const auto size = static_cast<std::ptrdiff_t>(got.size()) / num_rows;
        Step last = step_at(layer, geometry.num_heads, start + num_rows - 1, 1, 0);
        last.slices[0].window_begin = window_begin;
        last.window_tokens = 128 + num_rows;
        for (const std::int64_t row : {std::int64_t{0}, num_rows - 1}) {
          last.q.assign(step.q.begin() + row * size, step.q.begin() + (row + 1) * size);
          EXPECT_SAME_BITS(
              std::span(got).subspan(static_cast<std::size_t>(row * size), static_cast<std::size_t>(size)),
              run(layer, last, row))
              << geometry.num_heads << " x " << geometry.head_dim << ", " << num_rows << " rows from "
              << start << ", row " << row;
        }
      }
    }
  }
}

/// Slices that see ahead between ordinary ones, in steps of few and of many rows and of so many that rows are
/// dequantised first.
TEST(SparseAttentionOnGpu, CompanyDoesNotShowWhereRowsSeeAhead) {
  BALEEN_NEEDS_GPU();
  constexpr std::int64_t kStart = 254, kAhead = 5;
  for (const Geometry geometry : {Geometry{8, 128}, {64, 512}, {128, 512}}) {
    const Layer layer(0, geometry.head_dim, 0, 400);
    Step alone = step_at(layer, geometry.num_heads, kStart, kAhead, 0);
    alone.slices[0].sees_ahead = true;
    for (const std::int64_t num_sequences : {2, 20, 60}) {
      const std::int64_t row_size = geometry.num_heads * geometry.head_dim;
      Step step{.num_heads = geometry.num_heads, .slices = {}, .sink = alone.sink};
      const auto add = [&](const SequenceSlice& slice) {
        const std::int64_t first_row = step.slices.empty() ? 0 : step.num_rows();
        step.slices.push_back(slice);
        step.slices.back().first_row = first_row;
        for (std::int64_t row = 0; row < slice.num_tokens; ++row) {
          const auto of_row = alone.q.begin() + row % kAhead * row_size;
          step.q.insert(step.q.end(), of_row, of_row + row_size);
        }
      };
      add(layer.slice(100, 1));
      for (std::int64_t i = 0; i < num_sequences; ++i) {
        add(seeing_ahead(layer.slice(kStart, kAhead)));
        add(layer.slice(7 * (i % 40), 1 + i % 3));
      }
      const std::vector<float> got = run(layer, step);
      for (const std::size_t i : {std::size_t{1}, step.slices.size() - 2}) {
        const std::int64_t first_row = step.slices[i].first_row;
        const std::vector<float> wanted = run(layer, alone, first_row);
        EXPECT_SAME_BITS(
            std::span(got).subspan(static_cast<std::size_t>(first_row * row_size), wanted.size()), wanted)
            << geometry.num_heads << " x " << geometry.head_dim << ", " << num_sequences << " sequences";
      }
    }
  }
}

TEST(SparseAttentionOnGpu, TheFirstRowSeesWhatTheLastOneHas) {
  BALEEN_NEEDS_GPU();
  for (const Geometry geometry : {Geometry{8, 128}, {64, 512}}) {
    const Layer layer(0, geometry.head_dim, 0, 300);
    Step step = step_at(layer, geometry.num_heads, 254, 5, 0);
    step.slices[0].sees_ahead = true;
    const std::vector<float> before = run(layer, step);
    test::write_row(layer.window.pool(), layer.window_pages, 258,
                    test::random_values(static_cast<std::size_t>(geometry.head_dim), 77, 1.5F));
    const std::vector<float> after = run(layer, step);
    const std::size_t row_size = before.size() / 5;
    EXPECT_FALSE(
        std::equal(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(row_size), after.begin()));
    EXPECT_CLOSE(after, want(layer, step), kTolerance);
  }
}

TEST(SparseAttentionOnGpu, PaddingRowsAreFinite) {
  BALEEN_NEEDS_GPU();
  for (const Geometry geometry : {Geometry{8, 128}, {64, 512}, {128, 512}}) {
    const Layer layer(4, geometry.head_dim, 0, 300);
    for (const std::int32_t padding : {3, 20, 200}) {  // the last: more items than multiprocessors
      Step step = step_at(layer, geometry.num_heads, 290, 2, 64);
      const std::vector<float> alone = run(layer, step);
      step.padding_rows = padding;
      const std::vector<float> got = run(layer, step);
      EXPECT_SAME_BITS(std::span(got).first(alone.size()), alone);
      for (const float value : got) ASSERT_TRUE(std::isfinite(value));
    }
  }
}

TEST(SparseAttentionOnGpu, PoolsAtOddAddresses) {
  BALEEN_NEEDS_GPU();
  const Layer layer(4, 512, 0, 300);
  const Step step = step_at(layer, 8, 290, 2, 64);
  for (const std::int64_t offset :
       {16, 48, 8, 2}) {  // the last two are no multiples of what the fast kernel reads
    EXPECT_CLOSE(run(layer, step, 0, offset), want(layer, step), kTolerance) << offset;
  }
}

TEST(SparseAttentionOnGpu, LargeAndSmallScales) {
  BALEEN_NEEDS_GPU();
  Layer layer(0, 512, 0, 40);
  for (std::int64_t position = 0; position < 40; ++position) {
    std::vector<float> values = test::random_values(512, 70 + static_cast<std::uint32_t>(position), 1e-3F);
    values[5] = 3e7F;    // its block's scale is 2^17
    values[70] = 1e-6F;  // others in this one are rounded away or tiny
    for (std::size_t i = 71; i < 128; ++i) values[i] = 1e-8F * static_cast<float>(i);
    test::write_row(layer.window.pool(), layer.window_pages, position, values);
  }
  Step step = step_at(layer, 64, 30, 2, 0);
  for (std::size_t i = 0; i < step.q.size(); ++i) {
    if (i % 512 < 64) step.q[i] = 0;  // scores stay small
  }
  const std::vector<float> got = run(layer, step);
  EXPECT_CLOSE(got, want(layer, step), kTolerance);

  Step many{.num_heads = 64, .slices = {}, .sink = step.sink};  // the same two rows, again and again
  for (std::int64_t row = 0; row < 300; row += 2) {
    many.slices.push_back(layer.slice(30, 2, row));
    many.q.insert(many.q.end(), step.q.begin(), step.q.end());
  }
  const std::vector<float> dequantised = run(layer, many);
  EXPECT_SAME_BITS(std::span(dequantised).first(got.size()), got);
}

TEST(SparseAttentionOnGpu, NaNStaysVisible) {
  BALEEN_NEEDS_GPU();
  const Layer layer(0, 512, 0, 200);
  Step step = step_at(layer, 64, 150, 1, 0);
  step.q[3 * 512 + 7] = std::nanf("");
  const std::vector<float> out = run(layer, step);
  for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(std::isnan(out[i]), i / 512 == 3) << i;
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH::attention_cases
