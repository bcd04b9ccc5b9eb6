// Hopper's kernels of experts for up to four tokens against those of few and many, to the bit.
#include <gtest/gtest.h>

#include <algorithm>

#include <fmt/format.h>

#include "ops/experts/sm90/experts.h"
#include "tests/support/expert_problem.h"

namespace baleen::sm90 {
namespace {

constexpr ExpertSplit kBoth{.routed = true, .shared = true};

/// Kernels that stream weights for up to four tokens: tokens with all, some and none of their experts in
/// common, an expert twice, slots without any, odd numbers of slices.
TEST(FourTokenExpertsSm90, FourTokensAreTheSame) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  for (const WeightFormat routed : {WeightFormat::kFp4, WeightFormat::kFp8}) {
    for (const auto& [width, inner, shared_inner] : {std::tuple{512, 384, 384},
                                                     {384, 128, 128},
                                                     {128, 1152, 512},
                                                     {4096, 1024, 1024},
                                                     {4096, 2048, 1024}}) {
      const Geometry geometry{
          .width = width, .inner = inner, .num_experts = 13, .routed = routed, .shared_inner = shared_inner};
      const Layer layer(cuda, geometry);
      for (const std::int64_t num_selected : {1, 3, 6, 8}) {
        for (const std::int64_t num_rows : {1, 2, 3, 4}) {
          for (const int kind : {0, 1, 2, 3}) {
            Tokens tokens(geometry, num_rows, num_selected, static_cast<std::uint32_t>(31 + kind));
            const std::size_t count = tokens.ids.size();
            if (kind == 1) {  // those of the first token, in another order; padding at the end
              const std::vector<std::int32_t> first(tokens.ids.begin(), tokens.ids.begin() + num_selected);
              for (std::size_t i = 0; i < count; ++i)
                tokens.ids[i] = first[(i + i / first.size()) % first.size()];
              tokens.ids[count - 1] = -1;
            }
            if (kind == 3) std::ranges::fill(tokens.ids, 5);
            if (kind == 2) tokens.ids[count - 1] = tokens.ids[0];
            for (const bool with_shared : {false, true}) {
              SCOPED_TRACE(fmt::format("{} weights, {} x {} ({}), {} slots, {} rows, kind {}, {} shared",
                                       weight_format_name(routed), width, inner, shared_inner, num_selected,
                                       num_rows, kind, with_shared ? "with" : "without"));
              for (const ExpertSplit split : {ExpertSplit{}, kBoth}) {
                if (!split.shared && shared_inner != inner) continue;  // whole experts have one width
                const std::vector<float> few =
                    run(cuda, layer, tokens,
                        {.with_shared = with_shared, .split = split, .run = experts_few_tokens});
                EXPECT_SAME_BITS(
                    run(cuda, layer, tokens,
                        {.with_shared = with_shared, .split = split, .run = experts_four_tokens}),
                    few);
                if (width == 512) {
                  EXPECT_SAME_BITS(
                      run(cuda, layer, tokens,
                          {.with_shared = with_shared, .split = split, .run = experts_many_tokens}),
                      few);
                }
              }
            }
          }
        }
      }
    }
  }
}

/// Ranks with some of the experts: each its own terms of four tokens' sums.
TEST(FourTokenExpertsSm90, FourTokensOfARank) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const Geometry geometry{.num_experts = 8};
  const Layer layer(cuda, geometry);
  const std::int64_t num_rows = 4, width = geometry.width;
  const Tokens tokens(geometry, num_rows, 3, 3);
  const Bf16Bits* x = cuda.upload_bf16(tokens.x);
  const std::int32_t* ids = cuda.upload(tokens.ids);
  const float* weights = cuda.upload(tokens.weights);
  for (const std::int64_t first : {0, 4}) {
    std::vector<std::vector<float>> sums;
    for (const auto run : {experts_four_tokens, experts_few_tokens}) {
      float* out = cuda.allocate<float>(num_rows * width);
      run({.x = View<const Bf16Bits, 2>(x, {num_rows, width}),
           .ids = {ids, {num_rows, 3}},
           .weights = ConstActivations<2>(weights, {num_rows, 3}),
           .routed = std::span(layer.device()).subspan(static_cast<std::size_t>(first), 4),
           .shared = &layer.device_shared(),
           .swiglu_limit = 10.0F,
           .out = Activations<2>(out, {num_rows, width}),
           .first_expert = first,
           .partial_sums = true,
           .split = {.shared = true}},
          cuda.context());
      sums.push_back(cuda.download(out, num_rows * width));
    }
    EXPECT_SAME_BITS(sums[0], sums[1]);
  }
}

}  // namespace
}  // namespace baleen::sm90
