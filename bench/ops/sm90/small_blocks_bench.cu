// Products of DeepSeek-V4.1 whose weights are FP8 in blocks of 32 x 32, whole and as one of two GPUs has them:
// what an operation takes, and for few tokens the kernels beside each other, which must agree to the bit; see
// bench/support/cuda_bench.h for how it times.

#include <cstdlib>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "bench/support/cuda_bench.h"
#include "ops/grouped_linear/cuda/grouped_linear.h"
#include "ops/linear/cuda/linear.h"
#include "ops/linear/cuda/quantise_rows.h"
#include "ops/matmul/sm90/bf16_products.h"
#include "tests/support/test_cuda.h"

namespace baleen::bench {
namespace {

struct Product {
  const char* name;
  std::int64_t num_groups;  ///< 1: a linear layer, whose x is rounded
  std::int64_t num_inputs;
  std::vector<std::int64_t> outputs;
};

const std::vector<Product>& products() {
  static const std::vector<Product> kProducts = {
      {"wq_a+wkv", 1, 5120, {1280, 512}},
      {"wq_b", 1, 1280, {32768}},
      {"wq_b of 2", 1, 1280, {16384}},
      {"wq_b+indexer", 1, 1280, {32768, 4096}},
      {"wq_b+indexer of 2", 1, 1280, {16384, 4096}},
      {"wo_a", 8, 4096, {8192}},
      {"wo_a of 2", 4, 4096, {4096}},
      {"wo_b", 1, 8192, {5120}},
      {"wo_b of 2", 1, 4096, {5120}},
      {"engram wkv", 1, 6144, {25600}},
  };
  return kProducts;
}

__device__ std::uint32_t hash_of(std::uint32_t value) {
  value = (value ^ value >> 15) * 0x85EBCA6Bu;
  value = (value ^ value >> 13) * 0xC2B2AE35u;
  return value ^ value >> 16;
}

/// Finite codes, scales around 2^-7, values around 1.
__global__ void fill(std::uint8_t* codes, std::int64_t num_codes, std::uint8_t* scales,
                     std::int64_t num_scales, Bf16Bits* x, std::int64_t num_values, std::uint32_t seed) {
  const std::int64_t first = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  const auto at = [&](std::int64_t i) { return hash_of(static_cast<std::uint32_t>(i) * 2654435761u + seed); };
  for (std::int64_t i = first; i < num_codes; i += step) {
    const auto exponent = static_cast<std::uint32_t>(12 - min(__clz(static_cast<int>(at(i) | 1)), 9));
    codes[i] = static_cast<std::uint8_t>((at(i) & 0x87) | exponent << 3);
  }
  for (std::int64_t i = first; i < num_scales; i += step)
    scales[i] = static_cast<std::uint8_t>(118 + at(i) % 5);
  for (std::int64_t i = first; i < num_values; i += step)
    x[i] = static_cast<Bf16Bits>((at(i) & 0x807F) | (124 + at(i) / 65536 % 5) << 7);
}

/// A product's operands, several times.
struct Operands {
  std::vector<std::vector<WeightMatrix>> weights;  ///< [rotation][output]
  Bf16Bits *x, *rounded;                           ///< [T, G K]
  std::vector<Activations<2>> y;
};

Operands make_operands(test::TestCuda& cuda, const Product& product, std::int64_t num_rows) {
  const std::int64_t total = std::accumulate(product.outputs.begin(), product.outputs.end(), std::int64_t{0});
  const std::int64_t num_values = num_rows * product.num_groups * product.num_inputs;
  const std::int64_t num_codes = total * product.num_inputs, num_scales = num_codes / (32 * 32);
  Operands operands{.x = cuda.allocate<Bf16Bits>(num_values), .rounded = cuda.allocate<Bf16Bits>(num_values)};
  for (int i = 0; i < inputs_beyond_l2(static_cast<double>(num_codes)); ++i) {
    auto* codes = cuda.allocate<std::uint8_t>(num_codes);
    auto* scales = cuda.allocate<std::uint8_t>(num_scales);
    fill<<<1024, 256, 0, cuda.context().stream>>>(codes, num_codes, scales, num_scales, operands.x,
                                                  num_values, static_cast<std::uint32_t>(i) * 977);
    std::vector<WeightMatrix>& rotation = operands.weights.emplace_back();
    for (const std::int64_t outputs : product.outputs) {
      rotation.push_back({.format = WeightFormat::kFp8x32,
                          .rows = outputs,
                          .cols = product.num_inputs,
                          .data = reinterpret_cast<const std::byte*>(codes),
                          .group_scales = scales,
                          .activation_group = kSmallActivationGroup});
      codes += outputs * product.num_inputs;
      scales += outputs * product.num_inputs / (32 * 32);
    }
  }
  for (const std::int64_t outputs : product.outputs)
    operands.y.push_back(View<Bf16Bits, 2>(cuda.allocate<Bf16Bits>(num_rows * outputs), {num_rows, outputs}));
  return operands;
}

/// Of some rows.
class Launches {
 public:
  Launches(test::TestCuda& cuda, const Product& product, std::int64_t num_rows)
      : cuda_(cuda),
        product_(product),
        num_rows_(num_rows),
        operands_(make_operands(cuda, product, num_rows)) {}

  [[nodiscard]] int rotations() const { return static_cast<int>(operands_.weights.size()); }
  [[nodiscard]] ConstActivations<2> x() const {
    return {reinterpret_cast<const std::byte*>(operands_.x), ElementType::kBf16, {num_rows_, row_size()}};
  }

  void operation(int i) {
    const auto& weights = operands_.weights[static_cast<std::size_t>(i)];
    if (product_.num_groups > 1) {
      sm90::grouped_linear(
          {.x = View<const Bf16Bits, 3>(operands_.x, {num_rows_, product_.num_groups, product_.num_inputs}),
           .weight = &weights[0],
           .y = operands_.y[0]},
          cuda_.context());
      return;
    }
    std::vector<LinearOutput> outputs;
    for (std::size_t j = 0; j < weights.size(); ++j) outputs.push_back({&weights[j], operands_.y[j]});
    sm90::linear({.x = x(), .outputs = outputs}, cuda_.context());
  }
  void round() { sm90::round_rows(x(), operands_.rounded, cuda_.context()); }
  void by(void (*kernel)(const sm90::Bf16Work&, CudaContext&), int i) {
    const auto& weights = operands_.weights[static_cast<std::size_t>(i)];
    std::vector<sm90::Bf16Work::Output> outputs;
    for (std::size_t j = 0; j < weights.size(); ++j) outputs.push_back({&weights[j], operands_.y[j]});
    kernel(
        {.x = reinterpret_cast<const std::byte*>(product_.num_groups > 1 ? operands_.x : operands_.rounded),
         .num_rows = num_rows_,
         .num_groups = product_.num_groups,
         .num_inputs = product_.num_inputs,
         .row_stride = row_size(),
         .group_stride = product_.num_inputs,
         .outputs = outputs},
        cuda_.context());
  }

  [[nodiscard]] std::vector<Bf16Bits> results() {
    std::vector<Bf16Bits> all;
    for (const Activations<2>& y : operands_.y) {
      const auto part = cuda_.download(reinterpret_cast<const Bf16Bits*>(y.address()), y.size());
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

 private:
  [[nodiscard]] std::int64_t row_size() const { return product_.num_groups * product_.num_inputs; }

  test::TestCuda& cuda_;
  const Product& product_;
  std::int64_t num_rows_;
  Operands operands_;
};

void run(const Product& product, std::int64_t num_rows) {
  test::TestCuda cuda(std::int64_t{16} << 20);
  Launches launches(cuda, product, num_rows);
  const std::int64_t total = std::accumulate(product.outputs.begin(), product.outputs.end(), std::int64_t{0});
  const double bytes = static_cast<double>(total * product.num_inputs);
  const double flops = 2.0 * static_cast<double>(num_rows) * bytes;
  const std::string shape = fmt::format("{} {}x{}x{}", product.name, num_rows, total, product.num_inputs);
  const auto time = [&](const char* name, const auto& launch) {
    report(name, shape, time_launches(cuda.context().stream, launches.rotations(), launch), bytes, flops);
  };
  launches.operation(0);
  const std::vector<Bf16Bits> results = launches.results();
  launches.round();
  launches.by(sm90::bf16_stream_fp8, 0);
  if (launches.results() != results) fail("{}: the kernels do not agree", shape);
  time("operation", [&](int i) { launches.operation(i); });
  time("stream alone", [&](int i) { launches.by(sm90::bf16_stream_fp8, i); });
  time("stream and rounding", [&](int i) {
    launches.round();
    launches.by(sm90::bf16_stream_fp8, i);
  });
  if (num_rows <= sm90::bf16_time::kFewTokens && product.num_inputs <= sm90::bf16_time::kFewMaxInputs)
    time("few alone", [&](int i) { launches.by(sm90::bf16_few_fp8, i); });
}

}  // namespace
}  // namespace baleen::bench

/// Arguments: numbers of tokens.
int main(int argc, char** argv) {
  using namespace baleen;
  try {
    std::vector<std::int64_t> token_counts;
    for (const char* argument : std::span(argv + 1, argv + argc))
      token_counts.push_back(std::atoll(argument));
    if (token_counts.empty()) token_counts = {1, 6, 8, 16, 64};
    for (const std::int64_t num_rows : token_counts) {
      for (const bench::Product& product : bench::products()) bench::run(product, num_rows);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
