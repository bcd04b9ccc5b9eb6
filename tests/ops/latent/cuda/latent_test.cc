// Latents on the device against the reference on the CPU: values, rings, and that neither chunks, batch
// composition nor padding show in them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "numeric/bf16.h"
#include "ops/compressor/step_entries.h"
#include "ops/latent/cuda/latent.h"
#include "ops/latent/pair.h"
#include "tests/support/compare.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cuda.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr std::int64_t kSlots = 3;

struct Part {
  SequenceSlice slice;  ///< first_row and num_tokens are filled in
  std::vector<float> kv, gate;
};

/// Between which values a latent lies however its pair is pooled in float32, computed in float64. Roundings
/// to BF16 are monotone: they are taken of both ends, so no tolerance is relative to a value that cancelled.
///
/// Of v = (e1 a + e2 b) / (e1 + e2) the larger e is 1, the other at a distance d of the gates off by
/// 2 + 1.173 d units in its last place (CUDA's bound of __expf), and e^-d (2 + 1.173 d) is 2 at most: 2^-22.
/// Roundings of the products, sums and the division add less than 12 x 2^-24 (|a| + |b|), so that v is off by
/// less than 2^-20 (|a| + |b|). The norm, a sum of squares in float32, adds less than 2^-19 of its result.
class Bounds {
 public:
  Bounds() = default;
  explicit Bounds(const LatentArgs& args) {
    for (const SequenceSlice& slice : args.batch.slices) {
      for (std::int64_t row = slice.first_row; row < slice.first_row + slice.num_tokens; ++row) {
        if (entry_of_row(slice, row, args.ratio) < 0) {
          low_.insert(low_.end(), args.norm_weight.size(), 0.0F);
          high_.resize(low_.size(), 0.0F);
        } else {
          add_row(args, slice, row);
        }
      }
    }
  }

  /// Empty where all of `got` lies within.
  [[nodiscard]] std::string difference(std::span<const float> got) const {
    std::vector<float> nearest(low_.size());
    for (std::size_t i = 0; i < std::min(low_.size(), got.size()); ++i)
      nearest[i] = std::clamp(got[i], low_[i], high_[i]);
    return test::difference(got, nearest, {});
  }

 private:
  struct Range {
    double low, high;
  };

  static Range pooled(const LatentArgs& args, const SequenceSlice& slice, std::int64_t row, std::size_t i) {
    if (args.ratio == 1) return {args.kv.row(row)[i], args.kv.row(row)[i]};
    const Pair pair(args, slice, row);
    const double a = pair.kv[0][i], b = pair.kv[1][i],
                 beside = std::exp(static_cast<double>(pair.gate[1][i]) - pair.gate[0][i]);
    const double value = (a + beside * b) / (1 + beside), room = 0x1p-20 * (std::fabs(a) + std::fabs(b));
    return {round_bf16(static_cast<float>(value - room)), round_bf16(static_cast<float>(value + room))};
  }

  void add_row(const LatentArgs& args, const SequenceSlice& slice, std::int64_t row) {
    const std::size_t width = args.norm_weight.size();
    std::vector<Range> values;
    Range squares{0, 0};
    for (std::size_t i = 0; i < width; ++i) {
      values.push_back(pooled(args, slice, row, i));
      const auto [low, high] = values.back();
      squares.low += low * high <= 0 ? 0.0 : std::min(low * low, high * high);
      squares.high += std::max(low * low, high * high);
    }
    const auto inverse = [&](double sum) {
      return 1 / std::sqrt(sum / static_cast<double>(width) + static_cast<double>(args.eps));
    };
    const Range inverses{inverse(squares.high) * (1 - 0x1p-19), inverse(squares.low) * (1 + 0x1p-19)};
    for (std::size_t i = 0; i < width; ++i) {
      const auto [low, high] = std::minmax({args.norm_weight[i] * values[i].low * inverses.low,
                                            args.norm_weight[i] * values[i].low * inverses.high,
                                            args.norm_weight[i] * values[i].high * inverses.low,
                                            args.norm_weight[i] * values[i].high * inverses.high});
      low_.push_back(round_bf16(static_cast<float>(low)));
      high_.push_back(round_bf16(static_cast<float>(high)));
    }
  }

  std::vector<float> low_, high_;
};

/// A layer's rings, in host memory between steps. What was never written reads as NaN.
class Layer {
 public:
  Layer(int ratio, std::int64_t width, std::int64_t ring_rows = 2)
      : ratio_(ratio),
        width_(width),
        ring_rows_(ring_rows),
        weight_(test::random_values(static_cast<std::size_t>(width), 12)),
        state_(static_cast<std::size_t>(kSlots * slot_stride()), std::nanf("")) {}

  /// On the device if there is one, else the reference.
  std::vector<float> step(const std::vector<Part>& parts, test::TestCuda* cuda,
                          std::int32_t padding_rows = 0) {
    std::vector<float> kv, gate;
    std::vector<SequenceSlice> slices;
    for (const Part& part : parts) {
      SequenceSlice slice = part.slice;
      slice.first_row = std::ssize(kv) / width_;
      slice.num_tokens = std::ssize(part.kv) / width_;
      slices.push_back(slice);
      kv.insert(kv.end(), part.kv.begin(), part.kv.end());
      gate.insert(gate.end(), part.gate.begin(), part.gate.end());
    }
    const std::int64_t num_rows = std::ssize(kv) / width_;
    const std::vector<TokenId> tokens(static_cast<std::size_t>(num_rows));
    const RaggedBatch batch{tokens, slices};
    LatentArgs args{.norm_weight = weight_, .ratio = ratio_, .batch = batch};
    if (cuda == nullptr) {
      std::vector<float> latent(kv.size());
      args.kv = {kv.data(), {num_rows, width_}};
      args.latent = {latent.data(), {num_rows, width_}};
      if (ratio_ == 2) {
        args.gate = {gate.data(), {num_rows, width_}};
        args.state = rings(state_.data());
      }
      bounds_ = Bounds(args);
      latent_ref(args);
      return latent;
    }
    const std::int64_t all = num_rows + padding_rows;
    kv.resize(static_cast<std::size_t>(all * width_), 7.0F);
    gate.resize(kv.size(), 7.0F);
    cuda->set_batch(batch, padding_rows);
    args.norm_weight = {cuda->upload(weight_), weight_.size()};
    auto* latent = cuda->allocate<Bf16Bits>(all * width_);
    args.latent = View<Bf16Bits, 2>(latent, {all, width_});
    float* state = cuda->upload(state_);
    if (ratio_ == 1) {
      args.kv = View<const Bf16Bits, 2>(cuda->upload_bf16(kv), {all, width_});
    } else {
      // Side by side in one array, as one product makes them.
      std::vector<float> both;
      for (std::int64_t row = 0; row < all; ++row) {
        both.insert(both.end(), kv.begin() + row * width_, kv.begin() + (row + 1) * width_);
        both.insert(both.end(), gate.begin() + row * width_, gate.begin() + (row + 1) * width_);
      }
      const float* data = cuda->upload(both);
      const std::array<std::int64_t, 2> extents{all, width_}, strides{2 * width_, 1};
      args.kv = {data, extents, strides};
      args.gate = {const_cast<float*>(data) + width_, extents, strides};
      args.state = rings(state);
    }
    BALEEN_ARCH::latent(args, cuda->context());
    cuda->synchronise();
    state_ = cuda->download(state, std::ssize(state_));
    std::vector<float> result = cuda->download_bf16(latent, all * width_);
    for (std::int64_t i = num_rows * width_; i < all * width_; ++i)
      EXPECT_EQ(result[static_cast<std::size_t>(i)], 0.0F);
    result.resize(static_cast<std::size_t>(num_rows * width_));
    return result;
  }

  [[nodiscard]] const std::vector<float>& state() const { return state_; }
  /// Of the reference's last step.
  [[nodiscard]] const Bounds& bounds() const { return bounds_; }

 private:
  [[nodiscard]] std::int64_t slot_stride() const { return 2 * ring_rows_ * width_; }
  [[nodiscard]] CompressorState rings(float* base) const { return {base, slot_stride(), ring_rows_, width_}; }

  int ratio_;
  std::int64_t width_, ring_rows_;
  std::vector<float> weight_, state_;
  Bounds bounds_;
};

/// `num_tokens` of a sequence from `start` on; of ratio 1 BF16 values.
Part part_of(int ratio, std::int64_t width, std::int64_t start, std::int64_t num_tokens, std::int32_t slot,
             std::uint32_t seed) {
  Part part{.slice = {0, 0, start, {}, {}, slot},
            .kv = test::random_values(static_cast<std::size_t>(num_tokens * width), seed),
            .gate = test::random_values(static_cast<std::size_t>(num_tokens * width), seed + 1, 4.0F)};
  if (ratio == 1) {
    for (float& value : part.kv) value = round_bf16(value);
  }
  return part;
}

TEST(LatentOnGpu, AgreesWithTheReference) {
  BALEEN_NEEDS_GPU();
  for (const int ratio : {1, 2}) {
    for (const std::int64_t width : {128, 512}) {
      for (const std::int64_t start : {0, 1, 255, 70'000, 1'000'001}) {
        for (const std::int64_t num_tokens : {1, 9, 300}) {
          test::TestCuda cuda(1 << 20);
          Layer got(ratio, width, 4), want(ratio, width, 4);
          // The token before an odd start is pending.
          if (start % 2 == 1) {
            const Part before = part_of(ratio, width, start - 1, 1, 2, 7);
            got.step({before}, &cuda);
            want.step({before}, nullptr);
          }
          const std::vector<Part> parts{part_of(ratio, width, 16, 3, 0, 3),
                                        part_of(ratio, width, start, num_tokens, 2, 5)};
          const std::vector<float> latents = got.step(parts, &cuda, num_tokens == 9 ? 3 : 0),
                                   reference = want.step(parts, nullptr);
          EXPECT_EQ(want.bounds().difference(latents), "") << "ratio " << ratio << ", start " << start;
          EXPECT_EQ(want.bounds().difference(reference), "") << "ratio " << ratio << ", start " << start;
          EXPECT_CLOSE(latents, reference, {.norm = 3e-4}) << "ratio " << ratio << ", start " << start;
          EXPECT_SAME_BITS(got.state(), want.state());
        }
      }
    }
  }
}

TEST(LatentOnGpu, LatentsOfEntriesThatExistAreZeros) {
  BALEEN_NEEDS_GPU();
  for (const int ratio : {1, 2}) {
    test::TestCuda cuda(1 << 20);
    Layer got(ratio, 128), want(ratio, 128);
    Part replayed = part_of(ratio, 128, 252, 8, 0, 5);
    replayed.slice.entries_until = 256;
    const std::vector<float> latents = got.step({replayed}, &cuda);
    EXPECT_CLOSE(latents, want.step({replayed}, nullptr), {.norm = 3e-4});
    EXPECT_EQ(want.bounds().difference(latents), "");
  }
}

TEST(LatentOnGpu, CutsBatchCompositionAndPaddingDoNotShow) {
  BALEEN_NEEDS_GPU();
  constexpr std::int64_t kWidth = 512, kTokens = 61;
  for (const int ratio : {1, 2}) {
    test::TestCuda cuda(1 << 20);
    const Part all = part_of(ratio, kWidth, 0, kTokens, 1, 5);
    Layer whole(ratio, kWidth);
    const std::vector<float> want = whole.step({all}, &cuda);
    for (const std::int64_t chunk : {1, 7, 60}) {
      Layer cut(ratio, kWidth);
      std::vector<float> got;
      for (std::int64_t begin = 0; begin < kTokens; begin += chunk) {
        const std::int64_t end = std::min(kTokens, begin + chunk);
        const auto some = [&](const std::vector<float>& from) {
          return std::vector<float>(from.begin() + begin * kWidth, from.begin() + end * kWidth);
        };
        const std::vector<float> both =
            cut.step({part_of(ratio, kWidth, 4, 2, 0, 9),
                      {.slice = {0, 0, begin, {}, {}, 1}, .kv = some(all.kv), .gate = some(all.gate)}},
                     &cuda, static_cast<std::int32_t>(begin % 3));
        got.insert(got.end(), both.begin() + 2 * kWidth, both.end());
      }
      EXPECT_SAME_BITS(got, want) << "ratio " << ratio << ", chunks of " << chunk;
    }
  }
}

TEST(LatentOnGpu, NaNStaysVisible) {
  BALEEN_NEEDS_GPU();
  for (const bool in_gate : {false, true}) {
    test::TestCuda cuda(1 << 20);
    Layer layer(2, 128);
    Part part = part_of(2, 128, 0, 2, 0, 5);
    (in_gate ? part.gate : part.kv)[5] = std::nanf("");
    EXPECT_TRUE(std::isnan(layer.step({part}, &cuda)[128 + 5]));
  }
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
