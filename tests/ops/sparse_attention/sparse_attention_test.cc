// Attention: by hand, SIMD against the reference on every instruction set, and that neither chunks, threads,
// head groups, batch composition nor page sizes show in the output.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "ops/sparse_attention/sparse_attention.h"
#include "tests/support/cache_pages.h"
#include "tests/support/compare.h"
#include "tests/support/every_target.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cpu.h"

namespace baleen {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// A layer with one sequence's pages, filled with random rows up to `num_tokens` positions.
struct Layer {
  int ratio;
  LatentFormat format;
  std::vector<PageId> pages;
  test::LatentPages window, compressed;

  Layer(int layer_ratio, int head_dim, Precision precision, std::int64_t first_page, std::int64_t num_pages,
        LatentLayout layout = LatentLayout::kV4)
      : Layer(layer_ratio, {head_dim - 64, 64, precision, layout}, {head_dim - 64, 64, precision, layout},
              first_page, num_pages) {}
  /// Rows of the window and entries in formats of their own.
  Layer(int layer_ratio, const LatentFormat& of_window, const LatentFormat& of_entries,
        std::int64_t first_page, std::int64_t num_pages)
      : ratio(layer_ratio),
        format(of_window),
        pages(static_cast<std::size_t>(first_page), PageId::kNone),
        window(of_window, 256, num_pages),
        compressed(of_entries, ratio == 0 ? 1 : 256 / ratio, num_pages) {
    for (const PageId page : test::shuffled_pages(num_pages, 0, 1)) pages.push_back(page);
  }
  /// Random rows for the window positions and entries of [begin, end).
  void fill(std::int64_t begin, std::int64_t end) {
    for (std::int64_t position = begin; position < end; ++position) {
      test::write_row(window.pool(), pages, position, row(position, 1));
      if (ratio != 0 && position % ratio == 0) {
        test::write_row(compressed.pool(), pages, position / ratio, row(position / ratio, 2));
      }
    }
  }
  [[nodiscard]] std::vector<float> row(std::int64_t number, std::uint32_t seed) const {
    return test::random_values(static_cast<std::size_t>(format.width()),
                               seed + 17 * static_cast<std::uint32_t>(number));
  }
};

/// Rows of V4.1, of positions or of entries.
LatentFormat grouped_format(int head_dim, Precision precision, GroupedCodes codes) {
  return {.nope = head_dim - 64,
          .rope = 64,
          .precision = precision,
          .grouped = GroupedRow{.codes = codes, .width = head_dim}};
}
Layer grouped_layer(int ratio, int head_dim, Precision precision, std::int64_t first_page,
                    std::int64_t num_pages) {
  return {ratio, grouped_format(head_dim, precision, GroupedCodes::kFp8),
          grouped_format(head_dim, precision, GroupedCodes::kFp4), first_page, num_pages};
}

struct Step {
  std::int64_t num_heads = 1;
  std::vector<SequenceSlice> slices;
  std::span<const float> q;
  std::span<const std::int32_t> selected = {};
  std::span<const float> sink;
  std::int64_t window_tokens = 128;
};

std::vector<float> run(const Layer& layer, Step step, int num_threads, test::Kernels kernels = test::kBest) {
  const std::int64_t head_dim = layer.format.width();
  const std::int64_t num_rows = static_cast<std::int64_t>(step.q.size()) / (step.num_heads * head_dim);
  const std::int64_t value_width = layer.format.value_width();
  std::vector<float> out(static_cast<std::size_t>(num_rows * step.num_heads * value_width), std::nanf(""));
  const std::vector<TokenId> tokens(static_cast<std::size_t>(num_rows));
  test::TestCpu cpu(num_threads, sparse_attention_scratch_bytes(step.num_heads, head_dim, num_threads),
                    kernels);
  cpu.run<ops::SparseAttention>(
      {.q = {step.q.data(), {num_rows, step.num_heads, head_dim}},
       .batch = {tokens, step.slices},
       .window = layer.window.pool(),
       .compressed = layer.ratio == 0 ? LatentPool{} : layer.compressed.pool(),
       .ratio = layer.ratio,
       .selected = {step.selected.data(),
                    {num_rows, static_cast<std::int64_t>(step.selected.size()) / num_rows}},
       .sink = step.sink,
       .window_tokens = step.window_tokens,
       .scale = 1.0F / std::sqrt(static_cast<float>(head_dim)),
       .precision = layer.format.precision,
       .out = {out.data(), {num_rows, step.num_heads, value_width}}});
  return out;
}

SequenceSlice slice_at(const Layer& layer, std::int64_t start, std::int64_t num_tokens,
                       std::int64_t first_row = 0) {
  return {first_row, num_tokens, start, layer.pages, layer.pages, 0};
}

class SparseAttentionByHand : public testing::TestWithParam<test::Kernels> {};

TEST_P(SparseAttentionByHand, OneEntryAndTheSink) {
  Layer layer(0, 128, Precision::kExact, 0, 1);
  layer.fill(0, 1);
  const std::vector<float> value = layer.row(0, 1), q = test::random_values(128, 5);
  const auto with_sink = [&](float sink) {
    return run(layer, {1, {slice_at(layer, 0, 1)}, q, {}, {&sink, 1}}, 1, GetParam());
  };
  EXPECT_CLOSE(with_sink(-kInfinity), value, {.norm = 1e-7});
  EXPECT_CLOSE(with_sink(kInfinity), std::vector<float>(128, 0.0F), {});
  double score = 0;
  for (std::size_t i = 0; i < 128; ++i) score += static_cast<double>(q[i]) * value[i];
  std::vector<float> half = value;
  for (float& v : half) v /= 2;
  EXPECT_CLOSE(with_sink(static_cast<float>(score / std::sqrt(128.0))), half, {.norm = 1e-6});
}

TEST_P(SparseAttentionByHand, RowsOfV32HaveKeysWiderThanValues) {
  Layer layer(0, 576, Precision::kReleased, 0, 1, LatentLayout::kV32);
  layer.fill(0, 1);
  const std::vector<float> row = test::read_row(layer.window.pool(), layer.pages, 0);
  const std::vector<float> q = test::random_values(576, 5);
  double score = 0;
  for (std::size_t i = 0; i < 576; ++i) score += static_cast<double>(q[i]) * row[i];
  const auto sink = static_cast<float>(score / std::sqrt(576.0));  // weighs as much as the entry
  std::vector<float> want(row.begin(), row.begin() + 512);
  for (float& value : want) value /= 2;
  EXPECT_CLOSE(run(layer, {1, {slice_at(layer, 0, 1)}, q, {}, {&sink, 1}}, 1, GetParam()), want,
               {.norm = 3e-3});
}

TEST_P(SparseAttentionByHand, EqualScoresGiveTheMeanOfWindowAndSelection) {
  Layer layer(4, 128, Precision::kExact, 0, 1);
  layer.fill(0, 40);
  const std::vector<float> q(128, 0.0F);
  const std::vector<std::int32_t> selected{2, 7, -1, -1};
  const float sink = -kInfinity;
  std::vector<float> mean(128, 0.0F);
  for (const std::int64_t position : {36, 37, 38, 39}) {
    for (std::size_t i = 0; i < 128; ++i) mean[i] += layer.row(position, 1)[i] / 6;
  }
  for (const std::int64_t entry : {2, 7}) {
    for (std::size_t i = 0; i < 128; ++i) mean[i] += layer.row(entry, 2)[i] / 6;
  }
  EXPECT_CLOSE(run(layer, {1, {slice_at(layer, 39, 1)}, q, selected, {&sink, 1}, 4}, 1, GetParam()), mean,
               {.norm = 1e-6});
}

TEST_P(SparseAttentionByHand, EntriesHaveAFormatOfTheirOwn) {
  Layer layer = grouped_layer(2, 128, Precision::kReleased, 0, 1);
  layer.fill(0, 40);
  const std::vector<float> q(128, 0.0F);
  const std::vector<std::int32_t> selected{2, 19, -1};
  const float sink = -kInfinity;
  std::vector<float> mean(128, 0.0F);
  for (const std::int64_t position : {38, 39}) {
    const std::vector<float> row = test::read_row(layer.window.pool(), layer.pages, position);
    for (std::size_t i = 0; i < 128; ++i) mean[i] += row[i] / 4;
  }
  for (const std::int64_t entry : {2, 19}) {
    const std::vector<float> row = test::read_row(layer.compressed.pool(), layer.pages, entry);
    for (std::size_t i = 0; i < 128; ++i) mean[i] += row[i] / 4;
  }
  EXPECT_CLOSE(run(layer, {1, {slice_at(layer, 39, 1)}, q, selected, {&sink, 1}, 2}, 1, GetParam()), mean,
               {.norm = 3e-3});
  // Without a selection it sees all twenty.
  std::vector<float> all(128, 0.0F);
  for (std::int64_t entry = 0; entry < 20; ++entry) {
    const std::vector<float> row = test::read_row(layer.compressed.pool(), layer.pages, entry);
    for (std::size_t i = 0; i < 128; ++i) all[i] += row[i] / 21;
  }
  const std::vector<float> own = test::read_row(layer.window.pool(), layer.pages, 39);
  for (std::size_t i = 0; i < 128; ++i) all[i] += own[i] / 21;
  EXPECT_CLOSE(run(layer, {1, {slice_at(layer, 39, 1)}, q, {}, {&sink, 1}, 1}, 1, GetParam()), all,
               {.norm = 3e-3});
}

TEST_P(SparseAttentionByHand, NothingSelectedLeavesTheWindowAndNothingAtAllGivesZeros) {
  Layer layer(4, 128, Precision::kExact, 0, 1);
  layer.fill(0, 40);
  const std::vector<float> q = test::random_values(128, 5), sink{0.3F};
  const std::vector<std::int32_t> none{-1, -1, -1};
  Layer window_only(0, 128, Precision::kExact, 0, 1);
  window_only.fill(0, 40);
  EXPECT_SAME_BITS(run(layer, {1, {slice_at(layer, 39, 1)}, q, none, sink}, 1, GetParam()),
                   run(window_only, {1, {slice_at(window_only, 39, 1)}, q, {}, sink}, 1, GetParam()));
  EXPECT_CLOSE(run(layer, {1, {slice_at(layer, 39, 1)}, q, none, sink, 0}, 1, GetParam()),
               std::vector<float>(128, 0.0F), {});
}

TEST_P(SparseAttentionByHand, TheWindowBeginsWhereTheSliceSays) {
  Layer layer(0, 128, Precision::kExact, 0, 1);
  layer.fill(20, 41);  // earlier rows are NaN
  const std::vector<float> q = test::random_values(2 * 128, 5), sink{0.3F};
  SequenceSlice slice = slice_at(layer, 39, 2);
  slice.window_begin = 20;
  const std::vector<float> got = run(layer, {1, {slice}, q, {}, sink}, 1, GetParam());
  EXPECT_SAME_BITS(
      std::span(got).last(128),
      run(layer, {1, {slice_at(layer, 40, 1)}, std::span(q).last(128), {}, sink, 21}, 1, GetParam()));
  slice.window_begin = 0;
  EXPECT_TRUE(std::isnan(run(layer, {1, {slice}, q, {}, sink}, 1, GetParam())[0]));
}

/// Starts of slices that see ahead: without a window before, with a part of one, with a whole one; in one
/// page and across the end of one.
constexpr std::int64_t kStartsAhead[] = {0, 1, 5, 127, 128, 251, 254, 300};

SequenceSlice seeing_ahead(SequenceSlice slice) {
  slice.sees_ahead = true;
  return slice;
}

/// Each row's list is that of a lone row at the slice's last position with a longer window.
TEST_P(SparseAttentionByHand, RowsThatSeeAheadAllHaveTheList) {
  for (const std::int64_t start : kStartsAhead) {
    for (const std::int64_t num_rows : {1, 5, 16}) {
      for (const std::int64_t window_begin : {std::int64_t{0}, start / 2, start}) {
        Layer layer(0, 128, Precision::kReleased, 0, 2);
        layer.fill(std::max(window_begin, start - 128), start + num_rows);  // other rows are NaN
        const auto size = static_cast<std::size_t>(num_rows * 128);
        const std::vector<float> q = test::random_values(size, 5), sink{0.3F};
        SequenceSlice slice = seeing_ahead(slice_at(layer, start, num_rows));
        slice.window_begin = window_begin;
        const std::vector<float> got = run(layer, {1, {slice}, q, {}, sink}, 1, GetParam());
        SequenceSlice last = slice_at(layer, start + num_rows - 1, 1);
        last.window_begin = window_begin;
        for (std::size_t row = 0; row < size; row += 128) {
          EXPECT_SAME_BITS(std::span(got).subspan(row, 128),
                           run(layer, {1, {last}, std::span(q).subspan(row, 128), {}, sink, 128 + num_rows},
                               1, GetParam()))
              << num_rows << " rows from " << start << ", window from " << window_begin << ", row "
              << row / 128;
        }
      }
    }
  }
}

TEST_P(SparseAttentionByHand, TheFirstRowSeesWhatTheLastOneHas) {
  Layer layer(0, 128, Precision::kReleased, 0, 2);
  layer.fill(0, 259);
  const std::vector<float> q = test::random_values(5 * 128, 5), sink{0.3F};
  const auto first_row = [&](bool ahead) {
    SequenceSlice slice = slice_at(layer, 254, 5);
    slice.sees_ahead = ahead;
    std::vector<float> out = run(layer, {1, {slice}, q, {}, sink}, 1, GetParam());
    out.resize(128);
    return out;
  };
  const std::vector<float> ahead = first_row(true), causal = first_row(false);
  test::write_row(layer.window.pool(), layer.pages, 258, layer.row(1'000, 1));
  EXPECT_NE(first_row(true), ahead);
  EXPECT_EQ(first_row(false), causal);
}

/// As ranks do that share out the rows of a step.
TEST_P(SparseAttentionByHand, ACutSliceSeesAheadAsTheWholeOneDoes) {
  Layer layer(0, 128, Precision::kReleased, 0, 2);
  layer.fill(0, 259);
  const std::vector<float> q = test::random_values(5 * 128, 5), sink{0.3F};
  const SequenceSlice whole = seeing_ahead(slice_at(layer, 254, 5));
  const std::vector<float> want = run(layer, {1, {whole}, q, {}, sink}, 1, GetParam());
  SequenceSlice middle = whole;
  middle.start += 1;
  middle.num_tokens = 3;
  middle.rows_before = middle.rows_behind = 1;
  EXPECT_SAME_BITS(run(layer, {1, {middle}, std::span(q).subspan(128, 3 * 128), {}, sink}, 1, GetParam()),
                   std::span(want).subspan(128, 3 * 128));
}

TEST_P(SparseAttentionByHand, NaNStaysVisible) {
  Layer layer(0, 128, Precision::kExact, 0, 1);
  layer.fill(0, 100);
  std::vector<float> q = test::random_values(2 * 128, 5);
  q[128 + 3] = std::nanf("");
  const std::vector<float> sink(2, 0.0F);
  const std::vector<float> out = run(layer, {2, {slice_at(layer, 99, 1)}, q, {}, sink}, 1, GetParam());
  EXPECT_FALSE(std::isnan(out[0]));
  EXPECT_TRUE(std::isnan(out[128]));
}

TEST(SparseAttentionDeathTest, NothingSeesAheadBesideCompressedEntries) {
  Layer layer(4, 128, Precision::kExact, 0, 1);
  layer.fill(0, 40);
  const std::vector<float> q(128, 0.0F), sink{0.3F};
  const std::vector<std::int32_t> none{-1};
  EXPECT_DEATH(run(layer, {1, {seeing_ahead(slice_at(layer, 39, 1))}, q, none, sink}, 1), "sees_ahead");
}

INSTANTIATE_TEST_SUITE_P(BothKernels, SparseAttentionByHand, testing::Values(test::kReference, test::kBest));

class SparseAttentionSimd : public test::EveryTarget {};

/// Ascending entries below what the row sees, then -1; every third row selects nothing.
std::vector<std::int32_t> selections(std::int64_t start, std::int64_t num_rows, std::int64_t top_k,
                                     int ratio = 4) {
  std::vector<std::int32_t> selected(static_cast<std::size_t>(num_rows * top_k), -1);
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const std::int64_t num_visible = (start + row + 1) / ratio;
    if (row % 3 == 2) continue;
    const std::int64_t count = std::min(top_k - row % 2, num_visible);
    for (std::int64_t i = 0; i < count; ++i) {
      selected[static_cast<std::size_t>(row * top_k + i)] =
          static_cast<std::int32_t>(num_visible * i / count);
    }
  }
  return selected;
}

std::vector<float> bf16_like(std::size_t count, std::uint32_t seed) {
  std::vector<float> values = test::random_values(count, seed, 3.0F);
  for (float& value : values) value = std::rint(value * 32) / 32;
  return values;
}

TEST_P(SparseAttentionSimd, AgreesWithTheReference) {
  for (const Precision precision : {Precision::kExact, Precision::kBf16, Precision::kReleased}) {
    // Scores reach 30, where float32 is 2e-6 coarse. BF16: weights and outputs round the other way here and
    // there.
    const double norm = precision == Precision::kExact ? 2e-6 : 1e-3;
    for (const int head_dim : {128, 512}) {
      for (const int ratio : {0, 4, 128}) {
        Layer layer(ratio, head_dim, precision, 0, 3);
        layer.fill(0, 600);
        for (const std::int64_t start : {0, 3, 62, 126, 255, 383, 510}) {
          constexpr std::int64_t kRows = 4, kTopK = 71;
          const std::int64_t num_heads = start % 2 == 0 ? 6 : 3;
          const std::vector<float> q = bf16_like(static_cast<std::size_t>(kRows * num_heads * head_dim), 9);
          std::vector<float> sink = test::random_values(static_cast<std::size_t>(num_heads), 3);
          sink[0] = -kInfinity;
          sink[1] = kInfinity;
          const auto selected = ratio == 4 ? selections(start, kRows, kTopK) : std::vector<std::int32_t>();
          const Step step{num_heads, {slice_at(layer, start, kRows)}, q, selected, sink};
          EXPECT_CLOSE(run(layer, step, 2), run(layer, step, 1, test::kReference), {.norm = norm})
              << precision_name(precision) << ", ratio " << ratio << ", position " << start;
        }
      }
    }
  }
}

TEST_P(SparseAttentionSimd, ChunksThreadsGroupsAndCompanyDoNotShow) {
  for (const int ratio : {0, 4, 128}) {
    Layer layer(ratio, 128, Precision::kReleased, 0, 2);
    layer.fill(0, 300);
    constexpr std::int64_t kStart = 120, kRows = 24, kTopK = 33, kHeads = 9, kRow = kHeads * 128;
    const std::vector<float> q = bf16_like((kRows + 1) * kRow, 9), sink = test::random_values(kHeads, 3);
    const std::int64_t num_selected = ratio == 4 ? kTopK : 0;
    const auto selected = selections(kStart, kRows + 1, num_selected);
    const auto part = [&](std::int64_t begin, std::int64_t end) {
      return std::pair{std::span(q).subspan(static_cast<std::size_t>(begin * kRow),
                                            static_cast<std::size_t>((end - begin) * kRow)),
                       std::span(selected).subspan(static_cast<std::size_t>(begin * num_selected),
                                                   static_cast<std::size_t>((end - begin) * num_selected))};
    };
    const auto [all_q, all_selected] = part(0, kRows);
    const std::vector<float> want =
        run(layer, {kHeads, {slice_at(layer, kStart, kRows)}, all_q, all_selected, sink}, 1);
    for (const int num_threads : {1, 2, 3}) {
      for (const std::int64_t chunk : {1, 5, 24}) {
        std::vector<float> got;
        for (std::int64_t begin = 0; begin < kRows; begin += chunk) {
          const std::int64_t end = std::min(kRows, begin + chunk);
          // A second sequence takes the row behind the chunk.
          const auto [some_q, some_selected] = part(begin, end + 1);
          const std::vector<SequenceSlice> slices{slice_at(layer, kStart + begin, end - begin),
                                                  slice_at(layer, 290, 1, end - begin)};
          const std::vector<float> out =
              run(layer, {kHeads, slices, some_q, some_selected, sink}, num_threads);
          got.insert(got.end(), out.begin(), out.end() - kRow);
        }
        EXPECT_SAME_BITS(got, want) << "ratio " << ratio << ", " << num_threads << " threads, chunks of "
                                    << chunk;
      }
    }
  }
}

/// Window rows of 528 bytes and entries of 288, of ratios 1 and 2, selected or not.
TEST_P(SparseAttentionSimd, AgreesWithTheReferenceOnRowsWithGroups) {
  for (const Precision precision : {Precision::kExact, Precision::kReleased}) {
    const double norm = precision == Precision::kExact ? 2e-6 : 1e-3;
    for (const int head_dim : {128, 512}) {
      for (const int ratio : {0, 1, 2}) {
        Layer layer = grouped_layer(ratio, head_dim, precision, 0, 2);
        layer.fill(0, 300);
        for (const bool selects : {true, false}) {
          for (const std::int64_t start : {0, 127, 289}) {
            constexpr std::int64_t kRows = 3, kTopK = 71, kHeads = 6;
            const std::vector<float> q = bf16_like(static_cast<std::size_t>(kRows * kHeads * head_dim), 9),
                                     sink = test::random_values(kHeads, 3);
            const auto selected =
                selects && ratio > 0 ? selections(start, kRows, kTopK, ratio) : std::vector<std::int32_t>();
            const Step step{kHeads, {slice_at(layer, start, kRows)}, q, selected, sink};
            EXPECT_CLOSE(run(layer, step, 2), run(layer, step, 1, test::kReference), {.norm = norm})
                << precision_name(precision) << ", ratio " << ratio << ", position " << start;
          }
        }
      }
    }
  }
}

TEST_P(SparseAttentionSimd, AgreesWithTheReferenceWhereRowsSeeAhead) {
  constexpr std::int64_t kHeads = 6, kRow = kHeads * 128;
  for (const Precision precision : {Precision::kExact, Precision::kReleased}) {
    const double norm = precision == Precision::kExact ? 2e-6 : 1e-3;
    Layer layer(0, 128, precision, 0, 2);
    layer.fill(0, 320);
    const std::vector<float> sink = test::random_values(kHeads, 3);
    for (const std::int64_t start : kStartsAhead) {
      // Beside a decode row, and a part of a prompt.
      const std::vector<float> q = bf16_like(12 * kRow, 9);
      SequenceSlice ahead = seeing_ahead(slice_at(layer, start, 5, 1));
      ahead.window_begin = start / 3;
      const Step step{kHeads, {slice_at(layer, 290, 1), ahead, slice_at(layer, 120, 6, 6)}, q, {}, sink};
      const std::vector<float> got = run(layer, step, 2);
      EXPECT_CLOSE(got, run(layer, step, 1, test::kReference), {.norm = norm})
          << precision_name(precision) << ", position " << start;
      ahead.first_row = 0;
      EXPECT_SAME_BITS(run(layer, {kHeads, {ahead}, std::span(q).subspan(kRow, 5 * kRow), {}, sink}, 3),
                       std::span(got).subspan(kRow, 5 * kRow))
          << precision_name(precision) << ", position " << start;
    }
  }
}

TEST_P(SparseAttentionSimd, FarPositionsThroughSparsePageTables) {
  for (const int ratio : {0, 4}) {
    Layer layer(ratio, 128, Precision::kReleased, 69'888 / 256, 2);
    layer.fill(69'888, 70'100);
    const std::vector<float> q = bf16_like(2 * 4 * 128, 9), sink(4, 0.0F);
    std::vector<std::int32_t> selected{17'472, 17'480, 17'500, -1, 17'473, 17'480, -1, -1};
    const Step step{4, {slice_at(layer, 70'016, 2)}, q, selected, sink};
    EXPECT_CLOSE(run(layer, step, 2), run(layer, step, 1, test::kReference), {.norm = 1e-3});
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, SparseAttentionSimd, testing::ValuesIn(test::compiled_targets()),
                         test::target_name);

}  // namespace
}  // namespace baleen
