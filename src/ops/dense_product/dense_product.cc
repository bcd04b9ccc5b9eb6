#include "ops/dense_product/dense_product.h"

#include <algorithm>

#include "ops/dense_product/bf16_product.h"
#include "ops/dense_product/open_blas.h"

namespace baleen {
namespace {

constexpr std::int64_t kTileRows = 128;
constexpr std::int64_t kTileColumns = 512;

CBLAS_TRANSPOSE order_of(bool transposed) { return transposed ? CblasTrans : CblasNoTrans; }

}  // namespace

template <class T>
void dense_product(const DenseProduct<T>& p) {
  if (p.m == 0 || p.n == 0) return;
  if constexpr (sizeof(T) == sizeof(float)) {
    if (p.operands == Operands::kBf16) return bf16_product(p, bf16_kernel());
  }
  const OpenBlas& blas = open_blas();
  const auto size = [](std::int64_t value) { return static_cast<blasint>(value); };
  const T beta = p.accumulate ? T{1} : T{0};
  if constexpr (sizeof(T) == sizeof(float)) {
    blas.sgemm(CblasRowMajor, order_of(p.a_transposed), order_of(p.b_transposed), size(p.m), size(p.n),
               size(p.k), p.alpha, p.a, size(p.a_stride), p.b, size(p.b_stride), beta, p.c, size(p.c_stride));
  } else {
    blas.dgemm(CblasRowMajor, order_of(p.a_transposed), order_of(p.b_transposed), size(p.m), size(p.n),
               size(p.k), p.alpha, p.a, size(p.a_stride), p.b, size(p.b_stride), beta, p.c, size(p.c_stride));
  }
}

template <class T>
void dense_product(const DenseProduct<T>& p, ThreadPool& pool) {
  const std::int64_t tile_rows = (p.m + kTileRows - 1) / kTileRows;
  const std::int64_t tile_columns = (p.n + kTileColumns - 1) / kTileColumns;
  pool.parallel_for(tile_rows * tile_columns, [&](std::int64_t tile, int) {
    const std::int64_t row = tile / tile_columns * kTileRows;
    const std::int64_t column = tile % tile_columns * kTileColumns;
    DenseProduct<T> part = p;
    part.m = std::min(kTileRows, p.m - row);
    part.n = std::min(kTileColumns, p.n - column);
    part.a += p.a_transposed ? row : row * p.a_stride;
    part.b += p.b_transposed ? column * p.b_stride : column;
    part.c += row * p.c_stride + column;
    dense_product(part);
  });
}

template void dense_product(const DenseProduct<float>&);
template void dense_product(const DenseProduct<double>&);
template void dense_product(const DenseProduct<float>&, ThreadPool&);
template void dense_product(const DenseProduct<double>&, ThreadPool&);

}  // namespace baleen
