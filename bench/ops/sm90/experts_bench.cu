// Experts on the GPU in the geometry of Flash: 1 to 4096 tokens, with and without the shared expert, and what
// one of two ranks has of them. Bytes are those of the active experts' weights and scales, each once.
//     sm90_experts_bench [few|nvfp4|stated|groups|many_groups]
// few: up to four tokens only, by every kernel for them; nvfp4: routed experts in NVFP4; stated: the stated
// order of sums beside the free one, and what the device copies; groups: in the geometry of DeepSeek-V4.1's
// Flash, whose activations have a scale per 32, up to eight tokens by every kernel for them; many_groups: of
// these experts 64 to 8192 tokens
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <random>
#include <set>
#include <string_view>

#include "base/error.h"
#include "bench/support/cuda_bench.h"
#include "cuda/cuda_context.h"
#include "cuda/cuda_memory.h"
#include "numeric/bf16.h"
#include "ops/experts/cuda/experts_stated.h"
#include "ops/experts/sm90/experts.h"

namespace baleen::sm90 {
namespace {

constexpr int kSelected = 6;
constexpr std::int64_t kMaxTokens = 8192;

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

/// A model's experts.
struct Shape {
  std::int64_t width, inner;
  int num_experts;
  int group;  ///< values of activations that share a scale
};
constexpr Shape kFlash{4096, 2048, 256, kActivationGroup}, kFlash41{5120, 2304, 384, kSmallActivationGroup};

/// What a rank has of experts.
struct Share {
  std::string_view name;
  Shape model = kFlash;
  int parts = 1, shared_parts = 1;           ///< ranks that split inner widths
  int expert_parts = 1;                      ///< ranks that have some of the experts each
  WeightFormat routed = WeightFormat::kFp4;  ///< or kNvfp4
  [[nodiscard]] int num_experts() const { return model.num_experts / expert_parts; }
  [[nodiscard]] std::int64_t inner() const { return model.inner / parts; }
  [[nodiscard]] std::int64_t shared_inner() const { return model.inner / shared_parts; }
  [[nodiscard]] bool is_split() const { return parts > 1; }
  [[nodiscard]] bool shared_is_split() const { return shared_parts > 1; }
  [[nodiscard]] bool is_whole() const { return !is_split() && !shared_is_split() && expert_parts == 1; }
};

class Bench {
 public:
  explicit Bench(const Share& share)
      : share_(share),
        width_(share.model.width),
        num_experts_(share.model.num_experts),
        stream_(make_stream()),
        memory_(stream_),
        scratch_(scratch_bytes(), memory_),
        context_{{stream_}, scratch_, {}} {
    using E = ExpertWeights;
    routed_.resize(static_cast<std::size_t>(num_experts_));
    std::uint32_t seed = 1;
    for (const Which which : {&E::w1, &E::w2, &E::w3}) {
      const std::int64_t values = width_ * share.inner(), shared_values = width_ * share.shared_inner();
      const std::int64_t rows = which == &E::w2 ? width_ : share.inner(), cols = values / rows;
      const std::int64_t shared_rows = which == &E::w2 ? width_ : share.shared_inner();
      const std::uint8_t* codes = random_bytes(num_experts_ * values / 2, seed++, true);
      // Products of the two halves stay near one: scales from 2^-10 to 2^-7, and their product in NVFP4.
      const bool nvfp4 = share.routed == WeightFormat::kNvfp4;
      const std::int64_t num_scales = rows * format_layout(share.routed).scales_across(cols);
      const std::uint8_t* scales =
          random_bytes(num_experts_ * num_scales, seed++, false, nvfp4 ? 48 : 117, nvfp4 ? 16 : 4);
      const float* matrix_scales =
          nvfp4 ? upload(std::vector<float>(static_cast<std::size_t>(num_experts_), 0x1p-9F)) : nullptr;
      for (int expert = 0; expert < num_experts_; ++expert) {
        routed_[static_cast<std::size_t>(expert)].*
            which = {.format = share.routed,
                     .rows = rows,
                     .cols = cols,
                     .data = reinterpret_cast<const std::byte*>(codes) + expert * values / 2,
                     .group_scales = scales + expert * num_scales,
                     .matrix_scale = nvfp4 ? matrix_scales + expert : nullptr,
                     .activation_group = share.model.group};
      }
      shared_.*which = {.format = WeightFormat::kFp8,
                        .rows = shared_rows,
                        .cols = shared_values / shared_rows,
                        .data = reinterpret_cast<const std::byte*>(random_bytes(shared_values, seed++, true)),
                        .activation_group = share.model.group};
      if (share.model.group == kActivationGroup) {
        (shared_.*which).block_scales =
            upload(std::vector<float>(static_cast<std::size_t>(shared_values / 128 / 128), 0x1p-12F));
      } else {
        (shared_.*which).format = WeightFormat::kFp8x32;
        (shared_.*which).group_scales = random_bytes(shared_values / 32 / 32, seed++, false, 113, 4);
      }
    }
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    std::vector<Bf16Bits> x(static_cast<std::size_t>(kMaxTokens * width_));
    for (Bf16Bits& value : x) value = float_to_bf16(normal(random));
    x_ = upload(x);
    ids_.resize(static_cast<std::size_t>(kMaxTokens * kSelected));
    for (std::int64_t token = 0; token < kMaxTokens; ++token) {
      std::set<int> chosen;
      while (chosen.size() < kSelected) chosen.insert(static_cast<int>(random() % num_experts_));
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
    out_ = reinterpret_cast<Bf16Bits*>(keep(2 * kMaxTokens * width_));
    sums_ = reinterpret_cast<float*>(keep(std::int64_t{sizeof(float)} * kMaxTokens * width_));
    int sms = 0;
    check_cuda(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0), "reading the device");
    context_.num_sms = sms;
  }

  using Run = void (*)(const ExpertsArgs&, CudaContext&);

  void launch(std::int64_t first_token, std::int64_t num_tokens, bool with_shared, Run run = sm90::experts,
              ExpertSums sums = ExpertSums::kFree) {
    const bool partial = !share_.is_whole();
    run({.x = View<const Bf16Bits, 2>(x_ + first_token * width_, {num_tokens, width_}),
         .ids = {device_ids_ + first_token * kSelected, {num_tokens, kSelected}},
         .weights = {weights_ + first_token * kSelected, {num_tokens, kSelected}},
         .routed = std::span(routed_).first(static_cast<std::size_t>(share_.num_experts())),
         .shared = with_shared ? &shared_ : nullptr,
         .swiglu_limit = 10.0F,
         .out = partial ? Activations<2>(sums_, {num_tokens, width_})
                        : Activations<2>(View<Bf16Bits, 2>(out_, {num_tokens, width_})),
         .partial_sums = partial,
         .split = {.routed = share_.is_split(), .shared = share_.shared_is_split()},
         .sums = sums},
        context_);
  }

  /// The first token against plain loops, and the same bits among 16, 64 and 4096.
  void verify(ExpertSums sums = ExpertSums::kFree) {
    std::vector<std::vector<std::byte>> host;
    std::vector<ExpertWeights> routed(static_cast<std::size_t>(num_experts_));
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
              reinterpret_cast<const std::uint8_t*>(copy(matrix.group_scales, matrix.num_scales()));
        if (matrix.matrix_scale != nullptr)
          matrix.matrix_scale =
              reinterpret_cast<const float*>(copy(matrix.matrix_scale, matrix.matrix_scale_bytes()));
        if (matrix.block_scales != nullptr)
          matrix.block_scales =
              reinterpret_cast<const float*>(copy(matrix.block_scales, matrix.rows * matrix.cols / 128 / 32));
      }
    };
    for (int slot = 0; slot < kSelected; ++slot) {
      const auto id = static_cast<std::size_t>(ids_[static_cast<std::size_t>(slot)]);
      download(routed_[id], routed[id]);
    }
    ExpertWeights shared;
    download(shared_, shared);
    std::vector<float> x, want(static_cast<std::size_t>(width_));
    for (std::int64_t i = 0; i < width_; ++i)
      x.push_back(bf16_to_float(x_host_[static_cast<std::size_t>(i)]));
    experts_ref({.x = {x.data(), {1, width_}},
                 .ids = {ids_.data(), {1, kSelected}},
                 .weights = {weights_host_.data(), {1, kSelected}},
                 .routed = routed,
                 .shared = &shared,
                 .swiglu_limit = 10.0F,
                 .out = {want.data(), {1, width_}},
                 .sums = sums});
    std::vector<Bf16Bits> first(static_cast<std::size_t>(width_));
    for (const std::int64_t num_tokens : {1, 3, 4, 16, 64, 65, 512, 4096}) {
      check_cuda(cudaMemsetAsync(out_, 0xFF, 2 * kMaxTokens * width_, stream_), "poisoning");
      launch(0, num_tokens, true, sm90::experts, sums);
      std::vector<Bf16Bits> got(static_cast<std::size_t>(width_));
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

  /// What the device's memory gives and takes in a copy.
  void time_copy() {
    constexpr std::int64_t kBytes = std::int64_t{256} << 20;
    std::byte* const from = keep(kBytes);
    std::byte* const to = keep(kBytes);
    const bench::Timing timing = bench::time_launches(
        stream_, 1,
        [&](int) {
          check_cuda(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDeviceToDevice, stream_), "copying");
        },
        11);
    bench::report("copy", "256 MiB", timing, 2.0 * kBytes, 0, "");
  }

  void time(std::int64_t num_tokens, bool with_shared, std::string_view kernel = "", Run run = sm90::experts,
            ExpertSums sums = ExpertSums::kFree) {
    const auto active = [&](std::int64_t first) {
      const std::set<int> ids(ids_.begin() + first * kSelected,
                              ids_.begin() + (first + num_tokens) * kSelected);
      return std::distance(ids.begin(), ids.lower_bound(share_.num_experts()));
    };
    const double expert_bytes = 3.0 * static_cast<double>(width_ * share_.inner()) *
                                (1.0 / 2 + 1.0 / format_layout(share_.routed).scale_cols);
    const double shared_bytes = with_shared ? 3.0 * static_cast<double>(width_ * share_.shared_inner()) : 0;
    const int num_inputs = static_cast<int>(std::clamp<std::int64_t>(kMaxTokens / num_tokens, 1, 8));
    double bytes = 0;
    for (int i = 0; i < num_inputs; ++i) {
      bytes += expert_bytes * static_cast<double>(active(i * num_tokens)) + shared_bytes;
    }
    const auto begin = ids_.begin(), end = begin + num_tokens * kSelected;
    const auto routed = static_cast<double>(
        std::count_if(begin, end, [&](std::int32_t id) { return id < share_.num_experts(); }));
    const double of_shared = with_shared ? static_cast<double>(num_tokens * share_.shared_inner()) : 0;
    const double inner_values = routed * static_cast<double>(share_.inner()) + of_shared;
    const bench::Timing timing = bench::time_launches(
        stream_, num_inputs, [&](int i) { launch(i * num_tokens, num_tokens, with_shared, run, sums); }, 11);
    bench::report("experts",
                  fmt::format("{} tokens{}{}{}", num_tokens, with_shared ? " + shared expert" : "",
                              share_.name, kernel),
                  timing, bytes / num_inputs, inner_values * 6.0 * static_cast<double>(width_),
                  num_tokens <= 64     ? "3000 GB/s"
                  : num_tokens >= 4096 ? "600 TFLOP/s"
                                       : "");
  }

 private:
  static CUstream_st* make_stream() {
    cudaStream_t stream = nullptr;
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
    return stream;
  }
  [[nodiscard]] std::int64_t scratch_bytes() const {
    return sm90::experts_scratch_bytes(kMaxTokens, kSelected, width_, share_.model.inner, num_experts_,
                                       share_.model.group) +
           split_experts_scratch_bytes(kMaxTokens, kSelected, width_, num_experts_, {true, true});
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

  Share share_;
  std::int64_t width_;
  int num_experts_;  ///< of all ranks
  CUstream_st* stream_;
  CudaMemory memory_;
  Arena scratch_;
  CudaContext context_;
  std::vector<Buffer> buffers_;
  std::vector<ExpertWeights> routed_;
  ExpertWeights shared_;
  std::vector<std::int32_t> ids_;
  std::vector<Bf16Bits> x_host_;
  std::vector<float> weights_host_;
  const Bf16Bits* x_ = nullptr;
  const std::int32_t* device_ids_ = nullptr;
  const float* weights_ = nullptr;
  Bf16Bits* out_ = nullptr;
  float* sums_ = nullptr;
};

/// Up to four tokens, by each kernel for them: of all experts, and of one of two ranks.
void time_few_tokens() {
  constexpr Share kShares[] = {
      {.name = ""},
      {.name = ", half the experts", .expert_parts = 2},
      {.name = ", half the experts and of the shared one", .shared_parts = 2, .expert_parts = 2},
      {.name = ", half of each", .parts = 2, .shared_parts = 2}};
  for (const Share& share : kShares) {
    Bench bench(share);
    for (const int num_tokens : {1, 2, 3, 4}) {
      bench.time(num_tokens, true, " by four_tokens", experts_four_tokens);
      bench.time(num_tokens, true, " by few_tokens", experts_few_tokens);
    }
  }
}

/// Of DeepSeek-V4.1's Flash, by each kernel for up to eight tokens: whole experts, and half of each.
void time_groups() {
  for (const int parts : {1, 2}) {
    Bench bench({.name = parts == 1 ? ", V4.1" : ", V4.1, half of each",
                 .model = kFlash41,
                 .parts = parts,
                 .shared_parts = parts});
    if (parts == 1) bench.verify();
    bench.time_copy();
    for (const bool with_shared : {true, false}) {
      for (const int num_tokens : {1, 2, 4, 6, 8}) {
        if (num_tokens <= (parts == 1 ? 4 : 8))  // room for more is there where experts are split
          bench.time(num_tokens, with_shared, " by few_groups", experts_few_groups);
        bench.time(num_tokens, with_shared, " by tiles", experts_groups_of_32);
      }
    }
  }
}

/// Of DeepSeek-V4.1's Flash, many tokens by each kernel for them: whole experts, half of them, and half of
/// each.
void time_many_groups() {
  constexpr int kMaxFewTokens = 1024;
  constexpr Share kShares[] = {
      {.name = ", V4.1", .model = kFlash41},
      {.name = ", V4.1, half the experts", .model = kFlash41, .expert_parts = 2},
      {.name = ", V4.1, half of each", .model = kFlash41, .parts = 2, .shared_parts = 2}};
  for (const Share& share : kShares) {
    Bench bench(share);
    if (share.is_whole()) bench.verify();
    bench.time_copy();
    for (const int num_tokens : {64, 512, 1024, 2048, 4096, 8192}) {
      if (num_tokens <= kMaxFewTokens) bench.time(num_tokens, true, " by tiles of 8", experts_tiles_of_8);
      bench.time(num_tokens, true, " by tiles of 64", experts_tiles_of_64);
      bench.time(num_tokens, true, " by tiles of 144", experts_tiles_of_144);
    }
  }
}

/// In the stated order, by each kernel for it, beside the free one; with the shared expert and without.
void time_stated() {
  constexpr int kMaxFewTokens = 1024;
  Bench bench({});
  bench.verify(ExpertSums::kStated);
  bench.time_copy();
  for (const bool with_shared : {false, true}) {
    for (const int num_tokens : {1, 2, 4, 8, 16, 64, 256, 1024, 8192}) {
      bench.time(num_tokens, with_shared, ", free");
      if (num_tokens <= kMaxFewTokens)
        bench.time(num_tokens, with_shared, " by stated_few", experts_stated_few, ExpertSums::kStated);
      bench.time(num_tokens, with_shared, " by stated_many", experts_stated_many, ExpertSums::kStated);
    }
  }
}

/// Whole experts.
void time_all(const Share& share) {
  Bench bench(share);
  bench.verify();
  for (const bool with_shared : {false, true}) {
    for (const int num_tokens : {1, 2, 3, 4, 16, 64, 128, 512, 1024, 4096})
      bench.time(num_tokens, with_shared);
  }
}

}  // namespace
}  // namespace baleen::sm90

int main(int count, char** values) {
  const std::string_view what = count > 1 ? values[1] : "";
  if (what == "few") {
    baleen::sm90::time_few_tokens();
  } else if (what == "nvfp4") {
    baleen::sm90::time_all({.name = ", NVFP4", .routed = baleen::WeightFormat::kNvfp4});
  } else if (what == "groups") {
    baleen::sm90::time_groups();
  } else if (what == "many_groups") {
    baleen::sm90::time_many_groups();
  } else if (what == "stated") {
    baleen::sm90::time_stated();
  } else {
    baleen::sm90::time_all({});
  }
  return 0;
}
