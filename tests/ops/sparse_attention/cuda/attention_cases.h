/// Layers, steps and runs of attention on the device for its tests: the same rows by the references and by
/// the kernels of an architecture.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "ops/rope/rope.h"
#include "ops/sparse_attention/cuda/sparse_attention.h"
#include "tests/support/cache_pages.h"
#include "tests/support/compare.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cuda.h"

namespace baleen::BALEEN_ARCH::attention_cases {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr int kRope = 64;

/// Weights are rounded to BF16 relative to different maxima (whole powers of two here), by up to one part in
/// 2^8 and hardly averaged in short lists; then outputs are, twice.
inline constexpr test::Tolerance kTolerance{.norm = 5e-3};

inline std::vector<float> bf16_values(std::size_t count, std::uint32_t seed, float deviation = 1.0F) {
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
inline Layer v41_layer(int ratio, bool selects, int head_dim, std::int64_t begin, std::int64_t end) {
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

inline std::vector<float> angles(std::int64_t num_rows, std::uint32_t seed) {
  return test::random_values(static_cast<std::size_t>(num_rows * kRope / 2), seed, 0.7F);
}

/// By the reference, before the inverse rotation.
inline std::vector<float> attended(const Layer& layer, const Step& step) {
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
inline std::vector<float> want(const Layer& layer, const Step& step) {
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
inline std::vector<float> run(const Layer& layer, const Step& step, std::int64_t row_of_angles = 0,
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
inline std::vector<std::int32_t> selections(std::int64_t start, std::int64_t num_rows, std::int64_t top_k,
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
inline Step step_at(const Layer& layer, std::int64_t num_heads, std::int64_t start, std::int64_t num_rows,
                    std::int64_t top_k) {
  Step step{.num_heads = num_heads, .slices = {layer.slice(start, num_rows)}};
  step.q = bf16_values(static_cast<std::size_t>(num_rows * num_heads * layer.format.width()), 9, 2.0F);
  if (layer.selects) step.selected = selections(start, num_rows, top_k, layer.ratio);
  step.sink = test::random_values(static_cast<std::size_t>(num_heads), 3);
  return step;
}

/// Rows [begin, end) of a step whose only slice starts at `start`, with row `other` behind them as another
/// sequence.
inline Step part_of(const Layer& layer, const Step& step, std::int64_t begin, std::int64_t end,
                    std::int64_t other) {
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

/// That rows [from, from + chunk) of `all`, run with row `other` behind them as another sequence, have the
/// bits that they have in `got`, of the whole step.
inline void expect_same_bits_in_part(const Layer& layer, const Step& all, const std::vector<float>& got,
                                     std::int64_t from, std::int64_t chunk, std::int64_t other) {
  const auto row_size = static_cast<std::int64_t>(got.size()) / all.num_rows();
  const std::vector<float> part = run(layer, part_of(layer, all, from, from + chunk, other), from);
  EXPECT_SAME_BITS(std::span(part).first(static_cast<std::size_t>(chunk * row_size)),
                   std::span(got).subspan(static_cast<std::size_t>(from * row_size),
                                          static_cast<std::size_t>(chunk * row_size)))
      << all.num_heads << " heads, ratio " << layer.ratio << (layer.selects ? ", selected" : "") << ", "
      << chunk << " rows from " << from;
}

}  // namespace baleen::BALEEN_ARCH::attention_cases
