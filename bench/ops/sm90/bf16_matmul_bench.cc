// BF16 products on Hopper: the compressor's, indexer's and router's projections, the grouped output
// projection, logits.
// Every case is first held against a plain kernel, then timed beside cuBLASLt's fastest of several algorithms
// where the library is found (weights as one BF16 matrix), and beside our own kernels with K cut the other
// way: what it costs that the order of a sum must not depend on the number of rows.

#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/support/cublaslt_bf16.h"
#include "bench/support/cuda_bench.h"
#include "bf16_matmul_reference.h"
#include "cuda/cuda_context.h"
#include "cuda/cuda_error.h"
#include "cuda/cuda_memory.h"
#include "ops/grouped_linear/cuda/grouped_linear.h"
#include "ops/lm_head/lm_head.h"
#include "ops/matmul/cuda/matmul_bf16.h"
#include "ops/matmul/sm90/bf16_products.h"
#include "ops/matmul/sm90/bf16_split_few.h"

namespace baleen::sm90 {
namespace {

struct Case {
  std::string name;
  std::int64_t num_groups;
  std::int64_t num_inputs;
  std::vector<std::int64_t> num_outputs;  ///< of each product
  bool fp8;
  bool y_is_bf16;
};

class Bench {
 public:
  Bench()
      : stream_(make_stream()),
        memory_(stream_),
        scratch_(1 << 20, memory_),
        context_{{stream_}, scratch_, {}},
        blas_(stream_) {}

  void run(const Case& c, std::int64_t num_rows) {
    std::int64_t all_outputs = 0;
    for (const std::int64_t n : c.num_outputs) all_outputs += n;
    const std::int64_t weights = all_outputs * c.num_inputs, x_count = num_rows * c.num_groups * c.num_inputs;
    const std::int64_t weight_bytes = weights * (c.fp8 ? 1 : 2),
                       y_bytes = num_rows * all_outputs * (c.y_is_bf16 ? 2 : 4);
    const double bytes = static_cast<double>(weight_bytes + 2 * x_count + y_bytes);
    const double flops = 2.0 * static_cast<double>(num_rows) * static_cast<double>(weights);
    const int num_inputs = num_rows >= 1024 ? 3 : bench::inputs_beyond_l2(bytes);

    std::vector<Buffer> buffers;
    std::vector<Input> inputs;
    const auto take = [&](std::int64_t size) { return buffers.emplace_back(size, memory_).data(); };
    float* scales = reinterpret_cast<float*>(take(weights / (128 * 128) * 4 + 4));
    bench::fill_scales(scales, weights / (128 * 128), stream_);
    for (int i = 0; i < num_inputs; ++i) {
      Input input{take(weight_bytes), reinterpret_cast<std::uint16_t*>(take(2 * x_count)), take(y_bytes)};
      if (c.fp8) {
        bench::fill_e4m3(reinterpret_cast<std::uint8_t*>(input.w), weights, 1 + i * weights, stream_);
      } else {
        bench::fill_bf16(reinterpret_cast<std::uint16_t*>(input.w), weights, 1 + i * weights, stream_);
      }
      bench::fill_bf16(input.x, x_count, 77 + i * x_count, stream_);
      check_cuda(cudaMemsetAsync(input.y, 0xFF, static_cast<std::size_t>(y_bytes), stream_), "poisoning");
      inputs.push_back(input);
    }
    const auto launch = [&](int i) { multiply(c, num_rows, inputs[static_cast<std::size_t>(i)], scales); };

    launch(0);
    const double error = verify(c, num_rows, inputs[0], scales);
    if (!(error < (c.y_is_bf16 ? 3e-3 : 1e-5))) {
      fmt::print("{} {} rows: WRONG, relative error {}\n", c.name, num_rows, error);
      return;
    }
    const bench::Timing timing = bench::time_launches(stream_, num_inputs, launch);

    std::string against;
    if (blas_.found()) {
      if (c.fp8) dequantise(inputs, weights, take);
      blas_.prepare(num_rows, c.num_groups, c.num_inputs, all_outputs, c.y_is_bf16);
      double best = 1e30;
      for (std::size_t algorithm = 0; algorithm < blas_.num_algorithms(); ++algorithm) {
        const bench::Timing theirs = bench::time_launches(
            stream_, num_inputs,
            [&](int i) {
              const Input& input = inputs[static_cast<std::size_t>(i)];
              blas_.run(algorithm, input.w, input.x, input.y);
            },
            5);
        best = std::min(best, theirs.median_us);
      }
      against = fmt::format("cublasLt {:.2f} us ({:.2f}x)", best, best / timing.median_us);
    }
    bench::report(c.name, fmt::format("T={}", num_rows), timing, bytes, flops, against);
    if (c.num_groups > 1) return;
    const bench::Timing other = bench::time_launches(stream_, num_inputs, [&](int i) {
      multiply_cut_otherwise(c, num_rows, inputs[static_cast<std::size_t>(i)]);
    });
    bench::report(
        c.name + " cut otherwise", fmt::format("T={}", num_rows), other, bytes, flops,
        fmt::format("ours {:.2f} us ({:.2f}x)", timing.median_us, timing.median_us / other.median_us));
  }

  /// The kernels beside each other, where one takes over from the other.
  void compare_kernels(const Case& c, std::int64_t num_rows) {
    std::int64_t all_outputs = 0;
    for (const std::int64_t n : c.num_outputs) all_outputs += n;
    const std::int64_t weights = all_outputs * c.num_inputs, weight_bytes = weights * (c.fp8 ? 1 : 2);
    const int num_inputs = bench::inputs_beyond_l2(static_cast<double>(weight_bytes));
    std::vector<Buffer> buffers;
    std::vector<Input> inputs;
    const auto take = [&](std::int64_t size) { return buffers.emplace_back(size, memory_).data(); };
    float* scales = reinterpret_cast<float*>(take(weights / (128 * 128) * 4 + 4));
    bench::fill_scales(scales, weights / (128 * 128), stream_);
    for (int i = 0; i < num_inputs; ++i) {
      const std::int64_t x_count = num_rows * c.num_groups * c.num_inputs;
      inputs.push_back({take(weight_bytes), reinterpret_cast<std::uint16_t*>(take(2 * x_count)),
                        take(num_rows * all_outputs * 4)});
      check_cuda(cudaMemsetAsync(inputs.back().w, 0, static_cast<std::size_t>(weight_bytes), stream_),
                 "clearing");
      bench::fill_bf16(inputs.back().x, x_count, 77, stream_);
    }
    const int num_segments = c.num_groups > 1 ? 1 : bf16_time::segments_of(c.num_outputs[0]);
    const auto few = num_segments > 1 ? bf16_split : c.fp8 ? bf16_stream_fp8 : bf16_stream;
    const bool few_outputs = num_rows <= 8 && num_segments > 1;
    for (const auto kernel : {few, few_outputs ? bf16_split_few : bf16_tile}) {
      const bench::Timing timing = bench::time_launches(stream_, num_inputs, [&](int i) {
        with_work(c, num_rows, inputs[static_cast<std::size_t>(i)], c.fp8 ? scales : nullptr, num_segments,
                  [&](const Bf16Work& work) { kernel(work, context_); });
      });
      bench::report(fmt::format("{} by {}", c.name,
                                kernel == bf16_tile        ? "tile"
                                : kernel == bf16_split_few ? "the kernel for few rows and outputs"
                                                           : "the kernel for few rows"),
                    fmt::format("T={}", num_rows), timing, static_cast<double>(weight_bytes),
                    2.0 * static_cast<double>(num_rows) * static_cast<double>(weights));
    }
  }

 private:
  struct Input {
    std::byte* w;
    std::uint16_t* x;
    std::byte* y;
  };

  static cudaStream_t make_stream() {
    cudaStream_t stream = nullptr;
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
    return stream;
  }

  /// For cuBLASLt's BF16 product: random BF16 weights, as large as the FP8 ones dequantised.
  template <class Take>
  void dequantise(std::vector<Input>& inputs, std::int64_t weights, const Take& take) {
    for (Input& input : inputs) {
      input.w = take(2 * weights);
      bench::fill_bf16(reinterpret_cast<std::uint16_t*>(input.w), weights, 5, stream_);
    }
  }

  void multiply(const Case& c, std::int64_t num_rows, const Input& input, const float* scales) {
    const auto format = c.fp8 ? WeightFormat::kFp8 : WeightFormat::kBF16;
    const auto type = c.y_is_bf16 ? ElementType::kBf16 : ElementType::kF32;
    const auto* x = reinterpret_cast<const std::byte*>(input.x);
    if (c.num_groups > 1) {
      const WeightMatrix weight{.format = format,
                                .rows = c.num_outputs[0],
                                .cols = c.num_inputs,
                                .data = input.w,
                                .block_scales = scales};
      sm90::grouped_linear(
          {.x = ConstActivations<3>(x, ElementType::kBf16, {num_rows, c.num_groups, c.num_inputs}),
           .weight = &weight,
           .y = Activations<2>(input.y, type, {num_rows, c.num_outputs[0]})},
          context_);
      return;
    }
    std::vector<WeightMatrix> weights;
    std::vector<MatmulBf16> products;
    weights.reserve(c.num_outputs.size());
    std::int64_t first = 0;
    for (const std::int64_t n : c.num_outputs) {
      weights.push_back(
          {.format = format, .rows = n, .cols = c.num_inputs, .data = input.w + first * c.num_inputs * 2});
      products.push_back(
          {.weight = &weights.back(),
           .x = ConstActivations<2>(x, ElementType::kBf16, {num_rows, c.num_inputs}),
           .y = Activations<2>(input.y + first * num_rows * size_of(type), type, {num_rows, n})});
      first += n;
    }
    sm90::matmul_bf16(products, context_);
  }

  /// BF16 weights of one group, in one segment where there are several and the other way round.
  void multiply_cut_otherwise(const Case& c, std::int64_t num_rows, const Input& input) {
    const int num_segments = bf16_time::segments_of(c.num_outputs[0]) == 1 ? kMaxSegments : 1;
    with_work(c, num_rows, input, nullptr, num_segments,
              [&](const Bf16Work& work) { sm90::run_bf16(work, context_); });
  }

  /// Calls `run` with the launch, y in float32.
  template <class Run>
  void with_work(const Case& c, std::int64_t num_rows, const Input& input, const float* scales,
                 int num_segments, Run run) {
    std::vector<WeightMatrix> weights;
    std::vector<Bf16Work::Output> outputs;
    weights.reserve(c.num_outputs.size());
    std::int64_t first = 0;
    for (const std::int64_t n : c.num_outputs) {
      weights.push_back({.format = c.fp8 ? WeightFormat::kFp8 : WeightFormat::kBF16,
                         .rows = n,
                         .cols = c.num_inputs,
                         .data = input.w + first * c.num_inputs * (c.fp8 ? 1 : 2),
                         .block_scales = scales});
      outputs.push_back({&weights.back(),
                         Activations<2>(input.y + first * num_rows * 4, ElementType::kF32, {num_rows, n})});
      first += n;
    }
    run({.x = reinterpret_cast<const std::byte*>(input.x),
         .num_rows = num_rows,
         .num_groups = c.num_groups,
         .num_inputs = c.num_inputs,
         .row_stride = c.num_groups * c.num_inputs,
         .group_stride = c.num_inputs,
         .num_segments = num_segments,
         .outputs = outputs});
  }

  double verify(const Case& c, std::int64_t num_rows, const Input& input, const float* scales) {
    Buffer squares(16, memory_);
    check_cuda(cudaMemsetAsync(squares.data(), 0, 16, stream_), "clearing");
    std::int64_t first = 0;
    for (const std::int64_t n : c.num_outputs) {
      bench::compare({input.x, input.w + first * c.num_inputs * (c.fp8 ? 1 : 2), c.fp8 ? scales : nullptr,
                      input.y + first * num_rows * (c.y_is_bf16 ? 2 : 4), num_rows, c.num_groups,
                      c.num_inputs, n, c.y_is_bf16},
                     reinterpret_cast<double*>(squares.data()), stream_);
      first += n;
    }
    double sums[2];
    memory_.download(std::as_writable_bytes(std::span(sums)), squares.data());
    return std::sqrt(sums[0] / sums[1]);
  }

  cudaStream_t stream_;
  CudaMemory memory_;
  Arena scratch_;
  CudaContext context_;
  bench::CublasLtBf16 blas_;
};

}  // namespace
}  // namespace baleen::sm90

int main(int argc, char** argv) {
  using namespace baleen::sm90;
  const std::string_view mode = argc == 2 ? argv[1] : "";
  const bool crossover = mode == "--crossover", gates = mode == "--gates";
  const std::vector<Case> cases = {
      {"router gate", 1, 4096, {256}, false, false},
      {"router gate of V4.1", 1, 5120, {384}, false, false},
      {"compressor", 1, 4096, {1024, 1024}, false, false},
      {"compressor + indexer", 1, 4096, {1024, 1024, 256, 256, 64}, false, false},
      {"grouped_linear Flash FP8", 8, 4096, {8192}, true, true},
      {"grouped_linear Pro FP8", 16, 4096, {16384}, true, true},
      {"grouped_linear Flash BF16", 8, 4096, {8192}, false, true},
      {"lm_head", 1, 4096, {129280}, false, false},
  };
  Bench bench;
  for (const Case& c : cases) {
    if (gates) {
      if (!c.name.starts_with("router gate")) continue;
      for (const std::int64_t num_rows : {1, 2, 4, 8}) bench.compare_kernels(c, num_rows);
      continue;
    }
    if (crossover) {
      for (const std::int64_t num_rows : {64, 128, 192, 256}) bench.compare_kernels(c, num_rows);
      continue;
    }
    for (const std::int64_t num_rows : {1, 16, 64, 256, 4096}) {
      if (c.name == "lm_head" && num_rows > 256) continue;
      bench.run(c, num_rows);
    }
  }
}
