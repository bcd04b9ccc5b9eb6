/// Products of float32 weights with BF16 values on the tensor cores, exact to float32.
///
/// A float32 number is the sum of three BF16 numbers of eight significant bits each: its upper eight bits,
/// the next eight and the last eight. Each of the three times a BF16 value is exact in float32, as the
/// product with FFMA is; sums are float32 either way. So the 24 rows of `fn` become 72 rows of BF16, and a
/// warp needs 40 matrix instructions for what would take 768 FFMA.
#pragma once

#include <cstdint>

#include "cuda/ptx/mma_bf16.h"
#include "ops/hc_pre/sm90/hc_slices.cuh"

namespace baleen::sm90 {

/// Two float32 numbers as three words of two BF16 numbers each.
struct SplitPair {
  std::uint32_t high, middle, low;

  __device__ SplitPair(float a, float b) {
    high = upper_halves(a, b);
    const float a_rest = a - upper(a), b_rest = b - upper(b);
    middle = upper_halves(a_rest, b_rest);
    low = upper_halves(a_rest - upper(a_rest), b_rest - upper(b_rest));
  }

 private:
  static __device__ float upper(float x) { return __uint_as_float(__float_as_uint(x) & 0xFFFF0000u); }
  static __device__ std::uint32_t upper_halves(float a, float b) {
    constexpr std::uint32_t kUpperOfBoth = 0x7632;
    return __byte_perm(__float_as_uint(a), __float_as_uint(b), kUpperOfBoth);
  }
};

/// The sums of one chunk for eight tokens, in the lanes as mma_16x8x16 leaves them.
struct HcProductSums {
  float high[4] = {};  ///< rows 0 to 15
  float middle[4] = {};
  float low[4] = {};
  float tail[4] = {};  ///< rows 16 to 23: upper parts in [0], [1], the others in [2], [3]

  /// Of fn's row `lane / 4 + 8 third` and token `2 (lane % 4) + odd`.
  [[nodiscard]] __device__ float sum(int third, int odd) const {
    if (third == 2) return tail[odd] + tail[2 + odd];
    const int i = 2 * third + odd;
    return high[i] + (middle[i] + low[i]);
  }
};

/// A warp's part of `fn`: 24 rows, one chunk of every stream. Lane 4 g + q holds of rows g, g + 8 and g + 16
/// the columns of eight neighbouring channels of each stream, those whose values it has of token g: a step of
/// the inner product takes four of them ("half" 0 or 1) from every lane.
class HcFragments {
 public:
  /// `fn`: [24, 4 width], from its first column of the lane's channels on.
  __device__ void load(const float* fn, int width, int lane) {
    const std::int64_t row_stride = std::int64_t{kHcStreams} * width;
    const float* row = fn + lane / 4 * row_stride;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const float* from = row + step / 2 * width + step % 2 * 4;
      const float4 first = *reinterpret_cast<const float4*>(from);
      const float4 second = *reinterpret_cast<const float4*>(from + 8 * row_stride);
      const float4 third = *reinterpret_cast<const float4*>(from + 16 * row_stride);
      set(step, 0, {first.x, first.y}, {second.x, second.y}, {third.x, third.y});
      set(step, 1, {first.z, first.w}, {second.z, second.w}, {third.z, third.w});
    }
  }

  /// Adds the products with four channels of one stream: `word0` has the first two, `word1` the others.
  __device__ void multiply(int stream, int half, std::uint32_t word0, std::uint32_t word1,
                           HcProductSums& sums) const {
    const int step = 2 * stream + half;
    ptx::mma_16x8x16(sums.high, words_[step][0][0], words_[step][0][1], words_[step][1][0],
                     words_[step][1][1], word0, word1);
    ptx::mma_16x8x16(sums.middle, words_[step][0][2], words_[step][0][3], words_[step][1][2],
                     words_[step][1][3], word0, word1);
    ptx::mma_16x8x16(sums.tail, words_[step][0][6], words_[step][0][7], words_[step][1][6],
                     words_[step][1][7], word0, word1);
    ptx::mma_16x8x16(sums.low, words_[step][0][4], words_[step][0][5], words_[step][1][4], words_[step][1][5],
                     word0, word1);
    ptx::mma_16x8x16(sums.tail, 0, words_[step][0][8], 0, words_[step][1][8], word0, word1);
  }

 private:
  static constexpr int kSteps = 2 * kHcStreams;

  __device__ void set(int step, int pair, float2 first, float2 second, float2 third) {
    const SplitPair a(first.x, first.y), b(second.x, second.y), c(third.x, third.y);
    std::uint32_t(&words)[9] = words_[step][pair];
    words[0] = a.high, words[1] = b.high;
    words[2] = a.middle, words[3] = b.middle;
    words[4] = a.low, words[5] = b.low;
    words[6] = c.high, words[7] = c.middle, words[8] = c.low;
  }

  std::uint32_t words_[kSteps][2][9];
};

}  // namespace baleen::sm90
