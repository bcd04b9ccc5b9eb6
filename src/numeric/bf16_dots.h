/// Whether kernels may use AVX-512's BF16 dot products. Highway's instruction sets do not tell machines that
/// have them from others, and results differ in the last bits.
#pragma once

namespace baleen {

/// This machine has BF16 dot products and byte permutations (AVX512_BF16, AVX512_VBMI: Zen 4, Sapphire Rapids
/// and later).
[[nodiscard]] bool machine_has_bf16_dots();

enum class Bf16Dots {
  kNever,
  kWhereFaster,  ///< at first: not on Intel, whose processors do one in two cycles (Sapphire Rapids: prompts
                 ///< of bench-1b at 143 GFLOP/s on two cores, 166 without)
  kAlways,       ///< where there are any
};

/// From now on. Not while kernels run.
void choose_bf16_dots(Bf16Dots choice);
[[nodiscard]] Bf16Dots chosen_bf16_dots();

/// Whether kernels for AVX-512 use them now.
[[nodiscard]] bool uses_bf16_dots();

}  // namespace baleen
