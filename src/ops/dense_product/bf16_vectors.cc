#include "ops/dense_product/bf16_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#define BALEEN_BF16 __attribute__((target("avx512f,avx512bw,avx512bf16")))

namespace baleen {
namespace {

/// Rows by two panels at a time: 24 sums, in 32 registers.
constexpr int kRows = 12;

BALEEN_BF16 __m512bh load_pairs(const Bf16Bits* from) {
  return reinterpret_cast<__m512bh>(_mm512_loadu_si512(from));
}

/// The pair at `from`, for all columns.
BALEEN_BF16 __m512bh same_pair(const Bf16Bits* from) {
  std::int32_t pair = 0;
  std::memcpy(&pair, from, sizeof pair);
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
}

BALEEN_BF16 void write(__m512 sum, const DenseProduct<float>& p, std::int64_t row, std::int64_t column) {
  const std::int64_t width = std::min<std::int64_t>(p.n - column, kPanelColumns);
  const auto mask = static_cast<__mmask16>((1U << width) - 1U);
  float* const c = p.c + row * p.c_stride + column;
  const __m512 scaled = _mm512_mul_ps(_mm512_set1_ps(p.alpha), sum);
  const __m512 before = p.accumulate ? _mm512_maskz_loadu_ps(mask, c) : _mm512_setzero_ps();
  _mm512_mask_storeu_ps(c, mask, _mm512_add_ps(before, scaled));
}

template <int kCount, int kPanels>
BALEEN_BF16 void multiply_rows(const DenseProduct<float>& p, const Bf16Operands& o, std::int64_t row,
                               std::int64_t panel) {
  __m512 sums[kCount][kPanels];
  for (int m = 0; m < kCount; ++m)
    for (int n = 0; n < kPanels; ++n) sums[m][n] = _mm512_setzero_ps();
  const Bf16Bits* const a = o.row(row);
  for (std::int64_t at = 0; at < o.inner; at += 2) {
    __m512bh b[kPanels];
    for (int n = 0; n < kPanels; ++n) b[n] = load_pairs(o.panel(panel + n) + at * kPanelColumns);
    for (int m = 0; m < kCount; ++m) {
      const __m512bh pair = same_pair(a + m * o.inner + at);
      for (int n = 0; n < kPanels; ++n) sums[m][n] = _mm512_dpbf16_ps(sums[m][n], pair, b[n]);
    }
  }
  for (int m = 0; m < kCount; ++m)
    for (int n = 0; n < kPanels; ++n) write(sums[m][n], p, row + m, (panel + n) * kPanelColumns);
}

/// The last `count` <= kCount rows.
template <int kCount, int kPanels>
void multiply_rest(std::int64_t count, const DenseProduct<float>& p, const Bf16Operands& o, std::int64_t row,
                   std::int64_t panel) {
  if (count == kCount) return multiply_rows<kCount, kPanels>(p, o, row, panel);
  if constexpr (kCount > 1) multiply_rest<kCount - 1, kPanels>(count, p, o, row, panel);
}

template <int kPanels>
void multiply_panels(const DenseProduct<float>& p, const Bf16Operands& o, std::int64_t panel) {
  for (std::int64_t row = 0; row < p.m; row += kRows)
    multiply_rest<kRows, kPanels>(std::min<std::int64_t>(kRows, p.m - row), p, o, row, panel);
}

}  // namespace

void multiply_by_vectors(const DenseProduct<float>& p, const Bf16Operands& o) {
  std::int64_t panel = 0;
  for (; panel + 2 <= o.panels; panel += 2) multiply_panels<2>(p, o, panel);
  for (; panel < o.panels; ++panel) multiply_panels<1>(p, o, panel);
}

}  // namespace baleen

#endif
