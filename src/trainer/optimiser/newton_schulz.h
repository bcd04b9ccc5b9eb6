/// Muon's orthogonalisation: the nearest matrix with singular values of 1, by the hybrid Newton-Schulz
/// iteration.
/// (source: training 4.2)
#pragma once

#include <cstdint>
#include <span>

#include "ops/dense_product/dense_product.h"
#include "parallel/thread_pool.h"

namespace baleen {

inline constexpr int kNewtonSchulzSteps = 10;

/// 10 (4 p² q + 2 p³), p the shorter and q the longer side.
[[nodiscard]] double newton_schulz_flops(std::int64_t rows, std::int64_t columns);

/// In place on `matrix` [rows, columns], row-major. Singular values end within [0.9, 1.1] for condition
/// numbers up to 1e3; a matrix of zeros stays so. Works on the transpose where rows > columns. Memory:
/// 2 p q + 2 p² floats. The result does not depend on the threads.
void newton_schulz(std::int64_t rows, std::int64_t columns, std::span<float> matrix, ThreadPool& pool,
                   Operands operands = Operands::kAsStored);

}  // namespace baleen
