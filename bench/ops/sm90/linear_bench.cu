// FP8 linear layers of Flash on the GPU, beside cuBLASLt on the same shapes (its product knows one scale for each operand
// and none per block). Verifies single outputs first; see bench/support/cuda_bench.h for how it times.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/support/cublaslt_fp8.h"
#include "bench/support/cuda_bench.h"
#include "numeric/e4m3.h"
#include "ops/linear/cuda/linear.h"
#include "ops/linear/cuda/quantise_rows.h"
#include "ops/linear/sm90/fp8_products.h"
#include "tests/support/test_cuda.h"

namespace baleen::bench {
namespace {

constexpr std::int64_t kMaxTokens = 4096;

struct Layer {
  const char* name;
  std::int64_t inputs;
  std::vector<std::int64_t> outputs;
};

const std::vector<Layer>& layers() {
  static const std::vector<Layer> kLayers = {
      {"wq_a+wkv", 4096, {1024, 512}},
      {"wq_b+indexer", 1024, {32768, 8192}},
      {"wo_b", 8192, {4096}},
      {"w1+w3", 4096, {2048, 2048}},
      {"w2", 2048, {4096}},
      {"e_proj", 4096, {4096}},
  };
  return kLayers;
}

/// Finite codes from a counter, their exponents spread as those of normal values are.
__global__ void fill_codes(std::uint8_t* codes, std::int64_t count, std::uint32_t seed) {
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    auto hash = static_cast<std::uint32_t>(i) * 2654435761u + seed;
    hash = (hash ^ hash >> 15) * 0x85EBCA6Bu;
    hash = (hash ^ hash >> 13) * 0xC2B2AE35u;
    hash ^= hash >> 16;
    const std::uint32_t exponent = 12 - min(__clz(static_cast<int>(hash | 1)), 9);
    codes[i] = static_cast<std::uint8_t>((hash & 0x87) | exponent << 3);
  }
}

struct Operands {
  std::vector<std::vector<WeightMatrix>>
      weights;                       ///< [rotation][output], the outputs of a rotation one after the other
  std::vector<const void*> stacked;  ///< [rotation], where they begin
  Fp8Rows x;
  ConstActivations<2> x_bf16;
  std::vector<Activations<2>> y;
};

Operands make_operands(test::TestCuda& cuda, const Layer& layer, std::int64_t tokens) {
  Operands operands;
  const std::int64_t total = std::accumulate(layer.outputs.begin(), layer.outputs.end(), std::int64_t{0});
  const std::int64_t padded = (tokens + 15) / 16 * 16, slices = layer.inputs / 128;
  const double bytes = static_cast<double>(total * layer.inputs + (tokens > 64 ? 2 * tokens * total : 0));
  for (int i = 0; i < inputs_beyond_l2(bytes); ++i) {
    auto* codes = cuda.allocate<std::uint8_t>(total * layer.inputs);
    fill_codes<<<1024, 256, 0, cuda.context().stream>>>(codes, total * layer.inputs,
                                                        static_cast<std::uint32_t>(i) * 977);
    operands.stacked.push_back(codes);
    std::vector<WeightMatrix>& rotation = operands.weights.emplace_back();
    for (const std::int64_t outputs : layer.outputs) {
      std::vector<float> scales(static_cast<std::size_t>((outputs + 127) / 128 * slices));
      for (std::size_t j = 0; j < scales.size(); ++j) scales[j] = 0.01F + 0.001F * static_cast<float>(j % 7);
      rotation.push_back({.format = WeightFormat::kFp8,
                          .rows = outputs,
                          .cols = layer.inputs,
                          .data = reinterpret_cast<const std::byte*>(codes),
                          .block_scales = cuda.upload(scales)});
      codes += outputs * layer.inputs;
    }
  }
  std::vector<float> x(static_cast<std::size_t>(padded * layer.inputs));
  std::uint32_t state = 1;
  for (float& value : x) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-30F;
  }
  operands.x_bf16 = {
      reinterpret_cast<const std::byte*>(cuda.upload_bf16(x)), ElementType::kBf16, {tokens, layer.inputs}};
  operands.x = {cuda.allocate<std::uint8_t>(padded * layer.inputs), cuda.allocate<float>(slices * padded),
                padded};
  sm90::quantise_rows({operands.x_bf16.address(), ElementType::kBf16, {padded, layer.inputs}}, operands.x,
                      cuda.context());
  auto* y = cuda.allocate<Bf16Bits>(padded * total);
  for (const std::int64_t outputs : layer.outputs) {
    operands.y.push_back(View<Bf16Bits, 2>(y, {tokens, outputs}));
    y += padded * outputs;
  }
  return operands;
}

std::vector<LinearOutput> outputs_of(const Operands& operands, int rotation) {
  std::vector<LinearOutput> outputs;
  for (std::size_t i = 0; i < operands.y.size(); ++i) {
    outputs.push_back({&operands.weights[static_cast<std::size_t>(rotation)][i], operands.y[i]});
  }
  return outputs;
}

/// Some outputs against the sum in double; stops the program when one is wrong.
void verify(test::TestCuda& cuda, const Layer& layer, const Operands& operands, std::int64_t tokens) {
  const auto outputs = outputs_of(operands, 0);
  sm90::linear({.x = operands.x_bf16, .x_fp8 = operands.x, .outputs = outputs}, cuda.context());
  const auto codes = cuda.download(operands.x.codes, tokens * layer.inputs);
  const auto scales = cuda.download(operands.x.scales, layer.inputs / 128 * operands.x.scale_stride);
  for (const LinearOutput& output : outputs) {
    const WeightMatrix& weight = *output.weight;
    const auto y = cuda.download(reinterpret_cast<const Bf16Bits*>(output.y.address()), tokens * weight.rows);
    const auto block_scales =
        cuda.download(weight.block_scales, (weight.rows + 127) / 128 * (layer.inputs / 128));
    for (int sample = 0; sample < 40; ++sample) {
      const std::int64_t token = (sample * 7919 + 13) % tokens, n = (sample * 104729 + 5) % weight.rows;
      const auto row =
          cuda.download(reinterpret_cast<const std::uint8_t*>(weight.data) + n * weight.cols, weight.cols);
      double sum = 0, squares = 0;
      for (std::int64_t k = 0; k < weight.cols; ++k) {
        const double product =
            static_cast<double>(e4m3_to_float(codes[static_cast<std::size_t>(token * weight.cols + k)])) *
            e4m3_to_float(row[static_cast<std::size_t>(k)]) *
            scales[static_cast<std::size_t>(k / 128 * operands.x.scale_stride + token)] *
            block_scales[static_cast<std::size_t>(n / 128 * (weight.cols / 128) + k / 128)];
        sum += product;
        squares += product * product;
      }
      const double got = bf16_to_float(y[static_cast<std::size_t>(token * weight.rows + n)]);
      if (!(std::abs(got - sum) <= 0x1p-8 * std::abs(sum) + 1e-3 * std::sqrt(squares))) {
        fail("{}, {} tokens: output {} of token {} is {} instead of {}", layer.name, tokens, n, token, got,
             sum);
      }
    }
  }
}

/// The medians of two launches that take turns, so that neither has the cooler chip.
template <class First, class Second>
std::pair<Timing, Timing> time_alternately(cudaStream_t stream, int num_inputs, const First& first,
                                           const Second& second) {
  constexpr int kRounds = 5, kReplays = 5;
  std::vector<Timing> firsts, seconds;
  for (int round = 0; round < kRounds; ++round) {
    firsts.push_back(time_launches(stream, num_inputs, first, kReplays));
    seconds.push_back(time_launches(stream, num_inputs, second, kReplays));
  }
  const auto middle = [](std::vector<Timing>& timings) {
    std::ranges::sort(timings, {}, &Timing::median_us);
    return timings[timings.size() / 2];
  };
  return {middle(firsts), middle(seconds)};
}

void run(const Layer& layer, std::int64_t tokens, CublasLtFp8& cublaslt) {
  test::TestCuda cuda(std::int64_t{128} << 20);
  cudaStream_t stream = cuda.context().stream;
  const Operands operands = make_operands(cuda, layer, tokens);
  verify(cuda, layer, operands, tokens);
  const std::int64_t total = std::accumulate(layer.outputs.begin(), layer.outputs.end(), std::int64_t{0});
  const double flops = 2.0 * static_cast<double>(tokens * total * layer.inputs);
  const double bytes = static_cast<double>(total * layer.inputs + tokens * (layer.inputs + 2 * total));
  const std::string shape = fmt::format("{} {}x{}x{}", layer.name, tokens, total, layer.inputs);
  const int rotations = static_cast<int>(operands.stacked.size());

  const auto launch_ours = [&](int i) {
    const auto outputs = outputs_of(operands, i);
    sm90::linear({.x = operands.x_bf16, .x_fp8 = operands.x, .outputs = outputs}, cuda.context());
  };
  std::string against;
  Timing ours;
  for (const Fp8Scales scales : {Fp8Scales::kOperand, Fp8Scales::kBlock}) {
    if (!cublaslt.found()) break;
    const CublasLtFp8::Plan plan = cublaslt.best(stream, scales, tokens, total, layer.inputs,
                                                 operands.stacked, operands.x.codes, operands.y[0].address());
    const char* name = scales == Fp8Scales::kOperand ? "cublaslt" : "; with block scales";
    if (plan.timing.median_us == 0) {
      against += fmt::format("{} has none", name);
      continue;
    }
    const auto launch_theirs = [&](int i) {
      cublaslt.run(plan, stream, operands.stacked[static_cast<std::size_t>(i)], operands.x.codes,
                   operands.y[0].address());
    };
    const auto [mine, theirs] = time_alternately(stream, rotations, launch_ours, launch_theirs);
    if (scales == Fp8Scales::kOperand) ours = mine;
    against +=
        fmt::format("{} {:.2f} us: {:.2f}x", name, theirs.median_us, theirs.median_us / mine.median_us);
  }
  if (ours.median_us == 0) ours = time_launches(stream, rotations, launch_ours);
  report("linear_fp8", shape, ours, bytes, flops, against);
  if (tokens == 1 || tokens == kMaxTokens) {
    const Timing rounding = time_launches(stream, rotations, [&](int i) {
      const auto outputs = outputs_of(operands, i);
      sm90::linear({.x = operands.x_bf16, .outputs = outputs}, cuda.context());
    });
    report("linear_fp8 of BF16", shape, rounding, bytes + 3.0 * static_cast<double>(tokens * layer.inputs),
           flops);
  }
}

/// The two kernels beside each other, where one takes over from the other.
void compare_kernels(const Layer& layer, std::int64_t tokens) {
  test::TestCuda cuda(std::int64_t{128} << 20);
  const Operands operands = make_operands(cuda, layer, tokens);
  const std::int64_t total = std::accumulate(layer.outputs.begin(), layer.outputs.end(), std::int64_t{0});
  const double flops = 2.0 * static_cast<double>(tokens * total * layer.inputs);
  for (const auto products : {sm90::fp8_products_few, sm90::fp8_products_many}) {
    const Timing timing =
        time_launches(cuda.context().stream, static_cast<int>(operands.stacked.size()), [&](int i) {
          const auto outputs = outputs_of(operands, i);
          products(outputs, operands.x, tokens, cuda.context());
        });
    report(products == sm90::fp8_products_few ? "few" : "many",
           fmt::format("{} {}x{}x{}", layer.name, tokens, total, layer.inputs), timing,
           static_cast<double>(total * layer.inputs), flops);
  }
}

}  // namespace
}  // namespace baleen::bench

int main(int argc, char** argv) {
  using namespace baleen;
  try {
    if (argc == 2 && std::strcmp(argv[1], "--crossover") == 0) {
      for (const std::int64_t tokens : {64, 128, 192, 256, 512}) {
        for (const bench::Layer& layer : bench::layers()) bench::compare_kernels(layer, tokens);
      }
      return 0;
    }
    // Numbers: of tokens. Names: of layers.
    std::vector<std::int64_t> token_counts;
    std::vector<std::string> names;
    for (const char* argument : std::span(argv + 1, argv + argc)) {
      if (const std::int64_t tokens = std::atoll(argument); tokens > 0) {
        token_counts.push_back(tokens);
      } else {
        names.emplace_back(argument);
      }
    }
    if (token_counts.empty()) token_counts = {1, 16, 64, 256, bench::kMaxTokens};
    bench::CublasLtFp8 cublaslt;
    if (!cublaslt.found()) fmt::print("# no cuBLASLt here: name it in BALEEN_CUBLASLT\n");
    for (const std::int64_t tokens : token_counts) {
      for (const bench::Layer& layer : bench::layers()) {
        if (names.empty() || std::ranges::count(names, layer.name) > 0) bench::run(layer, tokens, cublaslt);
      }
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
