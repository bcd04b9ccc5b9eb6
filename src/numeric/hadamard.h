/// Hadamard transform in Sylvester (natural) order, scaled to keep the norm: y_i = n^-1/2 sum_j
/// (-1)^popcount(i & j) x_j. It spreads outliers of the indexer's vectors before they are cut to FP4.
/// (source: forward pass 5.5)
#pragma once

#include <span>

namespace baleen {

/// In place; the size is a power of two. Sums in double, rounded to float32 once before the scaling.
/// Reference for the SIMD form.
void hadamard_transform(std::span<float> values);

}  // namespace baleen
