/// Block quantisation with power-of-two scales: the released activation, cache and weight formats share this
/// rule. (source: forward-pass specification, "Power-of-two scale" and "Block quantisation")
#pragma once

#include <cstdint>
#include <span>

namespace baleen {

// FP8 activations in front of FP8 and FP4 weights: of DeepSeek-V4, and of V4.1, whose FP8 weights have blocks
// of as many rows and inputs.
inline constexpr int kActivationGroup = 128;
inline constexpr int kSmallActivationGroup = 32;
inline constexpr int kLatentGroup = 64;   ///< FP8 cache rows
inline constexpr int kIndexerGroup = 32;  ///< FP4 indexer vectors and FP4 weights
inline constexpr int kWeightBlock = 128;  ///< FP8 weights of DeepSeek-V4, in both directions

/// e8m0 code of 2^ceil(log2(max(amax, 1e-4) / 448)). `amax` finite and >= 0.
[[nodiscard]] std::uint8_t fp8_scale_code(float amax);

/// e8m0 code of 2^ceil(log2(max(amax, 6 * 2^-126) / 6)).
[[nodiscard]] std::uint8_t fp4_scale_code(float amax);

/// Quantises one block: `codes[i]` = e4m3(clamp(values[i] / scale)); returns the scale's e8m0 code.
/// Non-finite input: the codes of NaN are NaN, infinities saturate. `codes` as long as `values`.
std::uint8_t quantise_fp8_block(std::span<const float> values, std::span<std::uint8_t> codes);

/// The same for e2m1, one code a byte (not packed). NaN is treated as zero.
std::uint8_t quantise_fp4_block(std::span<const float> values, std::span<std::uint8_t> codes);

/// values[i] <- e4m3(values[i] / s) * s in blocks of `block` (the last may be shorter). Reference for the
/// SIMD forms.
void simulate_fp8(std::span<float> values, int block);

/// values[i] <- e2m1(values[i] / s) * s in blocks of `block`.
void simulate_fp4(std::span<float> values, int block);

}  // namespace baleen
