#include "ops/dense_product/bf16_product.h"

#include <algorithm>
#include <span>
#include <vector>

#include "hardware/instruction_sets.h"
#include "numeric/bf16_dots.h"
#include "numeric/bf16_tiles.h"
#include "numeric/row_rounding.h"
#include "ops/dense_product/bf16_kernels.h"

namespace baleen {
namespace {

#if defined(__x86_64__)

Bf16Kernel choose() {
  if (!instruction_set_in_use().starts_with("AVX3")) return Bf16Kernel::kRoundedCopies;
  if (uses_bf16_tiles()) return Bf16Kernel::kTiles;
  return uses_bf16_dots() ? Bf16Kernel::kVectors : Bf16Kernel::kRoundedCopies;
}

void packed_product(const DenseProduct<float>& p, Bf16Kernel kernel) {
  thread_local Bf16Operands operands;
  operands.pack(p);
  if (kernel == Bf16Kernel::kTiles) return multiply_by_tiles(p, operands);
  multiply_by_vectors(p, operands);
}

#else

Bf16Kernel choose() { return Bf16Kernel::kRoundedCopies; }
void packed_product(const DenseProduct<float>&, Bf16Kernel) {}

#endif

/// A rounded copy of a matrix as stored, its rows side by side.
const float* rounded(const float* x, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                     std::vector<float>& copy) {
  copy.resize(static_cast<std::size_t>(rows * columns));
  for (std::int64_t row = 0; row < rows; ++row)
    std::copy_n(x + row * stride, columns, copy.data() + row * columns);
  row_rounding::to_bf16(copy);
  return copy.data();
}

void product_of_copies(const DenseProduct<float>& product) {
  thread_local std::vector<float> a;
  thread_local std::vector<float> b;
  DenseProduct<float> p = product;
  p.operands = Operands::kAsStored;
  const auto [a_rows, a_columns] = p.a_transposed ? std::pair(p.k, p.m) : std::pair(p.m, p.k);
  const auto [b_rows, b_columns] = p.b_transposed ? std::pair(p.n, p.k) : std::pair(p.k, p.n);
  p.a = rounded(product.a, product.a_stride, a_rows, a_columns, a);
  p.b = rounded(product.b, product.b_stride, b_rows, b_columns, b);
  p.a_stride = a_columns;
  p.b_stride = b_columns;
  dense_product(p);
}

}  // namespace

Bf16Kernel bf16_kernel() {
  static const Bf16Kernel chosen = choose();
  return chosen;
}

std::string_view bf16_kernel_name(Bf16Kernel kernel) {
  switch (kernel) {
    case Bf16Kernel::kTiles:
      return "AMX";
    case Bf16Kernel::kVectors:
      return "AVX-512 BF16";
    case Bf16Kernel::kRoundedCopies:
      return "rounded copies";
  }
  return "";
}

void bf16_product(const DenseProduct<float>& product, Bf16Kernel kernel) {
  if (kernel == Bf16Kernel::kRoundedCopies) return product_of_copies(product);
  packed_product(product, kernel);
}

}  // namespace baleen
