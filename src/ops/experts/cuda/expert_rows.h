/// How rows of codes are laid out for Hopper's products of experts, and everywhere for those of dequantised
/// weights (NVFP4, and of models whose activations have a scale per 32) and those in the stated order.
#pragma once

namespace baleen::BALEEN_ARCH {

/// Where the word of four codes at word `source` of a scale group of 128 goes when rows are laid out for the
/// products: there thread q of four owns the source's bytes [32 q, 32 q + 32), 8 of them an instruction
/// (expert_fragments.cuh).
constexpr int product_word(int source) { return (source & 7) << 2 | source >> 3; }

/// For `dispatch_experts_in`.
struct ProductOrder {
  constexpr int operator()(int source) const { return product_word(source); }
};

}  // namespace baleen::BALEEN_ARCH
