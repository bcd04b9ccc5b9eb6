/// Products of operands rounded to BF16, sums in float32: by AMX, by AVX-512 with BF16, or by rounded copies
/// and OpenBLAS, which is no faster than float32. What they give differs in the last bits of a sum.
#pragma once

#include <string_view>

#include "ops/dense_product/dense_product.h"

namespace baleen {

/// What multiplies BF16 operands on this machine, within the instruction set in use.
enum class Bf16Kernel { kTiles, kVectors, kRoundedCopies };

[[nodiscard]] Bf16Kernel bf16_kernel();
[[nodiscard]] std::string_view bf16_kernel_name(Bf16Kernel kernel);

/// c (+)= alpha bf(op(a)) bf(op(b)) on the calling thread, whatever `product.operands` says. `kernel` must be
/// one that the machine has.
void bf16_product(const DenseProduct<float>& product, Bf16Kernel kernel);

}  // namespace baleen
