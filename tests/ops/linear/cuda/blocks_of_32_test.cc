// Linear layers of DeepSeek-V4.1 on the GPU: FP8 weights in blocks of 32 x 32, activations rounded per 32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "numeric/bf16.h"
#include "numeric/block_scale.h"
#include "ops/linear/cuda/linear.h"
#include "ops/linear/cuda/quantise_rows.h"
#include "tests/support/compare.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cuda.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr double kF32Norm = 1e-5;   // low bits that tensor cores cut (ops/matmul/cuda/matmul_bf16_test.cc)
constexpr double kBf16Norm = 3e-3;  // rounding of the outputs

/// A weight here and on the device.
struct Weight {
  Weight(test::TestCuda& cuda, std::int64_t rows, std::int64_t cols, std::uint32_t seed)
      : host(WeightFormat::kFp8x32, rows, cols, seed, 0), device(host.matrix()) {
    device.data = cuda.upload(std::span(device.data, static_cast<std::size_t>(rows * cols)));
    device.group_scales =
        cuda.upload(std::span(device.group_scales, static_cast<std::size_t>(device.num_scales())));
  }
  test::RandomWeight host;
  WeightMatrix device;
};

/// BF16 values whose groups of 32 are binades apart: some are zero, some below the least scale.
std::vector<float> random_rows(std::int64_t num_rows, std::int64_t num_inputs, std::uint32_t seed) {
  auto x = test::random_values(static_cast<std::size_t>(num_rows * num_inputs), seed);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t group = (i / 32 * 2654435761U >> 7) % 9;
    x[i] = group == 0 ? 0.0F : round_bf16(std::ldexp(x[i], group == 1 ? -24 : static_cast<int>(group) - 5));
  }
  return x;
}

ConstActivations<2> upload_rows(test::TestCuda& cuda, const std::vector<float>& x, std::int64_t num_inputs) {
  const auto num_rows = static_cast<std::int64_t>(x.size()) / num_inputs;
  return {
      reinterpret_cast<const std::byte*>(cuda.upload_bf16(x)), ElementType::kBf16, {num_rows, num_inputs}};
}

std::vector<float> run(test::TestCuda& cuda, const Weight& weight, const std::vector<float>& x,
                       bool keep_f32) {
  const std::int64_t num_inputs = weight.device.cols;
  const auto num_rows = static_cast<std::int64_t>(x.size()) / num_inputs;
  const std::int64_t count = num_rows * weight.device.rows;
  const ElementType type = keep_f32 ? ElementType::kF32 : ElementType::kBf16;
  auto* const y = cuda.allocate<std::byte>(count * size_of(type));
  const LinearOutput output{&weight.device, Activations<2>(y, type, {num_rows, weight.device.rows}),
                            keep_f32};
  BALEEN_ARCH::linear({.x = upload_rows(cuda, x, num_inputs), .outputs = {&output, 1}}, cuda.context());
  cuda.synchronise();
  return keep_f32 ? cuda.download(reinterpret_cast<const float*>(y), count)
                  : cuda.download_bf16(reinterpret_cast<const Bf16Bits*>(y), count);
}

std::vector<float> reference(const Weight& weight, std::vector<float>& x, bool keep_f32) {
  const WeightMatrix& matrix = weight.host.matrix();
  const auto num_rows = static_cast<std::int64_t>(x.size()) / matrix.cols;
  std::vector<float> y(static_cast<std::size_t>(num_rows * matrix.rows));
  matmul_ref(matrix, {x.data(), {num_rows, matrix.cols}}, ActivationRounding::kFp8x32, !keep_f32,
             {y.data(), {num_rows, matrix.rows}});
  return y;
}

TEST(BlocksOf32OnGpu, RoundedRowsAreTheReference) {
  BALEEN_NEEDS_GPU();
  test::TestCuda cuda;
  for (const auto& [num_rows, num_inputs] : {std::pair{1, 128}, {3, 384}, {65, 1280}}) {
    auto x = random_rows(num_rows, num_inputs, 1);
    x[33] = 3e38F;
    x[65 % x.size()] = std::numeric_limits<float>::infinity();
    x[97 % x.size()] = 0x1p-133F;
    for (float& value : x) value = round_bf16(value);
    auto* const rounded = cuda.allocate<Bf16Bits>(num_rows * num_inputs);
    BALEEN_ARCH::round_rows(upload_rows(cuda, x, num_inputs), rounded, cuda.context());
    cuda.synchronise();
    const auto got = cuda.download_bf16(rounded, num_rows * num_inputs);
    simulate_fp8(x, 32);
    ASSERT_SAME_BITS(got, x);
  }
}

TEST(BlocksOf32OnGpu, AgreeWithTheReference) {
  BALEEN_NEEDS_GPU();
  struct Case {
    std::int64_t num_rows, num_outputs, num_inputs;
  };
  // Every tile of tokens; outputs that end within a block, and within the half of one; odd numbers of slices;
  // the shapes of wq_a, wkv and an indexer's wq_b; wq_b and wo_b of one of two ranks, and wo_b whole.
  for (const auto& [num_rows, num_outputs, num_inputs] : {Case{1, 8, 128},
                                                          {1, 136, 4736},
                                                          {7, 248, 1408},
                                                          {9, 1048, 1280},
                                                          {17, 128, 384},
                                                          {33, 2056, 640},
                                                          {64, 200, 1024},
                                                          {65, 120, 256},
                                                          {200, 376, 512},
                                                          {300, 4104, 256},
                                                          {2, 1280, 5120},
                                                          {5, 512, 5120},
                                                          {3, 4096, 1280},
                                                          {8, 16384, 1280},
                                                          {1, 5120, 8192},
                                                          {6, 5128, 4096},
                                                          {1, 264, 8320}}) {
    test::TestCuda cuda;
    const Weight weight(cuda, num_outputs, num_inputs, 11);
    auto x = random_rows(num_rows, num_inputs, 12);
    SCOPED_TRACE(testing::Message() << num_rows << " x " << num_outputs << " x " << num_inputs);
    EXPECT_CLOSE(run(cuda, weight, x, true), reference(weight, x, true), {.norm = kF32Norm});
    EXPECT_CLOSE(run(cuda, weight, x, false), reference(weight, x, false), {.norm = kBf16Norm});
  }
}

TEST(BlocksOf32OnGpu, RowsDoNotDependOnCompany) {
  BALEEN_NEEDS_GPU();
  for (const auto& [num_outputs, num_inputs] : {std::pair<std::int64_t, std::int64_t>{648, 2304},
                                                {4112, 640},
                                                {1792, 5120},
                                                {5160, 4096},
                                                {17000, 384},
                                                {136, 8192}}) {
    test::TestCuda cuda;
    constexpr std::int64_t kRows = 300;
    const Weight weight(cuda, num_outputs, num_inputs, 31);
    const auto x = random_rows(kRows, num_inputs, 32);
    const auto whole = run(cuda, weight, x, true);
    for (const auto& [begin, end] : {std::pair{0, 1},
                                     {299, 300},
                                     {40, 46},
                                     {3, 11},
                                     {7, 16},
                                     {100, 117},
                                     {64, 128},
                                     {1, 66},
                                     {0, 127},
                                     {171, 300}}) {
      const std::vector<float> rows(x.begin() + begin * num_inputs, x.begin() + end * num_inputs);
      SCOPED_TRACE(testing::Message()
                   << num_outputs << " x " << num_inputs << ", rows " << begin << " to " << end);
      const auto part = run(cuda, weight, rows, true);
      ASSERT_SAME_BITS(part,
                       std::span(whole).subspan(static_cast<std::size_t>(begin * num_outputs), part.size()));
    }
  }
}

/// x as columns of a wider array, whose other columns are NaN.
TEST(BlocksOf32OnGpu, RowsMayBeApart) {
  BALEEN_NEEDS_GPU();
  constexpr std::int64_t kInputs = 1280, kOutputs = 264, kStride = kInputs + 72, kFirst = 8;
  test::TestCuda cuda;
  const Weight weight(cuda, kOutputs, kInputs, 51);
  for (const std::int64_t num_rows : {1, 5, 8, 9, 70}) {
    const auto x = random_rows(num_rows, kInputs, 52);
    std::vector<float> wide(static_cast<std::size_t>(num_rows * kStride),
                            std::numeric_limits<float>::quiet_NaN());
    for (std::int64_t row = 0; row < num_rows; ++row)
      std::copy_n(x.begin() + row * kInputs, kInputs, wide.begin() + row * kStride + kFirst);
    auto* const y = cuda.allocate<float>(num_rows * kOutputs);
    const LinearOutput output{&weight.device, Activations<2>(y, {num_rows, kOutputs}), true};
    const View<const Bf16Bits, 2> columns(cuda.upload_bf16(wide) + kFirst, {num_rows, kInputs}, {kStride, 1});
    BALEEN_ARCH::linear({.x = columns, .outputs = {&output, 1}}, cuda.context());
    cuda.synchronise();
    ASSERT_SAME_BITS(cuda.download(y, num_rows * kOutputs), run(cuda, weight, x, true)) << num_rows;
  }
}

/// In one call with BF16 weights, and several of its own kind.
TEST(BlocksOf32OnGpu, SeveralOutputsOfOneInput) {
  BALEEN_NEEDS_GPU();
  test::TestCuda cuda;
  constexpr std::int64_t kInputs = 512, kRows = 70;
  const Weight a(cuda, 1280, kInputs, 41), b(cuda, 520, kInputs, 42);
  const test::RandomWeight bf16(WeightFormat::kBF16, 24, kInputs, 45, 0);
  WeightMatrix bf16_device = bf16.matrix();
  bf16_device.data = cuda.upload(std::span(bf16.matrix().data, std::size_t{24 * kInputs * 2}));
  auto x = random_rows(kRows, kInputs, 46);
  auto *const y_a = cuda.allocate<float>(kRows * 1280), *const y_b = cuda.allocate<float>(kRows * 520),
              *const y_bf16 = cuda.allocate<float>(kRows * 24);
  const LinearOutput outputs[] = {{&a.device, Activations<2>(y_a, {kRows, 1280}), true},
                                  {&bf16_device, Activations<2>(y_bf16, {kRows, 24}), true},
                                  {&b.device, Activations<2>(y_b, {kRows, 520}), true}};
  BALEEN_ARCH::linear({.x = upload_rows(cuda, x, kInputs), .outputs = outputs}, cuda.context());
  cuda.synchronise();
  EXPECT_SAME_BITS(cuda.download(y_a, kRows * 1280), run(cuda, a, x, true));
  EXPECT_SAME_BITS(cuda.download(y_b, kRows * 520), run(cuda, b, x, true));
  std::vector<float> want(kRows * 24);
  matmul_ref(bf16.matrix(), {x.data(), {kRows, kInputs}}, ActivationRounding::kNone, false,
             {want.data(), {kRows, 24}});
  EXPECT_CLOSE(cuda.download(y_bf16, kRows * 24), want, {.norm = kF32Norm});
}

TEST(BlocksOf32OnGpu, NaNStaysInItsRow) {
  BALEEN_NEEDS_GPU();
  test::TestCuda cuda;
  constexpr std::int64_t kInputs = 256, kOutputs = 72;
  const Weight weight(cuda, kOutputs, kInputs, 61);
  for (const std::int64_t num_rows : {3, 90}) {
    auto x = random_rows(num_rows, kInputs, 62);
    x[kInputs + 200] = std::numeric_limits<float>::quiet_NaN();
    const auto got = run(cuda, weight, x, false);
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(std::isnan(got[i]), i / kOutputs == 1) << i;
  }
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
