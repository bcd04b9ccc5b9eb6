// Logits on the GPU against plain loops.
#include <gtest/gtest.h>

#include <array>
#include <span>
#include <vector>

#include "ops/lm_head/cuda/lm_head.h"
#include "tests/support/compare.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cuda.h"

namespace baleen::BALEEN_ARCH {
namespace {

TEST(LmHeadOnGpu, AgreesWithPlainLoops) {
  BALEEN_NEEDS_GPU();
  for (const auto& [num_rows, vocabulary, width] :
       {std::array<std::int64_t, 3>{1, 4096, 256}, std::array<std::int64_t, 3>{5, 32768, 256},
        std::array<std::int64_t, 3>{70, 20001, 128}}) {
    test::TestCuda cuda;
    const test::RandomWeight weight(WeightFormat::kBF16, vocabulary, width, 1);
    std::vector<float> x = test::random_values(static_cast<std::size_t>(num_rows * width), 2);
    for (float& value : x) value = round_bf16(value);
    WeightMatrix device = weight.matrix();
    device.data =
        cuda.upload(std::span(device.data, static_cast<std::size_t>(vocabulary * device.row_bytes())));
    auto* logits = cuda.allocate<float>(num_rows * vocabulary);
    BALEEN_ARCH::lm_head({.x = View<const Bf16Bits, 2>(cuda.upload_bf16(x), {num_rows, width}),
                          .weight = &device,
                          .logits = Activations<2>(logits, {num_rows, vocabulary})},
                         cuda.context());
    std::vector<float> want(static_cast<std::size_t>(num_rows * vocabulary));
    matmul_ref(weight.matrix(), {x.data(), {num_rows, width}}, ActivationRounding::kNone, false,
               {want.data(), {num_rows, vocabulary}});
    // Low bits that tensor cores cut, see ops/matmul/cuda/matmul_bf16_test.cc.
    EXPECT_CLOSE(cuda.download(logits, num_rows * vocabulary), want, {.norm = 1e-5}) << num_rows << " rows";
  }
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
