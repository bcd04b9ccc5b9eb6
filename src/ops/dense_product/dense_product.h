/// Dense matrix products of the trainer: in float32 and float64 by OpenBLAS, of BF16 operands by kernels of
/// ours (bf16_product.h).
///
/// The result does not depend on the number of threads: OpenBLAS runs on one thread a call, and our threads
/// take fixed tiles of the result, each summed over all of its inner dimension in one call.
#pragma once

#include <cstdint>

#include "ops/operation/operation.h"
#include "parallel/thread_pool.h"

namespace baleen {

/// What a product of floats multiplies. Sums are float32 either way.
enum class Operands { kAsStored, kBf16 /* rounded to BF16 */ };
/// Of floats, as costs count their products.
[[nodiscard]] constexpr MathFormat math_format(Operands operands) {
  return operands == Operands::kBf16 ? MathFormat::kBF16 : MathFormat::kF32;
}

/// c [m, n] (+)= alpha op(a) op(b), row-major. `a_stride`, `b_stride`, `c_stride`: elements between rows as
/// stored.
template <class T>
struct DenseProduct {
  std::int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;  ///< [m, k], or [k, m] where a_transposed
  std::int64_t a_stride = 0;
  bool a_transposed = false;
  const T* b = nullptr;  ///< [k, n], or [n, k] where b_transposed
  std::int64_t b_stride = 0;
  bool b_transposed = false;
  T* c = nullptr;
  std::int64_t c_stride = 0;
  T alpha = 1;
  bool accumulate = false;                  ///< adds to c; otherwise overwrites it
  Operands operands = Operands::kAsStored;  ///< how floats round; doubles never do
};

/// On the calling thread. 2 m n k FLOPs.
template <class T>
void dense_product(const DenseProduct<T>& product);

/// By fixed tiles on the threads of `pool`.
template <class T>
void dense_product(const DenseProduct<T>& product, ThreadPool& pool);

}  // namespace baleen
