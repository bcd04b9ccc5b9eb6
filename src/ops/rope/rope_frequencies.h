/// Rotation frequencies, with YaRN where a layer compresses.                (source: forward pass 5.2)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace baleen {

struct YarnParams {
  float factor = 16.0F;
  std::int64_t original_positions = 65536;
  float beta_fast = 32.0F;
  float beta_slow = 1.0F;
};

/// f_i, i in [0, rotary_dim / 2), computed in float32 as the released code does; `yarn` null: plain
/// base^(-2i / D).
[[nodiscard]] std::vector<float> rope_frequencies(float base, int rotary_dim, const YarnParams* yarn);

/// cos and sin of fl32(position * f_i), [rotary_dim / 2] each. The float32 product is part of the format: at
/// far positions it differs from a float64 one by hundredths of a radian.
void rope_angles(std::span<const float> frequencies, std::int64_t position, std::span<float> cosine,
                 std::span<float> sine);

/// (a, b) -> (a cos - b sin, a sin + b cos) on the interleaved pairs of `values` [rotary_dim], in float32,
/// unrounded.
void rotate_pairs(std::span<float> values, std::span<const float> cosine, std::span<const float> sine);

}  // namespace baleen
