/// A layer of experts with random weights, and tokens that chose some of them: on the device, and by plain
/// loops.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "numeric/block_scale.h"
#include "numeric/e8m0.h"
#include "ops/experts/cuda/experts.h"
#include "tests/support/compare.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cuda.h"

namespace baleen::BALEEN_ARCH {

using test::random_values;
using test::RandomWeight;
using test::TestCuda;

struct Geometry {
  std::int64_t width = 256;
  std::int64_t inner = 384;
  int num_experts = 7;
  WeightFormat routed = WeightFormat::kFp4;
  WeightFormat shared = WeightFormat::kFp8;
  std::int64_t shared_inner = 0;  ///< 0: as routed experts
  int group = kActivationGroup;   ///< values of activations that share a scale
};

/// The weights of one layer, on the host and, in one piece for each matrix, on the device.
class Layer {
 public:
  /// `slots`: which experts lie where; empty: each once, in their order.
  Layer(TestCuda& cuda, const Geometry& geometry, std::span<const std::int32_t> slots = {})
      : geometry_(geometry) {
    const int count = slots.empty() ? geometry.num_experts : static_cast<int>(slots.size());
    for (int slot = 0; slot < count; ++slot) {
      const int expert = slots.empty() ? slot : slots[static_cast<std::size_t>(slot)];
      host_.push_back(make_expert(geometry.routed, geometry.inner, 100 * expert));
    }
    host_shared_ = make_expert(geometry.shared,
                               geometry.shared_inner > 0 ? geometry.shared_inner : geometry.inner, 9999);
    upload(cuda);
  }

  /// Changes the FP4 or NVFP4 scales of every expert's w1 and w2 and uploads again.
  template <class Change>
  void change_group_scales(TestCuda& cuda, Change&& change) {
    for (auto& expert : host_) {
      for (WeightMatrix* matrix : {&expert.w1, &expert.w2}) {
        for (std::int64_t row = 0; row < matrix->rows; ++row) {
          const std::int64_t groups = matrix->layout().scales_across(matrix->cols);
          change(row, const_cast<std::uint8_t*>(matrix->group_scales) + row * groups, groups);
        }
      }
    }
    upload(cuda);
  }

  [[nodiscard]] const Geometry& geometry() const { return geometry_; }
  [[nodiscard]] const std::vector<ExpertWeights>& host() const { return host_; }
  [[nodiscard]] const ExpertWeights& host_shared() const { return host_shared_; }
  [[nodiscard]] const std::vector<ExpertWeights>& device() const { return device_; }
  [[nodiscard]] const ExpertWeights& device_shared() const { return device_shared_; }

 private:
  ExpertWeights make_expert(WeightFormat format, std::int64_t inner, int seed) {
    const auto make = [&](std::int64_t rows, std::int64_t cols, int which) {
      owned_.push_back(
          std::make_unique<RandomWeight>(format, rows, cols, static_cast<std::uint32_t>(seed + which), 0));
      WeightMatrix matrix = owned_.back()->matrix();
      matrix.activation_group = geometry_.group;
      return matrix;
    };
    return {make(inner, geometry_.width, 0), make(geometry_.width, inner, 1),
            make(inner, geometry_.width, 2)};
  }

  void upload(TestCuda& cuda) {
    device_ = host_;
    for (WeightMatrix ExpertWeights::*which : {&ExpertWeights::w1, &ExpertWeights::w2, &ExpertWeights::w3}) {
      upload(cuda, device_, which);
      std::vector<ExpertWeights> one{host_shared_};
      upload(cuda, one, which);
      device_shared_.*which = one[0].*which;
    }
  }

  static void upload(TestCuda& cuda, std::vector<ExpertWeights>& experts,
                     WeightMatrix ExpertWeights::*which) {
    const WeightMatrix first = experts[0].*which;
    const std::int64_t bytes = first.size_bytes(), num_scales = first.num_scales();
    std::vector<std::byte> data;
    std::vector<std::uint8_t> group_scales;
    std::vector<float> block_scales, matrix_scales;
    for (const ExpertWeights& expert : experts) {
      const WeightMatrix& matrix = expert.*which;
      data.insert(data.end(), matrix.data, matrix.data + bytes);
      if (matrix.group_scales != nullptr)
        group_scales.insert(group_scales.end(), matrix.group_scales, matrix.group_scales + num_scales);
      if (matrix.block_scales != nullptr)
        block_scales.insert(block_scales.end(), matrix.block_scales, matrix.block_scales + num_scales);
      if (matrix.matrix_scale != nullptr) matrix_scales.push_back(*matrix.matrix_scale);
    }
    const std::byte* device_data = cuda.upload(data);
    const std::uint8_t* device_groups = cuda.upload(group_scales);
    const float* device_blocks = cuda.upload(block_scales);
    const float* device_matrices = cuda.upload(matrix_scales);
    for (std::size_t i = 0; i < experts.size(); ++i) {
      WeightMatrix& matrix = experts[i].*which;
      matrix.data = device_data + static_cast<std::int64_t>(i) * bytes;
      if (matrix.group_scales != nullptr)
        matrix.group_scales = device_groups + static_cast<std::int64_t>(i) * num_scales;
      if (matrix.block_scales != nullptr)
        matrix.block_scales = device_blocks + static_cast<std::int64_t>(i) * num_scales;
      if (matrix.matrix_scale != nullptr) matrix.matrix_scale = device_matrices + i;
    }
  }

  Geometry geometry_;
  std::vector<std::unique_ptr<RandomWeight>> owned_;
  std::vector<ExpertWeights> host_, device_;
  ExpertWeights host_shared_, device_shared_;
};

struct Tokens {
  Tokens(const Geometry& geometry, std::int64_t count, std::int64_t num_selected, std::uint32_t seed)
      : num_rows(count),
        selected(num_selected),
        x(random_values(static_cast<std::size_t>(count * geometry.width), seed, 0.02F)) {
    std::mt19937 random(seed);
    for (float& value : x) value = round_bf16(value);
    for (std::int64_t row = 0; row < count; ++row) {
      std::vector<std::int32_t> order(static_cast<std::size_t>(geometry.num_experts) -
                                      1);  // the last is deserted
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      ids.insert(ids.end(), order.begin(), order.begin() + num_selected);
      for (std::int64_t k = 0; k < num_selected; ++k) weights.push_back(0.1F + 0.3F * static_cast<float>(k));
    }
  }
  [[nodiscard]] Tokens cut(std::int64_t begin, std::int64_t end) const {
    Tokens part = *this;
    const auto width = static_cast<std::int64_t>(x.size()) / num_rows;
    part.num_rows = end - begin;
    part.x.assign(x.begin() + begin * width, x.begin() + end * width);
    part.ids.assign(ids.begin() + begin * selected, ids.begin() + end * selected);
    part.weights.assign(weights.begin() + begin * selected, weights.begin() + end * selected);
    return part;
  }

  std::int64_t num_rows;
  std::int64_t selected;
  std::vector<float> x;
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
};

struct Options {
  bool with_shared = true;
  bool quantised = false;  ///< hand x_fp8 over
  float limit = 10.0F;
  ExpertPlaces places{};                ///< of experts that lie elsewhere than one behind the other
  std::span<const ExpertWeights> at{};  ///< those at the first places, in that case
  ExpertSplit split{};                  ///< the weights are parts of inner widths: sums are partial
  ExpertSums sums = ExpertSums::kFree;
  /// Id of the first expert that the rank has, which are as many; 0 experts: all.
  std::int64_t first_expert = 0, num_experts = 0;
  void (*run)(const ExpertsArgs&, CudaContext&) = BALEEN_ARCH::experts;

  [[nodiscard]] bool partial() const { return split.routed || split.shared; }
  /// Those of `all` that the rank has.
  [[nodiscard]] std::span<const ExpertWeights> held(std::span<const ExpertWeights> all) const {
    return num_experts == 0
               ? all
               : all.subspan(static_cast<std::size_t>(first_expert), static_cast<std::size_t>(num_experts));
  }
};

/// What a call of the operation takes, on the device.
class Call {
 public:
  Call(TestCuda& cuda, const Layer& layer, const Tokens& tokens, const Options& options = {})
      : cuda_(cuda), run_(options.run) {
    const std::int64_t width = layer.geometry().width, num_rows = tokens.num_rows, k = tokens.selected;
    args_ = {.x = View<const Bf16Bits, 2>(cuda.upload_bf16(tokens.x), {num_rows, width}),
             .x_fp8 = options.quantised ? quantised(layer.geometry(), tokens) : Fp8Rows{},
             .ids = {cuda.upload(tokens.ids), {num_rows, k}},
             .weights = {cuda.upload(tokens.weights), {num_rows, k}},
             .routed = options.held(options.at.empty() ? std::span(layer.device()) : options.at),
             .places = options.places,
             .shared = options.with_shared ? &layer.device_shared() : nullptr,
             .swiglu_limit = options.limit,
             .first_expert = options.first_expert,
             .partial_sums = options.partial(),
             .split = options.split,
             .sums = options.sums};
    if (options.partial()) {
      args_.out = Activations<2>(cuda.allocate<float>(num_rows * width), {num_rows, width});
    } else {
      args_.out = View<Bf16Bits, 2>(cuda.allocate<Bf16Bits>(num_rows * width), {num_rows, width});
    }
    const std::int64_t inner = std::max(layer.geometry().inner, layer.geometry().shared_inner);
    scratch_bytes_ =
        BALEEN_ARCH::experts_scratch_bytes(num_rows, k, width, inner, layer.geometry().num_experts,
                                           layer.geometry().group) +
        split_experts_scratch_bytes(num_rows, k, width, layer.geometry().num_experts, options.split);
    EXPECT_LE(scratch_bytes_, cuda.context().scratch.size_bytes());
  }

  [[nodiscard]] std::vector<float> run() {
    run_(args_, cuda_.context());
    EXPECT_LE(cuda_.context().scratch.peak_bytes(), cuda_.context().scratch.size_bytes());
    EXPECT_EQ(cuda_.context().scratch.mark(), 0);
    cuda_.synchronise();
    const std::int64_t count = args_.out.extent(0) * args_.out.extent(1);
    return args_.partial_sums ? cuda_.download(args_.out.data(), count)
                              : cuda_.download_bf16(args_.out.bf16().data(), count);
  }
  [[nodiscard]] std::int64_t scratch_bytes() const { return scratch_bytes_; }

 private:
  Fp8Rows quantised(const Geometry& geometry, const Tokens& tokens) {
    const std::int64_t stride = (tokens.num_rows + 3) / 4 * 4, width = geometry.width, group = geometry.group;
    std::vector<std::uint8_t> codes(tokens.x.size());
    std::vector<float> scales(static_cast<std::size_t>(width / group * stride), 0.0F);
    for (std::int64_t row = 0; row < tokens.num_rows; ++row) {
      for (std::int64_t place = 0; place < width / group; ++place) {
        const auto at = static_cast<std::size_t>(row * width + group * place);
        const auto size = static_cast<std::size_t>(group);
        const std::uint8_t code =
            quantise_fp8_block(std::span(tokens.x).subspan(at, size), std::span(codes).subspan(at, size));
        scales[static_cast<std::size_t>(place * stride + row)] = e8m0_to_float(code);
      }
    }
    return {cuda_.upload(codes), cuda_.upload(scales), stride, geometry.group};
  }

  TestCuda& cuda_;
  void (*run_)(const ExpertsArgs&, CudaContext&);
  std::int64_t scratch_bytes_ = 0;  ///< that are planned for it
  ExpertsArgs args_;
};

inline std::vector<float> run(TestCuda& cuda, const Layer& layer, const Tokens& tokens,
                              const Options& options = {}) {
  return Call(cuda, layer, tokens, options).run();
}

inline std::vector<float> reference(const Layer& layer, const Tokens& tokens, const Options& options = {}) {
  const std::int64_t width = layer.geometry().width;
  std::vector<float> out(static_cast<std::size_t>(tokens.num_rows * width), std::nanf(""));
  experts_ref({.x = {tokens.x.data(), {tokens.num_rows, width}},
               .ids = {tokens.ids.data(), {tokens.num_rows, tokens.selected}},
               .weights = {tokens.weights.data(), {tokens.num_rows, tokens.selected}},
               .routed = options.held(layer.host()),
               .shared = options.with_shared ? &layer.host_shared() : nullptr,
               .swiglu_limit = options.limit,
               .out = {out.data(), {tokens.num_rows, width}},
               .first_expert = options.first_expert,
               .partial_sums = options.partial(),
               .split = options.split,
               .sums = options.sums});
  return out;
}

// The tensor core adds FP8 products with some 14 bits; sums that differ in the last places may round to the
// next BF16 or e4m3 value, and a flipped e4m3 input of w2 moves every output a little: a few units of 2^-9 in
// norm.
inline constexpr test::Tolerance kRounded{.norm = 8e-3};

}  // namespace baleen::BALEEN_ARCH
