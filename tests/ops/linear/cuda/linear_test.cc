// FP8 products on the GPU: against the reference, and against themselves to the bit whatever else is in the
// batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "numeric/bf16.h"
#include "numeric/block_scale.h"
#include "ops/linear/cuda/fp8_products.h"
#include "ops/linear/cuda/linear.h"
#include "ops/linear/cuda/quantise_rows.h"
#include "tests/support/compare.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cuda.h"

namespace baleen::BALEEN_ARCH {
namespace {

using Products = void (*)(std::span<const LinearOutput>, const Fp8Rows&, std::int64_t, CudaContext&);

/// Sums of a slice are not float32 inside the tensor core: it aligns the products of an instruction and cuts
/// them off about 13 bits below the largest. Random signs make that 2^-12 of the norm at worst; BF16 results
/// round by 2^-9 more on average.
constexpr test::Tolerance kClose{.norm = 4e-3};
constexpr test::Tolerance kCloseF32{.norm = 1e-3};

/// A weight here and on the device.
struct Weight {
  Weight(test::TestCuda& cuda, std::int64_t rows, std::int64_t cols, std::uint32_t seed)
      : random(WeightFormat::kFp8, rows, cols, seed, 0), host(random.matrix()) {
    std::mt19937 generator(seed);
    std::uniform_real_distribution<float> uniform(0.002F, 0.01F);  // any positive float, not powers of two
    scales.resize(static_cast<std::size_t>((rows + 127) / 128 * (cols / 128)));
    for (float& scale : scales) scale = uniform(generator);
    host.block_scales = scales.data();
    upload(cuda);
  }
  void upload(test::TestCuda& cuda) {
    device = host;
    device.data = cuda.upload(std::span(host.data, static_cast<std::size_t>(host.rows * host.cols)));
    device.block_scales = cuda.upload(scales);
  }

  test::RandomWeight random;
  std::vector<float> scales;
  WeightMatrix host;
  WeightMatrix device;
};

/// BF16 values with a few binades between the blocks of a row, so that a wrong scale shows.
std::vector<float> random_rows(std::int64_t num_rows, std::int64_t num_inputs, std::uint32_t seed) {
  auto x = test::random_values(static_cast<std::size_t>(num_rows * num_inputs), seed);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = round_bf16(std::ldexp(x[i], static_cast<int>((i / 128 * 2654435761u) >> 20) % 7 - 3));
  }
  return x;
}

std::vector<float> reference(const WeightMatrix& weight, const std::vector<float>& x, bool keep_f32) {
  const auto num_rows = static_cast<std::int64_t>(x.size()) / weight.cols;
  std::vector<float> y(static_cast<std::size_t>(num_rows * weight.rows));
  matmul_ref(weight, {x.data(), {num_rows, weight.cols}}, ActivationRounding::kFp8, !keep_f32,
             {y.data(), {num_rows, weight.rows}});
  return y;
}

/// y on the device, poisoned, of one output.
struct Result {
  Result(test::TestCuda& cuda, std::int64_t num_rows, std::int64_t num_outputs, bool keep_f32)
      : count(num_rows * num_outputs),
        data(keep_f32 ? reinterpret_cast<std::byte*>(cuda.allocate<float>(count))
                      : reinterpret_cast<std::byte*>(cuda.allocate<Bf16Bits>(count))),
        type(keep_f32 ? ElementType::kF32 : ElementType::kBf16),
        view(data, type, {num_rows, num_outputs}) {}
  std::vector<float> read(test::TestCuda& cuda) const {
    return type == ElementType::kF32 ? cuda.download(reinterpret_cast<const float*>(data), count)
                                     : cuda.download_bf16(reinterpret_cast<const Bf16Bits*>(data), count);
  }
  std::int64_t count;
  std::byte* data;
  ElementType type;
  Activations<2> view;
};

ConstActivations<2> upload_rows(test::TestCuda& cuda, const std::vector<float>& x, std::int64_t num_inputs) {
  const auto num_rows = static_cast<std::int64_t>(x.size()) / num_inputs;
  return {
      reinterpret_cast<const std::byte*>(cuda.upload_bf16(x)), ElementType::kBf16, {num_rows, num_inputs}};
}

Fp8Rows allocate_rows(test::TestCuda& cuda, std::int64_t num_rows, std::int64_t num_inputs,
                      std::int64_t scale_stride) {
  return {cuda.allocate<std::uint8_t>(num_rows * num_inputs),
          cuda.allocate<float>(num_inputs / 128 * scale_stride), scale_stride};
}

TEST(LinearOnGpu, QuantisedRowsAreTheReference) {
  BALEEN_NEEDS_GPU();
  test::TestCuda cuda;
  for (const auto& [num_rows, num_inputs] : {std::pair{1, 128}, {3, 384}, {65, 1152}}) {
    auto x = random_rows(num_rows, num_inputs, 1);
    for (int i = 0; i < 128; ++i) x[static_cast<std::size_t>(i)] = 0.0F;
    x[129 % x.size()] = 3e38F;
    x[260 % x.size()] = std::numeric_limits<float>::infinity();
    x[391 % x.size()] = std::numeric_limits<float>::quiet_NaN();
    const std::int64_t stride = (num_rows + 7) / 4 * 4;
    const Fp8Rows rows = allocate_rows(cuda, num_rows, num_inputs, stride);
    BALEEN_ARCH::quantise_rows(upload_rows(cuda, x, num_inputs), rows, cuda.context());
    cuda.synchronise();
    const auto codes = cuda.download(rows.codes, num_rows * num_inputs);
    const auto scales = cuda.download(rows.scales, num_inputs / 128 * stride);
    for (auto& value : x) value = round_bf16(value);
    for (int row = 0; row < num_rows; ++row) {
      for (int block = 0; block < num_inputs / 128; ++block) {
        const std::size_t first = static_cast<std::size_t>(row * num_inputs + block * 128);
        std::vector<std::uint8_t> want(128);
        const std::uint8_t scale = quantise_fp8_block(std::span(x).subspan(first, 128), want);
        EXPECT_EQ(scales[static_cast<std::size_t>(block * stride + row)], std::ldexp(1.0F, scale - 127))
            << row << ", " << block;
        for (std::size_t i = 0; i < 128; ++i) {
          ASSERT_EQ(codes[first + i], want[i]) << "row " << row << ", input " << block * 128 + i;
        }
      }
    }
  }
}

TEST(LinearOnGpu, AgreesWithTheReference) {
  BALEEN_NEEDS_GPU();
  struct Case {
    std::int64_t num_rows, num_outputs, num_inputs;
    bool keep_f32;
  };
  // Every tile of tokens, tails of both axes, one slice, odd numbers of slices, more than 32; narrow and wide
  // tiles of weights; the shape of Flash's query latent.
  for (const auto& [num_rows, num_outputs, num_inputs, keep_f32] : {Case{1, 8, 128, false},
                                                                    {1, 136, 4736, true},
                                                                    {7, 256, 1408, false},
                                                                    {9, 1032, 1280, false},
                                                                    {17, 128, 384, true},
                                                                    {33, 2056, 640, false},
                                                                    {64, 200, 1024, false},
                                                                    {65, 120, 256, true},
                                                                    {66, 4104, 256, false},
                                                                    {5, 8192, 256, false},
                                                                    {200, 384, 512, false},
                                                                    {2, 1024, 4096, false}}) {
    test::TestCuda cuda;
    const Weight weight(cuda, num_outputs, num_inputs, 11);
    const auto x = random_rows(num_rows, num_inputs, 12);
    const Result result(cuda, num_rows, num_outputs, keep_f32);
    const LinearOutput output{&weight.device, result.view, keep_f32};
    BALEEN_ARCH::linear({.x = upload_rows(cuda, x, num_inputs), .outputs = {&output, 1}}, cuda.context());
    cuda.synchronise();
    SCOPED_TRACE(testing::Message() << num_rows << " x " << num_outputs << " x " << num_inputs);
    EXPECT_CLOSE(result.read(cuda), reference(weight.host, x, keep_f32), keep_f32 ? kCloseF32 : kClose);
  }
}

/// Small integers, whose sums no rounding touches: a wrong element cannot hide in a norm.
TEST(LinearOnGpu, ExactWhereSumsAreExact) {
  BALEEN_NEEDS_GPU();
  test::TestCuda cuda;
  constexpr std::int64_t kRows = 150, kOutputs = 200, kInputs = 1152;
  Weight weight(cuda, kOutputs, kInputs, 21);
  std::mt19937 random(22);
  constexpr std::uint8_t kOne = 0x38, kSign = 0x80;
  std::vector<std::byte> codes(kOutputs * kInputs);
  for (std::byte& code : codes) {
    code = static_cast<std::byte>(random() % 4 == 0 ? 0 : kOne | (random() % 2 == 0 ? kSign : 0));
  }
  weight.host.data = codes.data();
  for (std::size_t i = 0; i < weight.scales.size(); ++i) weight.scales[i] = 1.0F + static_cast<float>(i % 5);
  weight.upload(cuda);
  std::vector<float> x(kRows * kInputs);
  for (float& value : x) value = static_cast<float>(static_cast<int>(random() % 7) - 3);
  const auto want = reference(weight.host, x, true);
  const Fp8Rows rows = allocate_rows(cuda, kRows, kInputs, 152);
  BALEEN_ARCH::quantise_rows(upload_rows(cuda, x, kInputs), rows, cuda.context());
  for (const Products products : {fp8_products_few, fp8_products_many}) {
    const Result result(cuda, kRows, kOutputs, true);
    const LinearOutput output{&weight.device, result.view, true};
    products({&output, 1}, rows, kRows, cuda.context());
    cuda.synchronise();
    EXPECT_CLOSE(result.read(cuda), want, {});
  }
}

/// The same rows among 1, 2, 8, 9, ... others, from the first or from the middle, in one launch or another.
TEST(LinearOnGpu, RowsDoNotDependOnCompany) {
  BALEEN_NEEDS_GPU();
  for (const auto& [num_outputs, num_inputs] :
       {std::pair<std::int64_t, std::int64_t>{648, 2304}, {2048, 1152}, {4112, 640}, {8192, 512}}) {
    test::TestCuda cuda;
    constexpr std::int64_t kRows = 300;
    const Weight weight(cuda, num_outputs, num_inputs, 31);
    const ConstActivations<2> x = upload_rows(cuda, random_rows(kRows, num_inputs, 32), num_inputs);
    const Result whole(cuda, kRows, num_outputs, true);
    const LinearOutput all_rows{&weight.device, whole.view, true};
    BALEEN_ARCH::linear({.x = x, .outputs = {&all_rows, 1}}, cuda.context());
    const std::vector<float> want = whole.read(cuda);

    for (const Products products : {fp8_products_few, fp8_products_many}) {
      for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>{0, 1},
                                       {299, 300},
                                       {3, 11},
                                       {7, 16},
                                       {100, 117},
                                       {64, 128},
                                       {1, 66},
                                       {0, 127},
                                       {171, 300},
                                       {0, 300}}) {
        const std::int64_t count = end - begin, stride = (count + 3) / 4 * 4;
        const Fp8Rows rows = allocate_rows(cuda, count, num_inputs, stride);
        BALEEN_ARCH::quantise_rows(x.slice(begin, end), rows, cuda.context());
        const Result part(cuda, count, num_outputs, true);
        const LinearOutput output{&weight.device, part.view, true};
        products({&output, 1}, rows, count, cuda.context());
        cuda.synchronise();
        SCOPED_TRACE(testing::Message() << num_outputs << " x " << num_inputs << ", rows " << begin << " to "
                                        << end << (products == fp8_products_few ? ", few" : ", many"));
        ASSERT_SAME_BITS(part.read(cuda),
                         std::span(want).subspan(static_cast<std::size_t>(begin * num_outputs),
                                                 static_cast<std::size_t>(count * num_outputs)));
      }
    }
  }
}

/// More tiles than multiprocessors, of both axes: blocks go on from tile to tile, the last of which has no
/// partner.
TEST(LinearOnGpu, BlocksTakeSeveralTiles) {
  BALEEN_NEEDS_GPU();
  test::TestCuda cuda;
  constexpr std::int64_t kRows = 2500, kOutputs = 8200, kInputs = 384;
  const Weight weight(cuda, kOutputs, kInputs, 35);
  const ConstActivations<2> x = upload_rows(cuda, random_rows(kRows, kInputs, 36), kInputs);
  const Fp8Rows rows = allocate_rows(cuda, kRows, kInputs, kRows);
  BALEEN_ARCH::quantise_rows(x, rows, cuda.context());
  const Result few(cuda, kRows, kOutputs, false), many(cuda, kRows, kOutputs, false);
  const LinearOutput few_output{&weight.device, few.view}, many_output{&weight.device, many.view};
  fp8_products_few({&few_output, 1}, rows, kRows, cuda.context());
  fp8_products_many({&many_output, 1}, rows, kRows, cuda.context());
  cuda.synchronise();
  ASSERT_SAME_BITS(few.read(cuda), many.read(cuda));
}

/// Outputs of every kind at once are what each is alone; x in FP8 is taken where it is given.
TEST(LinearOnGpu, SeveralOutputsOfOneInput) {
  BALEEN_NEEDS_GPU();
  test::TestCuda cuda;
  constexpr std::int64_t kInputs = 512;
  for (const std::int64_t num_rows : {3, 140}) {
    const Weight a(cuda, 1024, kInputs, 41), b(cuda, 520, kInputs, 42), c(cuda, 2048, kInputs, 43),
        d(cuda, 8200, kInputs, 44);
    const test::RandomWeight bf16(WeightFormat::kBF16, 24, kInputs, 45, 0);
    WeightMatrix bf16_device = bf16.matrix();
    bf16_device.data = cuda.upload(std::span(bf16.matrix().data, std::size_t{24 * kInputs * 2}));
    const auto x = random_rows(num_rows, kInputs, 46);
    const ConstActivations<2> x_device = upload_rows(cuda, x, kInputs);

    std::vector<std::vector<float>> alone;
    for (const Weight* weight : {&a, &b, &c, &d}) {
      const Result result(cuda, num_rows, weight->device.rows, false);
      const LinearOutput output{&weight->device, result.view};
      BALEEN_ARCH::linear({.x = x_device, .outputs = {&output, 1}}, cuda.context());
      alone.push_back(result.read(cuda));
    }
    const Result y_a(cuda, num_rows, 1024, false), y_b(cuda, num_rows, 520, false),
        y_c(cuda, num_rows, 2048, false), y_d(cuda, num_rows, 8200, false), y_bf16(cuda, num_rows, 24, true);
    const LinearOutput outputs[] = {{&a.device, y_a.view},
                                    {&bf16_device, y_bf16.view, true},
                                    {&b.device, y_b.view},
                                    {&c.device, y_c.view},
                                    {&d.device, y_d.view}};
    const Fp8Rows rows = allocate_rows(cuda, num_rows, kInputs, (num_rows + 11) / 4 * 4);
    BALEEN_ARCH::quantise_rows(x_device, rows, cuda.context());
    BALEEN_ARCH::linear({.x = x_device, .x_fp8 = rows, .outputs = outputs}, cuda.context());
    cuda.synchronise();
    EXPECT_SAME_BITS(y_a.read(cuda), alone[0]);
    EXPECT_SAME_BITS(y_b.read(cuda), alone[1]);
    EXPECT_SAME_BITS(y_c.read(cuda), alone[2]);
    EXPECT_SAME_BITS(y_d.read(cuda), alone[3]);
    std::vector<float> want(static_cast<std::size_t>(num_rows * 24));
    matmul_ref(bf16.matrix(), {x.data(), {num_rows, kInputs}}, ActivationRounding::kNone, false,
               {want.data(), {num_rows, 24}});
    EXPECT_CLOSE(y_bf16.read(cuda), want, {.norm = 1e-5});
  }
}

TEST(LinearOnGpu, WritesIntoWiderRowsAndNoRowsAtAll) {
  BALEEN_NEEDS_GPU();
  test::TestCuda cuda;
  constexpr std::int64_t kRows = 70, kOutputs = 136, kInputs = 256, kStride = 160;
  const Weight weight(cuda, kOutputs, kInputs, 51);
  const auto x = random_rows(kRows, kInputs, 52);
  const Result dense(cuda, kRows, kOutputs, false);
  const LinearOutput plain{&weight.device, dense.view};
  const ConstActivations<2> x_device = upload_rows(cuda, x, kInputs);
  BALEEN_ARCH::linear({.x = x_device, .outputs = {&plain, 1}}, cuda.context());
  const auto want = dense.read(cuda);

  auto* wide = cuda.allocate<Bf16Bits>(kRows * kStride);
  const LinearOutput output{&weight.device, View<Bf16Bits, 2>(wide, {kRows, kOutputs}, {kStride, 1})};
  for (const std::int64_t count : {std::int64_t{0}, kRows}) {
    const LinearOutput first_rows{&weight.device, output.y.slice(0, count)};
    BALEEN_ARCH::linear({.x = x_device.slice(0, count), .outputs = {&first_rows, 1}}, cuda.context());
    cuda.synchronise();
    const auto got = cuda.download(wide, kRows * kStride);
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t n = 0; n < kStride; ++n) {
        const Bf16Bits bits = got[static_cast<std::size_t>(row * kStride + n)];
        if (row >= count || n >= kOutputs) {
          ASSERT_EQ(bits, 0xFFFF) << "written beyond its place: " << row << ", " << n;
        } else {
          ASSERT_EQ(bf16_to_float(bits), want[static_cast<std::size_t>(row * kOutputs + n)]);
        }
      }
    }
  }
}

/// NaN and infinity of one row stay in it. (What infinity saturates to may overflow again.)
TEST(LinearOnGpu, NonFiniteRowsKeepToThemselves) {
  BALEEN_NEEDS_GPU();
  test::TestCuda cuda;
  constexpr std::int64_t kRows = 20, kOutputs = 128, kInputs = 512;
  const Weight weight(cuda, kOutputs, kInputs, 61);
  auto x = random_rows(kRows, kInputs, 62);
  const auto run = [&] {
    const Result result(cuda, kRows, kOutputs, false);
    const LinearOutput output{&weight.device, result.view};
    BALEEN_ARCH::linear({.x = upload_rows(cuda, x, kInputs), .outputs = {&output, 1}}, cuda.context());
    return result.read(cuda);
  };
  const auto clean = run();
  x[3 * kInputs + 200] = std::numeric_limits<float>::quiet_NaN();
  x[5 * kInputs + 1] = std::numeric_limits<float>::infinity();
  const auto got = run();
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t n = 0; n < kOutputs; ++n) {
      const auto at = static_cast<std::size_t>(row * kOutputs + n);
      if (row == 3) {
        EXPECT_TRUE(std::isnan(got[at]));
      } else if (row != 5) {
        ASSERT_EQ(got[at], clean[at]);
      }
    }
  }
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
