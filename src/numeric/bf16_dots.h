/// Whether kernels may use AVX-512's BF16 dot products. Highway's instruction sets do not tell machines that
/// have them from others, and results differ in the last bits.
#pragma once

namespace baleen {

/// This machine has BF16 dot products and byte permutations (AVX512_BF16, AVX512_VBMI: Zen 4, Sapphire Rapids
/// and later).
[[nodiscard]] bool machine_has_bf16_dots();

/// It has, and they are allowed, as they are at first. Kernels for AVX-512 then use them.
[[nodiscard]] bool uses_bf16_dots();

/// From now on. Not while kernels run.
void allow_bf16_dots(bool allowed);

}  // namespace baleen
