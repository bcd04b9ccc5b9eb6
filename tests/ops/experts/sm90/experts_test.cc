// Experts on the GPU: against plain loops over formats, geometries and numbers of tokens; a row's bits in
// whatever batch; padding rows, crowded and deserted experts, clamps, scales far apart, rows that are not
// finite.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <random>

#include <fmt/format.h>

#include "numeric/block_scale.h"
#include "numeric/e8m0.h"
#include "ops/experts/sm90/experts.h"
#include "tests/support/compare.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cuda.h"

namespace baleen::sm90 {
namespace {

using test::random_values;
using test::RandomWeight;
using test::TestCuda;

struct Geometry {
  std::int64_t width = 256;
  std::int64_t inner = 384;
  int num_experts = 7;
  WeightFormat routed = WeightFormat::kFp4;
  WeightFormat shared = WeightFormat::kFp8;
};

/// The weights of one layer, on the host and, in one piece for each matrix, on the device.
class Layer {
 public:
  Layer(TestCuda& cuda, const Geometry& geometry) : geometry_(geometry) {
    for (int expert = 0; expert < geometry.num_experts; ++expert) {
      host_.push_back(make_expert(geometry.routed, 100 * expert));
    }
    host_shared_ = make_expert(geometry.shared, 9999);
    upload(cuda);
  }

  /// Changes the FP4 scales of every expert's w1 and w2 and uploads again.
  template <class Change>
  void change_group_scales(TestCuda& cuda, Change&& change) {
    for (auto& expert : host_) {
      for (WeightMatrix* matrix : {&expert.w1, &expert.w2}) {
        for (std::int64_t row = 0; row < matrix->rows; ++row) {
          const std::int64_t groups = matrix->cols / 32;
          change(row, const_cast<std::uint8_t*>(matrix->group_scales) + row * groups, groups);
        }
      }
    }
    upload(cuda);
  }

  [[nodiscard]] const Geometry& geometry() const { return geometry_; }
  [[nodiscard]] const std::vector<ExpertWeights>& host() const { return host_; }
  [[nodiscard]] const ExpertWeights& host_shared() const { return host_shared_; }
  [[nodiscard]] const std::vector<ExpertWeights>& device() const { return device_; }
  [[nodiscard]] const ExpertWeights& device_shared() const { return device_shared_; }

 private:
  ExpertWeights make_expert(WeightFormat format, int seed) {
    const auto make = [&](std::int64_t rows, std::int64_t cols, int which) {
      owned_.push_back(
          std::make_unique<RandomWeight>(format, rows, cols, static_cast<std::uint32_t>(seed + which), 0));
      return owned_.back()->matrix();
    };
    return {make(geometry_.inner, geometry_.width, 0), make(geometry_.width, geometry_.inner, 1),
            make(geometry_.inner, geometry_.width, 2)};
  }

  void upload(TestCuda& cuda) {
    device_ = host_;
    for (WeightMatrix ExpertWeights::*which : {&ExpertWeights::w1, &ExpertWeights::w2, &ExpertWeights::w3}) {
      upload(cuda, device_, which);
      std::vector<ExpertWeights> one{host_shared_};
      upload(cuda, one, which);
      device_shared_.*which = one[0].*which;
    }
  }

  static void upload(TestCuda& cuda, std::vector<ExpertWeights>& experts,
                     WeightMatrix ExpertWeights::*which) {
    const WeightMatrix first = experts[0].*which;
    const std::int64_t bytes = first.rows * first.row_bytes();
    const std::int64_t groups = first.rows * (first.cols / 32);
    const std::int64_t blocks = (first.rows + 127) / 128 * ((first.cols + 127) / 128);
    std::vector<std::byte> data;
    std::vector<std::uint8_t> group_scales;
    std::vector<float> block_scales;
    for (const ExpertWeights& expert : experts) {
      const WeightMatrix& matrix = expert.*which;
      data.insert(data.end(), matrix.data, matrix.data + bytes);
      if (matrix.group_scales != nullptr)
        group_scales.insert(group_scales.end(), matrix.group_scales, matrix.group_scales + groups);
      if (matrix.block_scales != nullptr)
        block_scales.insert(block_scales.end(), matrix.block_scales, matrix.block_scales + blocks);
    }
    const std::byte* device_data = cuda.upload(data);
    const std::uint8_t* device_groups = cuda.upload(group_scales);
    const float* device_blocks = cuda.upload(block_scales);
    for (std::size_t i = 0; i < experts.size(); ++i) {
      WeightMatrix& matrix = experts[i].*which;
      matrix.data = device_data + static_cast<std::int64_t>(i) * bytes;
      if (matrix.group_scales != nullptr)
        matrix.group_scales = device_groups + static_cast<std::int64_t>(i) * groups;
      if (matrix.block_scales != nullptr)
        matrix.block_scales = device_blocks + static_cast<std::int64_t>(i) * blocks;
    }
  }

  Geometry geometry_;
  std::vector<std::unique_ptr<RandomWeight>> owned_;
  std::vector<ExpertWeights> host_, device_;
  ExpertWeights host_shared_, device_shared_;
};

struct Tokens {
  Tokens(const Geometry& geometry, std::int64_t count, std::int64_t num_selected, std::uint32_t seed)
      : num_rows(count),
        selected(num_selected),
        x(random_values(static_cast<std::size_t>(count * geometry.width), seed, 0.02F)) {
    std::mt19937 random(seed);
    for (float& value : x) value = round_bf16(value);
    for (std::int64_t row = 0; row < count; ++row) {
      std::vector<std::int32_t> order(static_cast<std::size_t>(geometry.num_experts) -
                                      1);  // the last is deserted
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      ids.insert(ids.end(), order.begin(), order.begin() + num_selected);
      for (std::int64_t k = 0; k < num_selected; ++k) weights.push_back(0.1F + 0.3F * static_cast<float>(k));
    }
  }
  [[nodiscard]] Tokens cut(std::int64_t begin, std::int64_t end) const {
    Tokens part = *this;
    const auto width = static_cast<std::int64_t>(x.size()) / num_rows;
    part.num_rows = end - begin;
    part.x.assign(x.begin() + begin * width, x.begin() + end * width);
    part.ids.assign(ids.begin() + begin * selected, ids.begin() + end * selected);
    part.weights.assign(weights.begin() + begin * selected, weights.begin() + end * selected);
    return part;
  }

  std::int64_t num_rows;
  std::int64_t selected;
  std::vector<float> x;
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
};

struct Options {
  bool with_shared = true;
  bool quantised = false;  ///< hand x_fp8 over
  float limit = 10.0F;
};

std::vector<float> run(TestCuda& cuda, const Layer& layer, const Tokens& tokens,
                       const Options& options = {}) {
  const std::int64_t width = layer.geometry().width, num_rows = tokens.num_rows;
  Bf16Bits* out = cuda.allocate<Bf16Bits>(num_rows * width);
  Fp8Rows x_fp8{};
  if (options.quantised) {
    const std::int64_t stride = (num_rows + 3) / 4 * 4;
    std::vector<std::uint8_t> codes(tokens.x.size());
    std::vector<float> scales(static_cast<std::size_t>(width / 128 * stride), 0.0F);
    for (std::int64_t row = 0; row < num_rows; ++row) {
      for (std::int64_t block = 0; block < width / 128; ++block) {
        const auto at = static_cast<std::size_t>(row * width + 128 * block);
        const std::uint8_t code =
            quantise_fp8_block(std::span(tokens.x).subspan(at, 128), std::span(codes).subspan(at, 128));
        scales[static_cast<std::size_t>(block * stride + row)] = e8m0_to_float(code);
      }
    }
    x_fp8 = {cuda.upload(codes), cuda.upload(scales), stride};
  }
  const Bf16Bits* x = cuda.upload_bf16(tokens.x);
  const std::int32_t* ids = cuda.upload(tokens.ids);
  const float* weights = cuda.upload(tokens.weights);
  const std::int64_t k = tokens.selected;
  EXPECT_LE(
      sm90::experts_scratch_bytes(num_rows, k, width, layer.geometry().inner, layer.geometry().num_experts),
      cuda.context().scratch.size_bytes());
  sm90::experts({.x = View<const Bf16Bits, 2>(x, {num_rows, width}),
                 .x_fp8 = x_fp8,
                 .ids = {ids, {num_rows, k}},
                 .weights = {weights, {num_rows, k}},
                 .routed = layer.device(),
                 .shared = options.with_shared ? &layer.device_shared() : nullptr,
                 .swiglu_limit = options.limit,
                 .out = View<Bf16Bits, 2>(out, {num_rows, width})},
                cuda.context());
  EXPECT_LE(cuda.context().scratch.peak_bytes(), cuda.context().scratch.size_bytes());
  EXPECT_EQ(cuda.context().scratch.mark(), 0);
  cuda.synchronise();
  return cuda.download_bf16(out, num_rows * width);
}

std::vector<float> reference(const Layer& layer, const Tokens& tokens, const Options& options = {}) {
  const std::int64_t width = layer.geometry().width;
  std::vector<float> out(static_cast<std::size_t>(tokens.num_rows * width), std::nanf(""));
  experts_ref({.x = {tokens.x.data(), {tokens.num_rows, width}},
               .ids = {tokens.ids.data(), {tokens.num_rows, tokens.selected}},
               .weights = {tokens.weights.data(), {tokens.num_rows, tokens.selected}},
               .routed = layer.host(),
               .shared = options.with_shared ? &layer.host_shared() : nullptr,
               .swiglu_limit = options.limit,
               .out = {out.data(), {tokens.num_rows, width}}});
  return out;
}

// The tensor core adds FP8 products with some 14 bits; sums that differ in the last places may round to the
// next BF16 or e4m3 value, and a flipped e4m3 input of w2 moves every output a little: a few units of 2^-9 in
// norm.
constexpr test::Tolerance kRounded{.norm = 8e-3};

TEST(ExpertsSm90, AgreeWithPlainLoops) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const std::pair<WeightFormat, WeightFormat> formats[] = {{WeightFormat::kFp4, WeightFormat::kFp8},
                                                           {WeightFormat::kFp8, WeightFormat::kFp8},
                                                           {WeightFormat::kBF16, WeightFormat::kBF16}};
  for (const auto& [routed, shared] : formats) {
    const Layer layer(cuda, {.routed = routed, .shared = shared});
    for (const std::int64_t num_rows : {1, 2, 9, 70}) {
      for (const bool with_shared : {false, true}) {
        SCOPED_TRACE(fmt::format("{} weights, {} rows, {} shared expert", weight_format_name(routed),
                                 num_rows, with_shared ? "with" : "without"));
        const Tokens tokens(layer.geometry(), num_rows, 3, 5);
        EXPECT_CLOSE(run(cuda, layer, tokens, {.with_shared = with_shared}),
                     reference(layer, tokens, {.with_shared = with_shared}), kRounded);
      }
    }
  }
}

TEST(ExpertsSm90, GeometriesOfSmallModels) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  // Also one block of 128 in either direction, an odd number of slices, and rows that fill no whole item.
  const Geometry geometries[] = {{256, 128, 8}, {256, 256, 16}, {128, 128, 3}, {384, 640, 4}, {640, 384, 4}};
  for (const Geometry& geometry : geometries) {
    const Layer layer(cuda, geometry);
    for (const std::int64_t num_rows : {1, 3, 80}) {
      SCOPED_TRACE(fmt::format("{} wide, {} inside, {} rows", geometry.width, geometry.inner, num_rows));
      const Tokens tokens(geometry, num_rows, 2, 6);
      EXPECT_CLOSE(run(cuda, layer, tokens), reference(layer, tokens), kRounded);
    }
  }
}

TEST(ExpertsSm90, RowsDoNotDependOnCompany) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  for (const WeightFormat routed : {WeightFormat::kFp4, WeightFormat::kFp8, WeightFormat::kBF16}) {
    const Geometry geometry{.width = 512,
                            .inner = 384,
                            .routed = routed,
                            .shared = routed == WeightFormat::kBF16 ? routed : WeightFormat::kFp8};
    const Layer layer(cuda, geometry);
    const Tokens tokens(geometry, 300, 4, 8);  // more rows an expert than a tile has
    const auto whole = run(cuda, layer, tokens);
    const std::int64_t width = geometry.width;
    for (const auto& [begin, end] :
         {std::pair{0, 1}, {1, 8}, {8, 24}, {8, 72}, {0, 65}, {100, 230}, {230, 300}, {299, 300}}) {
      SCOPED_TRACE(fmt::format("{} weights, rows [{}, {})", weight_format_name(routed), begin, end));
      const auto part = run(cuda, layer, tokens.cut(begin, end));
      EXPECT_SAME_BITS(part, std::span(whole).subspan(static_cast<std::size_t>(begin * width), part.size()));
    }
    EXPECT_SAME_BITS(run(cuda, layer, tokens), whole);
  }
}

TEST(ExpertsSm90, ATokenAloneIsTheSame) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  // Also odd numbers of slices, and more slots than the kernels of a single token take.
  for (const WeightFormat routed : {WeightFormat::kFp4, WeightFormat::kFp8}) {
    for (const auto& [width, inner] : {std::pair{512, 384}, {384, 128}, {128, 1152}}) {
      const Geometry geometry{.width = width, .inner = inner, .num_experts = 12, .routed = routed};
      const Layer layer(cuda, geometry);
      for (const std::int64_t num_selected : {1, 2, 5, 6, 8, 9}) {
        Tokens tokens(geometry, 3, num_selected, 31);
        tokens.ids[static_cast<std::size_t>(2 * num_selected - 1)] = -1;  // row 1 has a slot less
        for (const bool with_shared : {false, true}) {
          const auto whole = run(cuda, layer, tokens, {.with_shared = with_shared});
          for (const std::int64_t row : {0, 1}) {
            SCOPED_TRACE(fmt::format("{} weights, {} x {}, {} slots, {} shared expert, row {}",
                                     weight_format_name(routed), width, inner, num_selected,
                                     with_shared ? "with" : "without", row));
            EXPECT_SAME_BITS(run(cuda, layer, tokens.cut(row, row + 1), {.with_shared = with_shared}),
                             std::span(whole).subspan(static_cast<std::size_t>(row * width),
                                                      static_cast<std::size_t>(width)));
          }
        }
      }
    }
  }
}

TEST(ExpertsSm90, QuantisedRowsAreTheSame) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const Layer layer(cuda, {});
  for (const std::int64_t num_rows : {1, 5, 90}) {
    const Tokens tokens(layer.geometry(), num_rows, 3, 11);
    EXPECT_SAME_BITS(run(cuda, layer, tokens, {.quantised = true}), run(cuda, layer, tokens));
  }
}

TEST(ExpertsSm90, PaddingRowsHaveNoExpert) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const Layer layer(cuda, {});
  for (const std::int64_t num_rows : {4, 100}) {
    const Tokens tokens(layer.geometry(), num_rows, 3, 12);
    Tokens padded = tokens;
    const std::int64_t first_padding = num_rows - 3;
    std::fill(padded.ids.begin() + first_padding * 3, padded.ids.end(), -1);
    const auto count = static_cast<std::size_t>(first_padding * layer.geometry().width);
    const auto want = run(cuda, layer, tokens);
    const auto got = run(cuda, layer, padded);
    EXPECT_SAME_BITS(std::span(got).first(count), std::span(want).first(count));
    for (const float value : std::span(got).subspan(count)) EXPECT_TRUE(std::isfinite(value));
    // No token has any expert.
    std::fill(padded.ids.begin(), padded.ids.end(), -1);
    for (const Tokens& deserted : {padded, padded.cut(0, 1)}) {
      const auto none = run(cuda, layer, deserted, {.with_shared = false});
      EXPECT_EQ(none, std::vector<float>(none.size(), 0.0F));
    }
  }
}

TEST(ExpertsSm90, AllTokensHaveTheSameExperts) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const Layer layer(cuda, {});
  for (const std::int64_t num_rows : {40, 150}) {
    Tokens tokens(layer.geometry(), num_rows, 2, 13);
    for (std::int64_t row = 0; row < num_rows; ++row) {
      tokens.ids[static_cast<std::size_t>(2 * row)] = 6;
      tokens.ids[static_cast<std::size_t>(2 * row + 1)] = 0;
    }
    EXPECT_CLOSE(run(cuda, layer, tokens), reference(layer, tokens), kRounded);
  }
}

TEST(ExpertsSm90, ClampActsAndZeroLimitDoesNot) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const Layer layer(cuda, {});
  Tokens tokens(layer.geometry(), 2, 2, 4);
  for (float& value : tokens.x) value *= 512.0F;
  const auto clamped = run(cuda, layer, tokens, {.limit = 10.0F});
  EXPECT_CLOSE(clamped, reference(layer, tokens, {.limit = 10.0F}), kRounded);
  const auto free = run(cuda, layer, tokens, {.limit = 0.0F});
  EXPECT_CLOSE(free, reference(layer, tokens, {.limit = 0.0F}), kRounded);
  EXPECT_NE(test::difference(free, clamped, {.norm = 0.1}), "");
}

TEST(ExpertsSm90, ScalesFifteenBinadesApartAreExact) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  Layer layer(cuda, {});
  const Tokens tokens(layer.geometry(), 9, 3, 17);
  std::mt19937 random(3);
  layer.change_group_scales(cuda, [&](std::int64_t row, std::uint8_t* scales, std::int64_t groups) {
    for (std::int64_t i = 0; i < groups; ++i) {
      scales[i] = static_cast<std::uint8_t>(113 + (row % 2 == 0 ? random() % 15 : 14 * (random() % 2)));
    }
  });
  EXPECT_CLOSE(run(cuda, layer, tokens), reference(layer, tokens), kRounded);
}

TEST(ExpertsSm90, ScalesFartherApartCountAsNothing) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  Layer layer(cuda, {});
  const Tokens tokens(layer.geometry(), 9, 3, 18);
  // What is dropped is below 2^-14 of the row's largest values.
  layer.change_group_scales(cuda, [&](std::int64_t row, std::uint8_t* scales, std::int64_t groups) {
    for (std::int64_t i = 0; i < groups; ++i) {
      scales[i] = static_cast<std::uint8_t>(i == row % groups ? 127 : (row + i) % 3 == 0 ? 0 : 127 - 17);
    }
  });
  EXPECT_CLOSE(run(cuda, layer, tokens), reference(layer, tokens), kRounded);
}

TEST(ExpertsSm90, NaNStaysInItsRow) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const Layer layer(cuda, {});
  const std::int64_t width = layer.geometry().width;
  for (const std::int64_t num_rows : {3, 90}) {
    Tokens tokens(layer.geometry(), num_rows, 2, 6);
    tokens.x[static_cast<std::size_t>(width + 3)] = std::nanf("");
    const auto out = run(cuda, layer, tokens);
    for (std::int64_t row = 0; row < num_rows; ++row) {
      for (std::int64_t i = 0; i < width; ++i) {
        ASSERT_EQ(std::isnan(out[static_cast<std::size_t>(row * width + i)]), row == 1)
            << "row " << row << ", " << i;
      }
    }
  }
}

TEST(ExpertsSm90, NobodyAtAll) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const Layer layer(cuda, {});
  sm90::experts({.x = View<const Bf16Bits, 2>(nullptr, {0, 256}),
                 .ids = {nullptr, {0, 2}},
                 .weights = {static_cast<const float*>(nullptr), {0, 2}},
                 .routed = layer.device(),
                 .out = View<Bf16Bits, 2>(nullptr, {0, 256})},
                cuda.context());
  cuda.synchronise();
}

TEST(ExpertsSm90, ReleasedGeometry) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const Geometry geometry{.width = 4096, .inner = 2048, .num_experts = 4};
  const Layer layer(cuda, geometry);
  const Tokens tokens(geometry, 2, 3, 21);
  EXPECT_CLOSE(run(cuda, layer, tokens), reference(layer, tokens), kRounded);
  const Tokens many(geometry, 200, 3, 22);
  const auto whole = run(cuda, layer, many);
  const auto part = run(cuda, layer, many.cut(150, 152));
  EXPECT_SAME_BITS(part, std::span(whole).subspan(150 * 4096, part.size()));
  EXPECT_CLOSE(part, reference(layer, many.cut(150, 152)), kRounded);
}

/// Ranks that share the experts: each returns its own terms, in float32 and in the order of one rank.
TEST(ExpertsSm90, ARankAddsUpItsShare) {
  BALEEN_NEEDS_GPU();
  for (const WeightFormat format : {WeightFormat::kFp4, WeightFormat::kFp8, WeightFormat::kBF16}) {
    const Geometry geometry{.num_experts = 8,
                            .routed = format,
                            .shared = format == WeightFormat::kBF16 ? format : WeightFormat::kFp8};
    TestCuda cuda;
    const Layer layer(cuda, geometry);
    constexpr std::int64_t kShare = 4;
    for (const std::int64_t num_rows : {1, 5, 90}) {
      const Tokens tokens(geometry, num_rows, 2, 3);
      const std::vector<float> whole = run(cuda, layer, tokens, {.with_shared = false});
      const Bf16Bits* x = cuda.upload_bf16(tokens.x);
      const std::int32_t* ids = cuda.upload(tokens.ids);
      const float* weights = cuda.upload(tokens.weights);
      std::vector<std::vector<float>> sums;
      for (const std::int64_t first : {std::int64_t{0}, kShare}) {
        float* out = cuda.allocate<float>(num_rows * geometry.width);
        sm90::experts({.x = View<const Bf16Bits, 2>(x, {num_rows, geometry.width}),
                       .ids = {ids, {num_rows, 2}},
                       .weights = ConstActivations<2>(weights, {num_rows, 2}),
                       .routed = std::span(layer.device()).subspan(static_cast<std::size_t>(first), kShare),
                       .swiglu_limit = 10.0F,
                       .out = Activations<2>(out, {num_rows, geometry.width}),
                       .first_expert = first,
                       .partial_sums = true},
                      cuda.context());
        sums.push_back(cuda.download(out, num_rows * geometry.width));
      }
      for (std::size_t i = 0; i < whole.size(); ++i) {  // of two terms: their order does not matter
        ASSERT_EQ(whole[i], round_bf16(sums[0][i] + sums[1][i])) << num_rows << " rows, value " << i;
      }
      for (std::int64_t row = 0; row < num_rows; ++row) {
        const auto at = static_cast<std::size_t>(2 * row);
        if (tokens.ids[at] >= kShare || tokens.ids[at + 1] >= kShare) continue;
        for (std::int64_t i = 0; i < geometry.width; ++i)
          ASSERT_EQ(sums[1][static_cast<std::size_t>(row * geometry.width + i)], 0.0F);
      }
    }
  }
}

/// The shared expert alone, as ranks that send rows to routed ones compute it.
TEST(ExpertsSm90, TheSharedExpertAlone) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const Layer layer(cuda, {});
  const std::int64_t width = layer.geometry().width;
  for (const std::int64_t num_rows : {1, 5, 90}) {
    Tokens tokens(layer.geometry(), num_rows, 2, 3);
    std::ranges::fill(tokens.ids, -1);
    const std::vector<float> expected = run(cuda, layer, tokens);
    const Bf16Bits* x = cuda.upload_bf16(tokens.x);
    auto* out = cuda.allocate<Bf16Bits>(num_rows * width);
    sm90::experts({.x = View<const Bf16Bits, 2>(x, {num_rows, width}),
                   .ids = {nullptr, {num_rows, 0}},
                   .routed = layer.device(),
                   .shared = &layer.device_shared(),
                   .swiglu_limit = 10.0F,
                   .out = View<Bf16Bits, 2>(out, {num_rows, width})},
                  cuda.context());
    EXPECT_TRUE(cuda.download_bf16(out, num_rows * width) == expected) << num_rows;
  }
}

}  // namespace
}  // namespace baleen::sm90
