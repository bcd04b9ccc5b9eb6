/// How rows of codes are laid out for Hopper's products of experts, and everywhere for those of dequantised
/// weights (NVFP4, and of models whose activations have a scale per 32) and those in the stated order.
#pragma once

namespace baleen::BALEEN_ARCH {

/// Where the word of four codes at word `source` of a scale group of 128 goes when rows are laid out for the
/// products: there thread q of four owns the source's bytes [32 q, 32 q + 32), 8 of them an instruction
/// (expert_fragments.cuh).
constexpr int product_word(int source) { return (source & 7) << 2 | source >> 3; }

/// Rows as BF16 values for products of slices by `wgmma`: the same inputs for thread q of four, in the order
/// that instructions of 16 inputs take them. Where the pair of inputs 32 q + 8 eighth + j and that + 4 of a
/// slice, j from 0 to 3, lies among its 64 words.
constexpr int wide_word(int q, int eighth, int j) { return 8 * (2 * eighth + j / 2) + 4 * (j % 2) + q; }

/// For `dispatch_experts_in`.
struct ProductOrder {
  constexpr int operator()(int source) const { return product_word(source); }
};

}  // namespace baleen::BALEEN_ARCH
