#include "ops/embed/cuda/embed.h"
#include "tests/support/compare.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cuda.h"

namespace baleen::BALEEN_ARCH {
namespace {

TEST(EmbedOnGpu, RepeatsTheRowOnEveryStreamAndPadsWithTokenZero) {
  BALEEN_NEEDS_GPU();
  constexpr std::int64_t kVocabulary = 40;
  for (const std::int64_t width : {8, 136, 256, 7168}) {
    for (const std::int64_t streams : {1, 4}) {
      test::TestCuda cuda;
      const std::vector<float> table = test::random_values(static_cast<std::size_t>(kVocabulary * width), 3);
      std::vector<Bf16Bits> bits;
      for (const float value : table) bits.push_back(float_to_bf16(value));
      const std::vector<TokenId> tokens = {39, 0, 7, 7, 1};
      const std::vector<PageId> pages;
      const std::vector<SequenceSlice> slices = {{.num_tokens = 5}};
      cuda.set_batch({.tokens = tokens, .slices = slices}, 2);
      Bf16Bits* out = cuda.allocate<Bf16Bits>(7 * streams * width);
      BALEEN_ARCH::embed({.table = {cuda.upload(bits), {kVocabulary, width}},
                          .out = View<Bf16Bits, 3>(out, {7, streams, width})},
                         cuda.context());
      cuda.synchronise();
      const std::vector<TokenId> padded = {39, 0, 7, 7, 1, 0, 0};
      std::vector<float> want(static_cast<std::size_t>(7 * streams * width));
      embed_ref({.tokens = padded,
                 .table = {bits.data(), {kVocabulary, width}},
                 .out = {want.data(), {7, streams, width}}});
      EXPECT_SAME_BITS(cuda.download_bf16(out, 7 * streams * width), want);
    }
  }
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
