// BF16 products on the GPU against plain loops in double: every kernel and tail, several products of a
// launch, both output types; outputs equal to the bit however the rows are cut.
#include <gtest/gtest.h>

#include <deque>
#include <numeric>
#include <span>
#include <vector>

#include "ops/matmul/cuda/matmul_bf16.h"
#include "ops/matmul/matmul.h"
#include "tests/support/compare.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cuda.h"

namespace baleen::BALEEN_ARCH {
namespace {

// Tensor cores add in float32 but cut low bits where terms of 16 inputs meet: a few units in the last place
// of the largest partial sum, over all of an output's 16 to 450 additions.
constexpr double kF32Norm = 1e-5;
constexpr double kBf16Norm =
    3e-3;  // half a unit in the last of 8 bits, as a mean over values: 2^-9 / sqrt(3) and some

/// Products of one random x, on the device and by the reference.
class Products {
 public:
  Products(test::TestCuda& cuda, std::int64_t num_rows, std::int64_t num_inputs,
           const std::vector<std::int64_t>& num_outputs, ElementType y_type = ElementType::kF32)
      : cuda_(cuda), num_rows_(num_rows), num_inputs_(num_inputs), y_type_(y_type) {
    x_ = test::random_values(static_cast<std::size_t>(num_rows * num_inputs), 1);
    for (float& value : x_) value = round_bf16(value);
    for (std::int64_t row = 2; row < num_rows; row += 11)  // sums of zeros of either sign
      std::fill_n(x_.begin() + row * num_inputs, num_inputs, 0.0F);
    device_x_ = cuda.upload_bf16(x_);
    for (const std::int64_t n : num_outputs) {
      const auto seed = static_cast<std::uint32_t>(weights_.size() + 2);
      const auto& host = weights_.emplace_back(WeightFormat::kBF16, n, num_inputs, seed).matrix();
      WeightMatrix device = host;
      device.data = cuda.upload(std::span(host.data, static_cast<std::size_t>(n * host.row_bytes())));
      device_weights_.push_back(device);
    }
  }

  /// Rows [begin, end) of every product, read back as float32, row-major [end - begin, N]. The row after the
  /// last column has a few more values, which must stay as they were; some strides suit TMA.
  std::vector<std::vector<float>> run(std::int64_t begin, std::int64_t end) {
    const std::int64_t multiple = (end - begin) % 2 == 0 ? 8 : 1;
    const auto stride_of = [&](const WeightMatrix& weight) {
      return (weight.rows + 3 + multiple - 1) / multiple * multiple;
    };
    std::vector<MatmulBf16> products;
    std::vector<std::byte*> outputs;
    for (const WeightMatrix& weight : device_weights_) {
      const std::int64_t stride = stride_of(weight);
      outputs.push_back(cuda_.allocate<std::byte>((end - begin) * stride * size_of(y_type_)));
      const Activations<2>::Extents extents{end - begin, weight.rows}, strides{stride, 1};
      const Activations<2> y =
          y_type_ == ElementType::kF32
              ? Activations<2>(reinterpret_cast<float*>(outputs.back()), extents, strides)
              : Activations<2>(
                    View<Bf16Bits, 2>(reinterpret_cast<Bf16Bits*>(outputs.back()), extents, strides));
      products.push_back(
          {.weight = &weight,
           .x = View<const Bf16Bits, 2>(device_x_ + begin * num_inputs_, {end - begin, num_inputs_}),
           .y = y});
    }
    BALEEN_ARCH::matmul_bf16(products, cuda_.context());
    cuda_.synchronise();
    std::vector<std::vector<float>> results;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const std::int64_t stride = stride_of(device_weights_[i]), count = (end - begin) * stride;
      const std::vector<float> padded =
          y_type_ == ElementType::kF32
              ? cuda_.download(reinterpret_cast<const float*>(outputs[i]), count)
              : cuda_.download_bf16(reinterpret_cast<const Bf16Bits*>(outputs[i]), count);
      std::vector<float>& result = results.emplace_back();
      for (std::int64_t at = 0; at < count; ++at) {
        const float value = padded[static_cast<std::size_t>(at)];
        if (at % stride < device_weights_[i].rows) {
          result.push_back(value);
        } else {
          EXPECT_TRUE(std::isnan(value)) << "wrote beyond column " << device_weights_[i].rows;
        }
      }
    }
    return results;
  }

  std::vector<float> reference(std::size_t product) {
    const WeightMatrix& weight = weights_[product].matrix();
    std::vector<float> y(static_cast<std::size_t>(num_rows_ * weight.rows));
    matmul_ref(weight, {x_.data(), {num_rows_, num_inputs_}}, ActivationRounding::kNone,
               y_type_ == ElementType::kBf16, {y.data(), {num_rows_, weight.rows}});
    return y;
  }

 private:
  test::TestCuda& cuda_;
  std::int64_t num_rows_, num_inputs_;
  ElementType y_type_;
  std::vector<float> x_;
  Bf16Bits* device_x_;
  std::deque<test::RandomWeight> weights_;
  std::vector<WeightMatrix> device_weights_;
};

void expect_reference(std::int64_t num_rows, std::int64_t num_inputs,
                      const std::vector<std::int64_t>& num_outputs, ElementType y_type = ElementType::kF32) {
  test::TestCuda cuda;
  Products products(cuda, num_rows, num_inputs, num_outputs, y_type);
  const auto got = products.run(0, num_rows);
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_CLOSE(got[i], products.reference(i), {.norm = y_type == ElementType::kF32 ? kF32Norm : kBf16Norm})
        << num_rows << " rows, " << num_outputs[i] << " outputs of product " << i << ", " << num_inputs
        << " inputs";
  }
}

TEST(MatmulBf16OnGpu, AgreesWithPlainLoops) {
  BALEEN_NEEDS_GPU();
  for (const std::int64_t num_rows : {1, 7, 8, 9, 16, 17, 33, 64, 65, 130, 257}) {
    expect_reference(num_rows, 256, {72});
    expect_reference(num_rows, 1024, {200});
  }
}

TEST(MatmulBf16OnGpu, AnyNumberOfOutputsAndSlices) {
  BALEEN_NEEDS_GPU();
  for (const std::int64_t num_outputs : {1, 8, 15, 64, 129}) {
    for (const std::int64_t num_inputs : {128, 384, 1152}) {
      expect_reference(3, num_inputs, {num_outputs});
      expect_reference(150, num_inputs, {num_outputs});
    }
  }
}

TEST(MatmulBf16OnGpu, SeveralProductsOfOneInput) {
  BALEEN_NEEDS_GPU();
  for (const std::int64_t num_rows : {2, 100}) {
    expect_reference(num_rows, 512, {136, 1, 256, 24, 8, 64, 200, 8});
    expect_reference(num_rows, 256, {8200, 64});  // both orders of summation
  }
}

TEST(MatmulBf16OnGpu, RoundsToBf16WhereOutputsAre) {
  BALEEN_NEEDS_GPU();
  for (const std::int64_t num_rows : {1, 40, 200}) expect_reference(num_rows, 256, {200}, ElementType::kBf16);
}

TEST(MatmulBf16OnGpu, NoRowsIsANoOp) {
  BALEEN_NEEDS_GPU();
  test::TestCuda cuda;
  Products products(cuda, 1, 128, {8});
  EXPECT_TRUE(products.run(0, 0).front().empty());
}

TEST(MatmulBf16OnGpu, ProjectionsOfACompressingLayer) {
  BALEEN_NEEDS_GPU();
  expect_reference(5, 4096, {1024, 1024, 256, 256, 64});
  expect_reference(5, 7168, {384});
}

TEST(MatmulBf16OnGpu, OutputsDoNotDependOnCompany) {
  BALEEN_NEEDS_GPU();
  constexpr std::int64_t kRows = 700;
  // Eight segments (one of them alone, so that its blocks are smaller) and one.
  const std::vector<std::vector<std::int64_t>> all_outputs = {{1024, 1000, 256, 264, 64}, {72}, {8320}};
  for (const auto& num_outputs : all_outputs) {
    for (const std::int64_t num_inputs : {std::int64_t{1152}, std::int64_t{4096}}) {
      if (num_inputs == 4096 && num_outputs.front() > 8000) continue;  // seconds on the host
      test::TestCuda cuda(std::int64_t{1} << 20);
      Products products(cuda, kRows, num_inputs, num_outputs);
      const auto whole = products.run(0, kRows);
      for (const std::int64_t chunk : {1, 5, 8, 13, 16, 32, 64, 100, 128, 256, 350, 512}) {
        for (const std::int64_t begin : {std::int64_t{0}, kRows - chunk, kRows / 3}) {
          const std::int64_t end = std::min(kRows, begin + chunk);
          const auto part = products.run(begin, end);
          for (std::size_t i = 0; i < part.size(); ++i) {
            ASSERT_SAME_BITS(part[i], std::span(whole[i]).subspan(
                                          static_cast<std::size_t>(begin * num_outputs[i]), part[i].size()))
                << chunk << " rows from " << begin << ", " << num_outputs[i] << " outputs, " << num_inputs
                << " inputs";
          }
        }
      }
    }
  }
}

/// Router gates and others with few outputs, which have a kernel for up to eight rows on Hopper.
TEST(MatmulBf16OnGpu, FewOutputsOfFewRows) {
  BALEEN_NEEDS_GPU();
  constexpr std::int64_t kRows = 16;
  const std::vector<std::vector<std::int64_t>> all_outputs = {{384}, {256, 5, 64}, {1}, {528}};
  for (const auto& num_outputs : all_outputs) {
    for (const std::int64_t num_inputs : {128, 640, 1152, 2048, 5120, 7168}) {
      test::TestCuda cuda(std::int64_t{1} << 20);
      Products products(cuda, kRows, num_inputs, num_outputs);
      const auto whole = products.run(0, kRows);
      for (std::int64_t begin = 0; begin + 8 <= kRows; begin += 5) {
        for (std::int64_t count = 1; count <= 8; ++count) {
          const auto part = products.run(begin, begin + count);
          for (std::size_t i = 0; i < part.size(); ++i) {
            ASSERT_SAME_BITS(part[i], std::span(whole[i]).subspan(
                                          static_cast<std::size_t>(begin * num_outputs[i]), part[i].size()))
                << count << " rows from " << begin << ", " << num_outputs[i] << " outputs, " << num_inputs
                << " inputs";
          }
        }
      }
    }
  }
}

TEST(MatmulBf16OnGpu, NonFiniteActivationsStayInTheirRow) {
  BALEEN_NEEDS_GPU();
  constexpr std::int64_t kRows = 3, kInputs = 256, kOutputs = 16;
  test::TestCuda cuda;
  std::vector<float> x = test::random_values(kRows * kInputs, 3);
  x[kInputs + 17] = std::numeric_limits<float>::quiet_NaN();
  const test::RandomWeight weight(WeightFormat::kBF16, kOutputs, kInputs, 4);
  WeightMatrix device = weight.matrix();
  device.data = cuda.upload(std::span(device.data, static_cast<std::size_t>(kOutputs * device.row_bytes())));
  auto* y = cuda.allocate<float>(kRows * kOutputs);
  const MatmulBf16 product{.weight = &device,
                           .x = View<const Bf16Bits, 2>(cuda.upload_bf16(x), {kRows, kInputs}),
                           .y = Activations<2>(y, {kRows, kOutputs})};
  BALEEN_ARCH::matmul_bf16({&product, 1}, cuda.context());
  const auto got = cuda.download(y, kRows * kOutputs);
  for (std::size_t n = 0; n < kOutputs; ++n) {
    EXPECT_TRUE(std::isfinite(got[n]));
    EXPECT_TRUE(std::isnan(got[kOutputs + n]));
    EXPECT_TRUE(std::isfinite(got[2 * kOutputs + n]));
  }
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
