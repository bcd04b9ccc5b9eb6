// Attention on the device against the reference, and that neither chunks, batch composition nor launch shapes
// show in its bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ops/rope/rope.h"
#include "ops/sparse_attention/cuda/sparse_attention.h"
#include "tests/support/cache_pages.h"
#include "tests/support/compare.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cuda.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kRope = 64;

/// Weights are rounded to BF16 relative to different maxima (whole powers of two here), by up to one part in
/// 2^8 and hardly averaged in short lists; then outputs are, twice.
constexpr test::Tolerance kTolerance{.norm = 5e-3};

std::vector<float> bf16_values(std::size_t count, std::uint32_t seed, float deviation = 1.0F) {
  std::vector<float> values = test::random_values(count, seed, deviation);
  for (float& value : values) value = round_bf16(value);
  return values;
}

/// A layer's pools with the pages of one sequence. Window rows exist from `begin` on, entries of all
/// positions; what is not written is NaN.
struct Layer {
  int ratio;
  bool selects;
  LatentFormat format;
  std::vector<PageId> pages, window_pages;
  test::LatentPages window, compressed;

  Layer(int layer_ratio, int head_dim, std::int64_t begin, std::int64_t end,
        LatentLayout layout = LatentLayout::kV4)
      : Layer(layer_ratio, layer_ratio == 4, {head_dim - kRope, kRope, Precision::kReleased, layout},
              {head_dim - kRope, kRope, Precision::kReleased, layout}, begin, end) {}

  Layer(int layer_ratio, bool layer_selects, const LatentFormat& of_window, const LatentFormat& of_entries,
        std::int64_t begin, std::int64_t end)
      : ratio(layer_ratio),
        selects(layer_selects),
        format(of_window),
        pages(test::shuffled_pages(end / kPageTokens + 1, 0, 1)),
        window_pages(static_cast<std::size_t>(begin / kPageTokens), PageId::kNone),
        window(format, 256, end / kPageTokens + 1 - begin / kPageTokens),
        compressed(of_entries, ratio == 0 ? 1 : 256 / ratio, ratio == 0 ? 1 : end / kPageTokens + 1) {
    for (const PageId page : test::shuffled_pages(end / kPageTokens + 1 - begin / kPageTokens, 0, 2)) {
      window_pages.push_back(page);
    }
    const auto width = static_cast<std::size_t>(format.width());
    constexpr std::int64_t kOffsets = 4096;
    const std::vector<float> values = test::random_values(width + kOffsets, 3, 1.5F);
    for (std::int64_t position = begin; position < end; ++position) {
      test::write_row(window.pool(), window_pages, position,
                      std::span(values).subspan(static_cast<std::size_t>(position * 37 % kOffsets), width));
    }
    for (std::int64_t entry = 0; ratio != 0 && entry < end / ratio; ++entry) {
      test::write_row(compressed.pool(), pages, entry,
                      std::span(values).subspan(static_cast<std::size_t>(entry * 53 % kOffsets), width));
    }
  }
  [[nodiscard]] SequenceSlice slice(std::int64_t start, std::int64_t num_tokens,
                                    std::int64_t first_row = 0) const {
    return {first_row, num_tokens, start, pages, window_pages};
  }
};

/// Of V4.1: window rows of e4m3, entries of e2m1, with scales over all values.
Layer v41_layer(int ratio, bool selects, int head_dim, std::int64_t begin, std::int64_t end) {
  const auto format = [&](GroupedCodes codes) {
    return LatentFormat{
        .nope = head_dim - kRope, .rope = kRope, .grouped = GroupedRow{.codes = codes, .width = head_dim}};
  };
  return {ratio, selects, format(GroupedCodes::kFp8), format(GroupedCodes::kFp4), begin, end};
}

/// Queries, selections and sinks of a step of `num_rows` rows.
struct Step {
  std::int64_t num_heads = 1;
  std::vector<SequenceSlice> slices;
  std::vector<float> q;
  std::vector<std::int32_t> selected = {};
  std::vector<float> sink;
  std::int64_t window_tokens = 128;
  std::int32_t padding_rows = 0;

  [[nodiscard]] std::int64_t num_rows() const { return slices.back().first_row + slices.back().num_tokens; }
};

std::vector<float> angles(std::int64_t num_rows, std::uint32_t seed) {
  return test::random_values(static_cast<std::size_t>(num_rows * kRope / 2), seed, 0.7F);
}

/// By the reference, before the inverse rotation.
std::vector<float> attended(const Layer& layer, const Step& step) {
  const std::int64_t head_dim = layer.format.width(), value_width = layer.format.value_width();
  const std::int64_t num_rows = step.num_rows();
  const std::vector<TokenId> tokens(static_cast<std::size_t>(num_rows));
  std::vector<float> out(static_cast<std::size_t>(num_rows * step.num_heads * value_width));
  sparse_attention_ref({.q = {step.q.data(), {num_rows, step.num_heads, head_dim}},
                        .batch = {tokens, step.slices},
                        .window = layer.window.pool(),
                        .compressed = layer.ratio == 0 ? LatentPool{} : layer.compressed.pool(),
                        .ratio = layer.ratio,
                        .selected = {step.selected.data(),
                                     {num_rows, static_cast<std::int64_t>(step.selected.size()) / num_rows}},
                        .sink = step.sink,
                        .window_tokens = step.window_tokens,
                        .scale = 1.0F / std::sqrt(static_cast<float>(head_dim)),
                        .out = Activations<3>(out.data(), {num_rows, step.num_heads, value_width})});
  return out;
}

/// By the references, one after the other.
std::vector<float> want(const Layer& layer, const Step& step) {
  std::vector<float> out = attended(layer, step);
  if (layer.format.layout == LatentLayout::kV32) return out;
  const std::int64_t num_rows = step.num_rows();
  const std::vector<float> cosine = angles(num_rows, 11), sine = angles(num_rows, 12);
  rope_ref({.x = Activations<3>(out.data(), {num_rows, step.num_heads, layer.format.value_width()}),
            .cosine = {cosine.data(), {num_rows, kRope / 2}},
            .sine = {sine.data(), {num_rows, kRope / 2}},
            .inverse = true});
  return out;
}

/// On the device; `row_of_angles`: which of the references' angles row 0 has. Pools begin `offset` bytes
/// behind an aligned address. With padding rows, their output too.
std::vector<float> run(const Layer& layer, const Step& step, std::int64_t row_of_angles = 0,
                       std::int64_t offset = 0) {
  test::TestCuda cuda;
  const std::int64_t head_dim = layer.format.width(), rows = step.num_rows() + step.padding_rows;
  const auto upload_pool = [&](const test::LatentPages& pages) {
    LatentPool pool = pages.pool();
    const auto size = static_cast<std::int64_t>(pages.bytes().size());
    pool.base = cuda.allocate<std::byte>(size + offset) + offset;
    cuda.memory().upload(pool.base, pages.bytes());
    return pool;
  };
  const std::vector<TokenId> tokens(static_cast<std::size_t>(step.num_rows()));
  const RaggedBatch batch{tokens, step.slices};
  cuda.set_batch(batch, step.padding_rows);
  const std::int64_t value_width = layer.format.value_width(), width = step.num_heads * value_width;
  std::vector<float> q = step.q;
  q.resize(static_cast<std::size_t>(rows * step.num_heads * head_dim), 1.0F);
  const std::int64_t top_k = static_cast<std::int64_t>(step.selected.size()) / step.num_rows();
  std::vector<std::int32_t> selected = step.selected;
  selected.resize(static_cast<std::size_t>(rows * top_k), 0x7FFFFFFF);
  Bf16Bits* out = cuda.allocate<Bf16Bits>(rows * width);
  const auto upload_angles = [&](std::uint32_t seed) {
    const std::vector<float> all = angles(row_of_angles + rows, seed);
    return cuda.upload(std::span(all).subspan(static_cast<std::size_t>(row_of_angles * kRope / 2)));
  };
  const SparseAttentionArgs args{
      .q =
          ConstActivations<3>(View<const Bf16Bits, 3>(cuda.upload_bf16(q), {rows, step.num_heads, head_dim})),
      .batch = batch,
      .window = upload_pool(layer.window),
      .compressed = layer.ratio == 0 ? LatentPool{} : upload_pool(layer.compressed),
      .ratio = layer.ratio,
      .selected = {cuda.upload(selected), {rows, top_k}},
      .sink = {cuda.upload(step.sink), step.sink.size()},
      .window_tokens = step.window_tokens,
      .scale = 1.0F / std::sqrt(static_cast<float>(head_dim)),
      .out = View<Bf16Bits, 3>(out, {rows, step.num_heads, value_width})};
  const RopeArgs turn{.x = args.out,
                      .cosine = {upload_angles(11), {rows, kRope / 2}},
                      .sine = {upload_angles(12), {rows, kRope / 2}},
                      .inverse = true};
  if (layer.format.layout == LatentLayout::kV32) {
    BALEEN_ARCH::sparse_attention(args, cuda.context());
  } else {
    BALEEN_ARCH::sparse_attention_rope(args, turn, cuda.context());
  }
  cuda.synchronise();
  return cuda.download_bf16(out, rows * width);
}

/// Ascending entries below what the row sees, then -1; every third row selects nothing.
std::vector<std::int32_t> selections(std::int64_t start, std::int64_t num_rows, std::int64_t top_k,
                                     int ratio) {
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

/// `num_rows` rows of the layer's sequence from `start` on.
Step step_at(const Layer& layer, std::int64_t num_heads, std::int64_t start, std::int64_t num_rows,
             std::int64_t top_k) {
  Step step{.num_heads = num_heads, .slices = {layer.slice(start, num_rows)}};
  step.q = bf16_values(static_cast<std::size_t>(num_rows * num_heads * layer.format.width()), 9, 2.0F);
  if (layer.selects) step.selected = selections(start, num_rows, top_k, layer.ratio);
  step.sink = test::random_values(static_cast<std::size_t>(num_heads), 3);
  return step;
}

/// Rows [begin, end) of a step whose only slice starts at `start`, with row `other` behind them as another
/// sequence.
Step part_of(const Layer& layer, const Step& step, std::int64_t begin, std::int64_t end, std::int64_t other) {
  const std::int64_t start = step.slices[0].start, num_rows = step.num_rows();
  const auto q_row = static_cast<std::int64_t>(step.q.size()) / num_rows;
  const auto top_k = static_cast<std::int64_t>(step.selected.size()) / num_rows;
  Step part{.num_heads = step.num_heads,
            .slices = {layer.slice(start + begin, end - begin), layer.slice(start + other, 1, end - begin)},
            .sink = step.sink,
            .window_tokens = step.window_tokens};
  const auto append_rows = [&](std::int64_t from, std::int64_t to) {
    part.q.insert(part.q.end(), step.q.begin() + from * q_row, step.q.begin() + to * q_row);
    part.selected.insert(part.selected.end(), step.selected.begin() + from * top_k,
                         step.selected.begin() + to * top_k);
  };
  append_rows(begin, end);
  append_rows(other, other + 1);
  return part;
}

struct Geometry {
  std::int64_t num_heads;
  int head_dim;
};

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

TEST(SparseAttentionOnGpu, AgreesOnRowsOfV41) {
  BALEEN_NEEDS_GPU();
  for (const Geometry geometry : {Geometry{4, 128}, {8, 512}, {64, 512}, {80, 512}}) {
    for (const int ratio : {0, 1, 2}) {
      for (const bool selects : {false, true}) {
        if (ratio == 0 && selects) continue;
        const Layer layer = v41_layer(ratio, selects, geometry.head_dim, 0, 420);
        for (const std::int64_t start : {0, 1, 127, 254, 401}) {
          if (geometry.num_heads >= 64 && start != 1 && start != 401) continue;
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

TEST(SparseAttentionOnGpu, ChunksAndLaunchShapesDoNotShowOnRowsOfV41) {
  BALEEN_NEEDS_GPU();
  constexpr std::int64_t kStart = 1'000, kRows = 150, kTopK = 512;
  for (const Geometry geometry : {Geometry{8, 128}, {32, 512}, {64, 512}, {128, 512}}) {
    for (const int ratio : {0, 1, 2}) {
      const Layer layer = v41_layer(ratio, ratio != 0, geometry.head_dim, kStart - 128, kStart + kRows);
      const Step all = step_at(layer, geometry.num_heads, kStart, kRows, kTopK);
      const std::vector<float> got = run(layer, all);
      const auto row_size = static_cast<std::int64_t>(got.size()) / kRows;
      for (const std::int64_t chunk : {1, 2, 7, 40}) {
        const std::int64_t from = chunk % 5;
        const std::vector<float> part = run(layer, part_of(layer, all, from, from + chunk, 140), from);
        EXPECT_SAME_BITS(std::span(part).first(static_cast<std::size_t>(chunk * row_size)),
                         std::span(got).subspan(static_cast<std::size_t>(from * row_size),
                                                static_cast<std::size_t>(chunk * row_size)))
            << geometry.num_heads << " x " << geometry.head_dim << ", ratio " << ratio << ", chunks of "
            << chunk;
      }
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
TEST(SparseAttentionOnGpu, EveryCodeOfRowsOfV41IsItsValue) {
  BALEEN_NEEDS_GPU();
  for (const std::int64_t num_rows : {1, 200}) {  // by two kernels, and by one
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
        Step step = step_at(layer, 8, 255, num_rows, 4);
        step.window_tokens = of_entry ? 0 : 1;
        for (std::size_t i = 0; i < step.selected.size(); ++i)
          step.selected[i] = of_entry && i % 4 == 0 ? static_cast<std::int32_t>(i / 4) : -1;
        std::fill(step.sink.begin(), step.sink.end(), -kInfinity);
        std::fill(step.q.begin(), step.q.end(), 0.0F);
        EXPECT_EQ(beyond_rotation(run(layer, step), attended(layer, step), step), "")
            << num_rows << (of_entry ? " rows, entries " : " rows, positions ") << seed;
      }
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
      const auto row_size = static_cast<std::int64_t>(got.size()) / kRows;
      for (const std::int64_t chunk : {1, 2, 7, 40}) {
        const std::int64_t begin = chunk % 5;
        for (const std::int64_t repeat : {0, 1}) {
          const std::int64_t from = begin + repeat * chunk;
          const std::vector<float> part = run(layer, part_of(layer, all, from, from + chunk, 140), from);
          EXPECT_SAME_BITS(std::span(part).first(static_cast<std::size_t>(chunk * row_size)),
                           std::span(got).subspan(static_cast<std::size_t>(from * row_size),
                                                  static_cast<std::size_t>(chunk * row_size)))
              << geometry.num_heads << " x " << geometry.head_dim << ", ratio " << ratio << ", chunks of "
              << chunk;
        }
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
      const auto row_size = static_cast<std::int64_t>(got.size()) / kRows;
      for (const auto& [from, chunk] : {std::pair<std::int64_t, std::int64_t>{0, 150}, {3, 290}}) {
        const std::vector<float> part = run(layer, part_of(layer, all, from, from + chunk, 140), from);
        EXPECT_SAME_BITS(std::span(part).first(static_cast<std::size_t>(chunk * row_size)),
                         std::span(got).subspan(static_cast<std::size_t>(from * row_size),
                                                static_cast<std::size_t>(chunk * row_size)))
            << num_heads << " heads, ratio " << ratio << ", " << chunk << " rows";
      }
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
  const auto row_size = static_cast<std::int64_t>(got.size()) / 36;
  for (const std::int64_t chunk : {1, 3, 9}) {
    const std::vector<float> part = run(layer, part_of(layer, all, 5, 5 + chunk, 30), 5);
    EXPECT_SAME_BITS(std::span(part).first(static_cast<std::size_t>(chunk * row_size)),
                     std::span(got).subspan(static_cast<std::size_t>(5 * row_size),
                                            static_cast<std::size_t>(chunk * row_size)))
        << "chunks of " << chunk;
  }
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
}  // namespace baleen::BALEEN_ARCH
