// Experts on the GPU in the geometry of Flash: 1 to 4096 tokens, with and without the shared expert. Bytes
// are those of the active experts' weights and scales, each once.
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "base/error.h"
#include "bench/support/cuda_bench.h"
#include "cuda/cuda_context.h"
#include "cuda/cuda_memory.h"
#include "numeric/bf16.h"
#include "ops/experts/sm90/experts.h"

namespace baleen::sm90 {
namespace {

constexpr std::int64_t kWidth = 4096;
constexpr std::int64_t kInner = 2048;
constexpr int kExperts = 256;
constexpr int kSelected = 6;
constexpr std::int64_t kMatrixValues = kWidth * kInner;
constexpr std::int64_t kMaxTokens = 4096;

using Which = WeightMatrix ExpertWeights::*;

__device__ std::uint32_t random_bits(std::uint64_t index, std::uint32_t seed) {
  std::uint64_t z = (index + seed * 0x9E3779B97F4A7C15ull) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return static_cast<std::uint32_t>(z >> 32);
}

/// Bytes low .. low + span - 1 where `codes` is false; else any but the NaN of e4m3 (no matter to packed
/// e2m1).
__global__ void fill_random(std::uint8_t* to, std::int64_t count, std::uint32_t seed, bool codes, int low,
                            int span) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    const std::uint32_t bits = random_bits(static_cast<std::uint64_t>(i), seed);
    to[i] = static_cast<std::uint8_t>(!codes                    ? low + static_cast<int>(bits % span)
                                      : (bits & 0x7Fu) == 0x7Fu ? 0
                                                                : bits & 0xFFu);
  }
}

class Bench {
 public:
  Bench()
      : stream_(make_stream()),
        memory_(stream_),
        scratch_(scratch_bytes(), memory_),
        context_{stream_, scratch_, {}} {
    using E = ExpertWeights;
    routed_.resize(kExperts);
    std::uint32_t seed = 1;
    for (const Which which : {&E::w1, &E::w2, &E::w3}) {
      const std::int64_t rows = which == &E::w2 ? kWidth : kInner;
      const std::int64_t cols = kMatrixValues / rows;
      const std::uint8_t* codes = random_bytes(kExperts * kMatrixValues / 2, seed++, true);
      // Products of the two halves stay near one.
      const std::uint8_t* scales = random_bytes(kExperts * kMatrixValues / 32, seed++, false, 117, 4);
      for (int expert = 0; expert < kExperts; ++expert) {
        routed_[static_cast<std::size_t>(expert)].*
            which = {.format = WeightFormat::kFp4,
                     .rows = rows,
                     .cols = cols,
                     .data = reinterpret_cast<const std::byte*>(codes) + expert * kMatrixValues / 2,
                     .group_scales = scales + expert * kMatrixValues / 32};
      }
      block_scales_.emplace_back(kMatrixValues / 128 / 128 * 4, memory_);
      const std::vector<float> factors(kMatrixValues / 128 / 128, 0x1p-12F);
      memory_.upload(block_scales_.back().data(), std::as_bytes(std::span(factors)));
      shared_.*which = {.format = WeightFormat::kFp8,
                        .rows = rows,
                        .cols = cols,
                        .data = reinterpret_cast<const std::byte*>(random_bytes(kMatrixValues, seed++, true)),
                        .block_scales = reinterpret_cast<const float*>(block_scales_.back().data())};
    }
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    std::vector<Bf16Bits> x(static_cast<std::size_t>(kMaxTokens * kWidth));
    for (Bf16Bits& value : x) value = float_to_bf16(normal(random));
    x_ = upload(x);
    ids_.resize(static_cast<std::size_t>(kMaxTokens * kSelected));
    for (std::int64_t token = 0; token < kMaxTokens; ++token) {
      std::set<int> chosen;
      while (chosen.size() < kSelected) chosen.insert(static_cast<int>(random() % kExperts));
      std::copy(chosen.begin(), chosen.end(), ids_.begin() + token * kSelected);
      std::shuffle(ids_.begin() + token * kSelected, ids_.begin() + (token + 1) * kSelected, random);
    }
    std::vector<float> weights(ids_.size());
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i] = 0.1F + 0.3F * static_cast<float>(i % kSelected);
    device_ids_ = upload(ids_);
    weights_host_ = weights;
    weights_ = upload(weights);
    x_host_ = std::move(x);
    out_ = reinterpret_cast<Bf16Bits*>(keep(2 * kMaxTokens * kWidth));
    int sms = 0;
    check_cuda(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0), "reading the device");
    context_.num_sms = sms;
  }

  void launch(std::int64_t first_token, std::int64_t num_tokens, bool with_shared) {
    sm90::experts({.x = View<const Bf16Bits, 2>(x_ + first_token * kWidth, {num_tokens, kWidth}),
                   .ids = {device_ids_ + first_token * kSelected, {num_tokens, kSelected}},
                   .weights = {weights_ + first_token * kSelected, {num_tokens, kSelected}},
                   .routed = routed_,
                   .shared = with_shared ? &shared_ : nullptr,
                   .swiglu_limit = 10.0F,
                   .out = View<Bf16Bits, 2>(out_, {num_tokens, kWidth})},
                  context_);
  }

  /// The first token against plain loops, and the same bits among 16, 64 and 4096.
  void verify() {
    std::vector<std::vector<std::byte>> host;
    std::vector<ExpertWeights> routed(kExperts);
    const auto download = [&](const ExpertWeights& from, ExpertWeights& to) {
      using E = ExpertWeights;
      for (const Which which : {&E::w1, &E::w2, &E::w3}) {
        WeightMatrix& matrix = to.*which;
        matrix = from.*which;
        const auto copy = [&](const void* data, std::int64_t bytes) {
          host.emplace_back(static_cast<std::size_t>(bytes));
          memory_.download(host.back(), static_cast<const std::byte*>(data));
          return host.back().data();
        };
        matrix.data = copy(matrix.data, matrix.rows * matrix.row_bytes());
        if (matrix.group_scales != nullptr)
          matrix.group_scales =
              reinterpret_cast<const std::uint8_t*>(copy(matrix.group_scales, kMatrixValues / 32));
        if (matrix.block_scales != nullptr)
          matrix.block_scales =
              reinterpret_cast<const float*>(copy(matrix.block_scales, kMatrixValues / 128 / 32));
      }
    };
    for (int slot = 0; slot < kSelected; ++slot) {
      const auto id = static_cast<std::size_t>(ids_[static_cast<std::size_t>(slot)]);
      download(routed_[id], routed[id]);
    }
    ExpertWeights shared;
    download(shared_, shared);
    std::vector<float> x, want(kWidth);
    for (std::int64_t i = 0; i < kWidth; ++i)
      x.push_back(bf16_to_float(x_host_[static_cast<std::size_t>(i)]));
    experts_ref({.x = {x.data(), {1, kWidth}},
                 .ids = {ids_.data(), {1, kSelected}},
                 .weights = {weights_host_.data(), {1, kSelected}},
                 .routed = routed,
                 .shared = &shared,
                 .swiglu_limit = 10.0F,
                 .out = {want.data(), {1, kWidth}}});
    std::vector<Bf16Bits> first(kWidth);
    for (const std::int64_t num_tokens : {1, 16, 64, 65, 512, 4096}) {
      check_cuda(cudaMemsetAsync(out_, 0xFF, 2 * kMaxTokens * kWidth, stream_), "poisoning");
      launch(0, num_tokens, true);
      std::vector<Bf16Bits> got(kWidth);
      memory_.download(std::as_writable_bytes(std::span(got)), reinterpret_cast<const std::byte*>(out_));
      if (num_tokens == 1) first = got;
      double error = 0, norm = 0;
      for (std::size_t i = 0; i < got.size(); ++i) {
        const double difference = static_cast<double>(bf16_to_float(got[i])) - static_cast<double>(want[i]);
        error += difference * difference;
        norm += static_cast<double>(want[i]) * static_cast<double>(want[i]);
      }
      const double relative = std::sqrt(error / norm);
      if (!(relative < 5e-3) || got != first) {
        fail("{} tokens: off by {:.2e} of the reference's norm; {} bits as one token alone", num_tokens,
             relative, got == first ? "the same" : "other");
      }
    }
  }

  void time(std::int64_t num_tokens, bool with_shared) {
    const auto active = [&](std::int64_t first) {
      return std::set<int>(ids_.begin() + first * kSelected, ids_.begin() + (first + num_tokens) * kSelected)
          .size();
    };
    constexpr double kExpertBytes = 3.0 * kMatrixValues * (1.0 / 2 + 1.0 / 32);
    const double shared_bytes = with_shared ? 3.0 * kMatrixValues : 0;
    const int num_inputs = static_cast<int>(std::clamp<std::int64_t>(kMaxTokens / num_tokens, 1, 8));
    double bytes = 0;
    for (int i = 0; i < num_inputs; ++i) {
      bytes += kExpertBytes * static_cast<double>(active(i * num_tokens)) + shared_bytes;
    }
    const double assignments = static_cast<double>(num_tokens) * (kSelected + (with_shared ? 1 : 0));
    const bench::Timing timing = bench::time_launches(
        stream_, num_inputs, [&](int i) { launch(i * num_tokens, num_tokens, with_shared); }, 11);
    bench::report("experts", fmt::format("{} tokens{}", num_tokens, with_shared ? " + shared expert" : ""),
                  timing, bytes / num_inputs, assignments * 6.0 * kMatrixValues,
                  num_tokens <= 64           ? "3000 GB/s"
                  : num_tokens == kMaxTokens ? "600 TFLOP/s"
                                             : "");
  }

 private:
  static CUstream_st* make_stream() {
    cudaStream_t stream = nullptr;
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
    return stream;
  }
  static std::int64_t scratch_bytes() {
    return sm90::experts_scratch_bytes(kMaxTokens, kSelected, kWidth, kInner, kExperts);
  }
  std::byte* keep(std::int64_t bytes) {
    buffers_.emplace_back(bytes, memory_);
    return buffers_.back().data();
  }
  template <class T>
  T* upload(const std::vector<T>& values) {
    std::byte* to = keep(static_cast<std::int64_t>(values.size() * sizeof(T)));
    memory_.upload(to, std::as_bytes(std::span(values)));
    return reinterpret_cast<T*>(to);
  }
  std::uint8_t* random_bytes(std::int64_t count, std::uint32_t seed, bool codes, int low = 0, int span = 1) {
    auto* to = reinterpret_cast<std::uint8_t*>(keep(count));
    fill_random<<<1024, 256, 0, stream_>>>(to, count, seed, codes, low, span);
    check_launch("filling");
    return to;
  }

  CUstream_st* stream_;
  CudaMemory memory_;
  Arena scratch_;
  CudaContext context_;
  std::vector<Buffer> buffers_, block_scales_;
  std::vector<ExpertWeights> routed_;
  ExpertWeights shared_;
  std::vector<std::int32_t> ids_;
  std::vector<Bf16Bits> x_host_;
  std::vector<float> weights_host_;
  const Bf16Bits* x_ = nullptr;
  const std::int32_t* device_ids_ = nullptr;
  const float* weights_ = nullptr;
  Bf16Bits* out_ = nullptr;
};

}  // namespace
}  // namespace baleen::sm90

int main() {
  baleen::sm90::Bench bench;
  bench.verify();
  for (const bool with_shared : {false, true}) {
    for (const int num_tokens : {1, 4, 16, 64, 128, 512, 1024, 4096}) bench.time(num_tokens, with_shared);
  }
  return 0;
}
