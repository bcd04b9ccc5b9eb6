// Experts on the GPU whose inner width is split over ranks: outputs that are not rounded before they are
// added, shared experts of another width than routed ones.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "tests/support/expert_problem.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr ExpertSplit kBoth{.routed = true, .shared = true}, kShared{.shared = true}, kRouted{.routed = true};

/// A part as wide as routed experts, narrower, or wider.
TEST(SplitExpertsOnGpu, AgreeWithPlainLoops) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  for (const WeightFormat routed :
       {WeightFormat::kFp4, WeightFormat::kFp8, WeightFormat::kNvfp4, WeightFormat::kBF16}) {
    const WeightFormat shared = routed == WeightFormat::kBF16 ? routed : WeightFormat::kFp8;
    for (const auto& [inner, shared_inner, split] :
         {std::tuple{384, 384, kBoth}, {512, 256, kShared}, {256, 640, kRouted}, {640, 512, kBoth}}) {
      const Layer layer(cuda,
                        {.inner = inner, .routed = routed, .shared = shared, .shared_inner = shared_inner});
      for (const std::int64_t num_rows : {1, 3, 4, 9, 70}) {
        SCOPED_TRACE(fmt::format("{} weights, {} and {} inside, {} rows", weight_format_name(routed), inner,
                                 shared_inner, num_rows));
        const Tokens tokens(layer.geometry(), num_rows, 3, 5);
        const std::vector<float> found = run(cuda, layer, tokens, {.split = split});
        EXPECT_CLOSE(found, reference(layer, tokens, {.split = split}), kRounded);
        // A row's bits are the same in whatever batch.
        const std::int64_t row = num_rows / 2, width = layer.geometry().width;
        EXPECT_SAME_BITS(
            run(cuda, layer, tokens.cut(row, row + 1), {.split = split}),
            std::span(found).subspan(static_cast<std::size_t>(row * width), static_cast<std::size_t>(width)));
      }
    }
  }
}

/// An output alone, rounded afterwards, is that of a whole expert of the same weights.
TEST(SplitExpertsOnGpu, OutputsAreNotRounded) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  for (const WeightFormat routed : {WeightFormat::kFp4, WeightFormat::kNvfp4, WeightFormat::kBF16}) {
    const Layer layer(cuda, {.routed = routed});
    for (const std::int64_t num_rows : {1, 4, 20, 150}) {
      SCOPED_TRACE(num_rows);
      const Tokens tokens(layer.geometry(), num_rows, 1, 8);
      const std::vector<float> whole = run(cuda, layer, tokens, {.with_shared = false});
      const std::vector<float> part = run(cuda, layer, tokens, {.with_shared = false, .split = kBoth});
      int num_rounded = 0;
      for (std::size_t i = 0; i < whole.size(); ++i) {
        ASSERT_EQ(round_bf16(part[i]), whole[i]) << i;
        num_rounded += part[i] == whole[i] ? 1 : 0;
      }
      EXPECT_LT(num_rounded, std::ssize(whole) / 4);
    }
  }
}

TEST(SplitExpertsOnGpu, TheirScratchIsPlanned) {
  BALEEN_NEEDS_GPU();
  for (const ExpertSplit split : {kBoth, kShared, kRouted}) {
    for (const std::int64_t num_rows : {4, 60, 150}) {
      TestCuda cuda;
      const Layer layer(cuda, {});
      Call call(cuda, layer, Tokens(layer.geometry(), num_rows, 3, 5), {.split = split});
      (void)call.run();
      EXPECT_LE(cuda.context().scratch.peak_bytes(), call.scratch_bytes()) << num_rows;
    }
  }
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
