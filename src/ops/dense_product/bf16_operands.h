/// The operands of a product in BF16 as its kernels read them: A by rows, B by panels of 16 columns, both in
/// pairs of neighbours along the inner dimension, which one instruction multiplies and adds.
#pragma once

#include <cstdint>
#include <vector>

#include "numeric/bf16.h"
#include "ops/dense_product/dense_product.h"

namespace baleen {

inline constexpr std::int64_t kPanelColumns = 16;
inline constexpr std::int64_t kInnerBlock = 32;  ///< inputs of a tile of AMX
inline constexpr std::int64_t kOperandRows = 16;

/// Memory is kept for the next product. What lies beyond m, n and k is zeros.
struct Bf16Operands {
  std::int64_t inner = 0;   ///< k, up to a whole block
  std::int64_t panels = 0;  ///< panels that B has
  std::vector<Bf16Bits> a;  ///< [m up to whole kOperandRows, inner]
  std::vector<Bf16Bits> b;  ///< [panels, inner / 2, 16, 2]

  [[nodiscard]] const Bf16Bits* row(std::int64_t m) const { return a.data() + m * inner; }
  [[nodiscard]] const Bf16Bits* panel(std::int64_t p) const { return b.data() + p * inner * kPanelColumns; }

  /// Rounds op(a) and op(b) of `product`. Needs AVX-512 with BF16.
  void pack(const DenseProduct<float>& product);
};

}  // namespace baleen
