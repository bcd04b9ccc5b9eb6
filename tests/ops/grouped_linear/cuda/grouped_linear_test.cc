// The grouped projection on the GPU against plain loops: FP8 and BF16 weights, few rows and many; every e4m3
// code exactly; outputs equal to the bit however the rows are cut.
#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <vector>

#include "numeric/e4m3.h"
#include "ops/grouped_linear/cuda/grouped_linear.h"
#include "tests/support/compare.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cuda.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr double kF32Norm = 1e-5;   // low bits that tensor cores cut, see ops/matmul/cuda/matmul_bf16_test.cc
constexpr double kBf16Norm = 3e-3;  // rounding of the outputs

struct Shape {
  std::int64_t num_rows, num_groups, num_inputs, group_outputs;
};

/// Host description of weights in device memory.
WeightMatrix upload(test::TestCuda& cuda, const WeightMatrix& host) {
  WeightMatrix device = host;
  device.data = cuda.upload(std::span(host.data, static_cast<std::size_t>(host.rows * host.row_bytes())));
  const auto num_scales = static_cast<std::size_t>(host.num_scales());
  if (host.format == WeightFormat::kFp8)
    device.block_scales = cuda.upload(std::span(host.block_scales, num_scales));
  if (host.format == WeightFormat::kFp8x32)
    device.group_scales = cuda.upload(std::span(host.group_scales, num_scales));
  return device;
}

class Grouped {
 public:
  Grouped(test::TestCuda& cuda, const Shape& shape, const WeightMatrix& weight)
      : cuda_(cuda), shape_(shape), weight_(weight), device_weight_(upload(cuda, weight)) {
    x_ = test::random_values(static_cast<std::size_t>(shape.num_rows * row_size()), 1);
    for (float& value : x_) value = round_bf16(value);
    device_x_ = cuda.upload_bf16(x_);
  }

  std::vector<float> run(std::int64_t begin, std::int64_t end, ElementType y_type) {
    const std::int64_t count = (end - begin) * weight_.rows;
    auto* y = cuda_.allocate<std::byte>(count * size_of(y_type));
    BALEEN_ARCH::grouped_linear(
        {.x = View<const Bf16Bits, 3>(device_x_ + begin * row_size(),
                                      {end - begin, shape_.num_groups, shape_.num_inputs}),
         .weight = &device_weight_,
         .y = Activations<2>(y, y_type, {end - begin, weight_.rows})},
        cuda_.context());
    cuda_.synchronise();
    return y_type == ElementType::kF32 ? cuda_.download(reinterpret_cast<const float*>(y), count)
                                       : cuda_.download_bf16(reinterpret_cast<const Bf16Bits*>(y), count);
  }

  /// [T, G N] in double.
  std::vector<float> reference(bool round) {
    std::vector<float> y(static_cast<std::size_t>(shape_.num_rows * weight_.rows));
    for (std::int64_t group = 0; group < shape_.num_groups; ++group) {
      const View<const float, 2> x(x_.data() + group * shape_.num_inputs,
                                   {shape_.num_rows, shape_.num_inputs}, {row_size(), 1});
      const View<float, 2> part(y.data() + group * shape_.group_outputs,
                                {shape_.num_rows, shape_.group_outputs}, {weight_.rows, 1});
      matmul_ref(weight_.slice_rows(group * shape_.group_outputs, (group + 1) * shape_.group_outputs), x,
                 ActivationRounding::kNone, round, part);
    }
    return y;
  }

 private:
  [[nodiscard]] std::int64_t row_size() const { return shape_.num_groups * shape_.num_inputs; }

  test::TestCuda& cuda_;
  Shape shape_;
  const WeightMatrix& weight_;
  WeightMatrix device_weight_;
  std::vector<float> x_;
  Bf16Bits* device_x_;
};

class GroupedLinearOnGpu : public testing::TestWithParam<WeightFormat> {};

TEST_P(GroupedLinearOnGpu, AgreesWithPlainLoops) {
  BALEEN_NEEDS_GPU();
  for (const std::int64_t num_rows : {1, 8, 9, 17, 40, 64, 65, 140, 300}) {
    for (const Shape& shape : {Shape{num_rows, 3, 128, 128}, Shape{num_rows, 2, 384, 256}}) {
      test::TestCuda cuda;
      const test::RandomWeight weight(GetParam(), shape.num_groups * shape.group_outputs, shape.num_inputs,
                                      2);
      Grouped grouped(cuda, shape, weight.matrix());
      EXPECT_CLOSE(grouped.run(0, num_rows, ElementType::kF32), grouped.reference(false), {.norm = kF32Norm})
          << num_rows << " rows, " << shape.num_groups << " groups";
      EXPECT_CLOSE(grouped.run(0, num_rows, ElementType::kBf16), grouped.reference(true), {.norm = kBf16Norm})
          << num_rows << " rows, " << shape.num_groups << " groups";
    }
  }
}

TEST_P(GroupedLinearOnGpu, BlocksWalkOverTiles) {
  BALEEN_NEEDS_GPU();
  for (const std::int64_t num_rows : {2, 50}) {
    const Shape shape{num_rows, 5, 256, 3584};  // 280 tiles of 64 outputs
    test::TestCuda cuda;
    const test::RandomWeight weight(GetParam(), shape.num_groups * shape.group_outputs, shape.num_inputs, 4);
    Grouped grouped(cuda, shape, weight.matrix());
    if (num_rows == 2) {
      EXPECT_CLOSE(grouped.run(0, num_rows, ElementType::kF32), grouped.reference(false), {.norm = kF32Norm});
    }
    const auto whole = grouped.run(0, num_rows, ElementType::kF32);
    ASSERT_SAME_BITS(grouped.run(0, 1, ElementType::kF32),
                     std::span(whole).first(static_cast<std::size_t>(weight.matrix().rows)));
  }
}

TEST_P(GroupedLinearOnGpu, OutputsDoNotDependOnCompany) {
  BALEEN_NEEDS_GPU();
  constexpr std::int64_t kRows = 520;
  const Shape shape{kRows, 4, 4096, 256};
  test::TestCuda cuda;
  const test::RandomWeight weight(GetParam(), shape.num_groups * shape.group_outputs, shape.num_inputs, 3);
  Grouped grouped(cuda, shape, weight.matrix());
  const auto whole = grouped.run(0, kRows, ElementType::kF32);
  for (const std::int64_t chunk : {1, 5, 8, 16, 32, 50, 64, 100, 128, 256, 300}) {
    for (const std::int64_t begin : {std::int64_t{0}, kRows - chunk, kRows / 3}) {
      const std::int64_t end = std::min(kRows, begin + chunk);
      const auto part = grouped.run(begin, end, ElementType::kF32);
      ASSERT_SAME_BITS(
          part, std::span(whole).subspan(static_cast<std::size_t>(begin * weight.matrix().rows), part.size()))
          << chunk << " rows from " << begin;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, GroupedLinearOnGpu,
                         testing::Values(WeightFormat::kFp8, WeightFormat::kFp8x32, WeightFormat::kBF16),
                         [](const auto& tested) {
                           return tested.param == WeightFormat::kFp8      ? "FP8"
                                  : tested.param == WeightFormat::kFp8x32 ? "FP8of32"
                                                                          : "BF16";
                         });

/// Each block has a scale of its own, of a power of two that is no other's near it.
TEST(GroupedLinearFp8OnGpu, EveryBlockOf32HasItsScale) {
  BALEEN_NEEDS_GPU();
  constexpr std::int64_t kInputs = 384, kOutputs = 256, kBlocks = kInputs / 32;
  std::vector<std::byte> codes(kInputs * kOutputs);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const auto code = static_cast<std::uint8_t>(i % kInputs + i / kInputs);
    codes[i] = static_cast<std::byte>((code & 0x7F) == 0x7F ? 0 : code);
  }
  std::vector<std::uint8_t> scales;
  for (std::int64_t block = 0; block < kBlocks * kOutputs / 32; ++block)
    scales.push_back(static_cast<std::uint8_t>(36 + 37 * block % 98));
  for (const std::int64_t num_rows : {std::int64_t{5}, std::int64_t{40}, kInputs}) {
    test::TestCuda cuda;
    std::vector<float> x(static_cast<std::size_t>(num_rows * kInputs), 0.0F);
    for (std::int64_t row = 0; row < num_rows; ++row)
      x[static_cast<std::size_t>(row * kInputs + kInputs - 1 - row)] = 1.0F;
    const WeightMatrix weight = upload(cuda, {.format = WeightFormat::kFp8x32,
                                              .rows = kOutputs,
                                              .cols = kInputs,
                                              .data = codes.data(),
                                              .group_scales = scales.data()});
    auto* y = cuda.allocate<float>(num_rows * kOutputs);
    BALEEN_ARCH::grouped_linear({.x = View<const Bf16Bits, 3>(cuda.upload_bf16(x), {num_rows, 1, kInputs}),
                                 .weight = &weight,
                                 .y = Activations<2>(y, {num_rows, kOutputs})},
                                cuda.context());
    const auto got = cuda.download(y, num_rows * kOutputs);
    for (std::int64_t row = 0; row < num_rows; ++row) {
      for (std::int64_t n = 0; n < kOutputs; ++n) {
        const std::int64_t k = kInputs - 1 - row;
        const auto code = static_cast<std::uint8_t>(codes[static_cast<std::size_t>(n * kInputs + k)]);
        const int scale = scales[static_cast<std::size_t>(n / 32 * kBlocks + k / 32)];
        ASSERT_EQ(got[static_cast<std::size_t>(row * kOutputs + n)],
                  std::ldexp(e4m3_to_float(code), scale - 127))
            << "input " << k << ", output " << n << ", " << num_rows << " rows";
      }
    }
  }
}

TEST(GroupedLinearFp8OnGpu, EveryCodeIsExact) {
  BALEEN_NEEDS_GPU();
  // Row n of x picks input n: y is the weights themselves.
  constexpr std::int64_t kInputs = 256, kOutputs = 128;
  for (const float scale : {1.0F, 0x1p-60F, 0x1p7F}) {
    std::vector<std::byte> codes(kInputs * kOutputs);
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const auto code = static_cast<std::uint8_t>(i % kInputs + i / kInputs);
      codes[i] = static_cast<std::byte>((code & 0x7F) == 0x7F ? 0 : code);
    }
    const std::vector<float> scales(kInputs / 128, scale);
    for (const std::int64_t num_rows : {std::int64_t{16}, std::int64_t{64}, kInputs}) {
      test::TestCuda cuda;
      std::vector<float> x(static_cast<std::size_t>(num_rows * kInputs), 0.0F);
      for (std::int64_t row = 0; row < num_rows; ++row)
        x[static_cast<std::size_t>(row * kInputs + row)] = 1.0F;
      const WeightMatrix weight = upload(cuda, {.format = WeightFormat::kFp8,
                                                .rows = kOutputs,
                                                .cols = kInputs,
                                                .data = codes.data(),
                                                .block_scales = scales.data()});
      auto* y = cuda.allocate<float>(num_rows * kOutputs);
      BALEEN_ARCH::grouped_linear({.x = View<const Bf16Bits, 3>(cuda.upload_bf16(x), {num_rows, 1, kInputs}),
                                   .weight = &weight,
                                   .y = Activations<2>(y, {num_rows, kOutputs})},
                                  cuda.context());
      const auto got = cuda.download(y, num_rows * kOutputs);
      for (std::int64_t row = 0; row < num_rows; ++row) {
        for (std::int64_t n = 0; n < kOutputs; ++n) {
          const auto code = static_cast<std::uint8_t>(codes[static_cast<std::size_t>(n * kInputs + row)]);
          ASSERT_EQ(got[static_cast<std::size_t>(row * kOutputs + n)], e4m3_to_float(code) * scale)
              << "code " << int{code} << ", row " << row << ", output " << n;
        }
      }
    }
  }
}

TEST(GroupedLinearFp8OnGpu, FlashProjection) {
  BALEEN_NEEDS_GPU();
  const Shape shape{1, 8, 4096, 1024};
  test::TestCuda cuda;
  const test::RandomWeight weight(WeightFormat::kFp8, shape.num_groups * shape.group_outputs,
                                  shape.num_inputs, 5);
  Grouped grouped(cuda, shape, weight.matrix());
  EXPECT_CLOSE(grouped.run(0, 1, ElementType::kF32), grouped.reference(false), {.norm = kF32Norm});
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
