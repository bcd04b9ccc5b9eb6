#include <gtest/gtest.h>

#include <vector>

#include "ops/rope/cuda/rope_angles.h"
#include "ops/rope/rope_frequencies.h"
#include "tests/support/compare.h"
#include "tests/support/test_cuda.h"

namespace baleen::BALEEN_ARCH {
namespace {

/// Both sides round a float64 function once: the same bits.
TEST(RopeAnglesOnGpu, AreTheCpusNumbers) {
  BALEEN_NEEDS_GPU();
  constexpr std::int64_t kPairs = 32, kPadding = 3;
  const YarnParams yarn;
  for (const YarnParams* scaling : {static_cast<const YarnParams*>(nullptr), &yarn}) {
    const std::vector<float> frequencies = rope_frequencies(10000.0F, 2 * kPairs, scaling);
    const std::vector<SequenceSlice> slices{
        {0, 300, 0, {}, {}}, {300, 1, 65'535, {}, {}}, {301, 40, 1'048'500, {}, {}}};
    const std::vector<TokenId> tokens(341);
    const RaggedBatch batch{tokens, slices};
    const auto num_rows = batch.num_rows();
    test::TestCuda cuda;
    cuda.set_batch(batch, kPadding);
    auto* cosine = cuda.allocate<float>((num_rows + kPadding) * kPairs);
    auto* sine = cuda.allocate<float>((num_rows + kPadding) * kPairs);
    BALEEN_ARCH::rope_angles({.frequencies = {cuda.upload(frequencies), frequencies.size()},
                              .batch = batch,
                              .cosine = {cosine, {num_rows + kPadding, kPairs}},
                              .sine = {sine, {num_rows + kPadding, kPairs}}},
                             cuda.context());
    cuda.synchronise();
    std::vector<float> want_cosine, want_sine;
    const auto add = [&](std::int64_t position) {
      want_cosine.resize(want_cosine.size() + kPairs);
      want_sine.resize(want_cosine.size());
      baleen::rope_angles(frequencies, position, std::span(want_cosine).last(kPairs),
                          std::span(want_sine).last(kPairs));
    };
    for (const SequenceSlice& slice : slices) {
      for (std::int64_t i = 0; i < slice.num_tokens; ++i) add(slice.start + i);
    }
    for (std::int64_t i = 0; i < kPadding; ++i) add(0);
    EXPECT_SAME_BITS(cuda.download(cosine, (num_rows + kPadding) * kPairs), want_cosine);
    EXPECT_SAME_BITS(cuda.download(sine, (num_rows + kPadding) * kPairs), want_sine);
  }
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
