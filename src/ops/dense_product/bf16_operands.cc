#include "ops/dense_product/bf16_operands.h"

#if defined(__x86_64__)

// GCC 12 takes the undefined upper source of its own shuffles for a mistake.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <algorithm>

#define BALEEN_BF16 __attribute__((target("avx512f,avx512bw,avx512bf16")))

namespace baleen {
namespace {

/// 16 x 16 values of 32 bits: pairs of BF16.
using Block = __m512i[16];

BALEEN_BF16 __mmask16 first(std::int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffffU : (1U << std::max<std::int64_t>(count, 0)) - 1U);
}

BALEEN_BF16 void transpose(Block& rows) {
  Block half;
  for (int i = 0; i < 16; i += 2) {
    half[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    half[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    rows[i] = _mm512_unpacklo_epi64(half[i], half[i + 2]);
    rows[i + 1] = _mm512_unpackhi_epi64(half[i], half[i + 2]);
    rows[i + 2] = _mm512_unpacklo_epi64(half[i + 1], half[i + 3]);
    rows[i + 3] = _mm512_unpackhi_epi64(half[i + 1], half[i + 3]);
  }
  // Now rows[4 q + c] has, in its lane l of 128 bits, column 4 l + c of rows 4 q to 4 q + 3.
  for (int c = 0; c < 4; ++c) {
    const __m512i low01 = _mm512_shuffle_i32x4(rows[c], rows[4 + c], 0x88);
    const __m512i high01 = _mm512_shuffle_i32x4(rows[c], rows[4 + c], 0xdd);
    const __m512i low23 = _mm512_shuffle_i32x4(rows[8 + c], rows[12 + c], 0x88);
    const __m512i high23 = _mm512_shuffle_i32x4(rows[8 + c], rows[12 + c], 0xdd);
    half[c] = _mm512_shuffle_i32x4(low01, low23, 0x88);
    half[4 + c] = _mm512_shuffle_i32x4(high01, high23, 0x88);
    half[8 + c] = _mm512_shuffle_i32x4(low01, low23, 0xdd);
    half[12 + c] = _mm512_shuffle_i32x4(high01, high23, 0xdd);
  }
  std::copy_n(half, 16, rows);
}

/// Of a matrix whose rows go along the inner dimension: `count` rows, 32 values from `x` on, of which `width`
/// are there. A row of the block has the pairs of a row.
BALEEN_BF16 void pairs_along_rows(const float* x, std::int64_t stride, std::int64_t count, std::int64_t width,
                                  Block& block) {
  const __mmask16 low = first(width);
  const __mmask16 high = first(width - 16);
  for (std::int64_t row = 0; row < 16; ++row) {
    if (row >= count) {
      block[row] = _mm512_setzero_si512();
      continue;
    }
    const float* const from = x + row * stride;
    block[row] = reinterpret_cast<__m512i>(
        _mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps(high, from + 16), _mm512_maskz_loadu_ps(low, from)));
  }
}

/// Of a matrix whose columns go along the inner dimension: 32 rows from `x` on, of which `count` are there,
/// `width` columns. A row of the block has the pairs of two rows, column by column.
BALEEN_BF16 void pairs_along_columns(const float* x, std::int64_t stride, std::int64_t count,
                                     std::int64_t width, Block& block) {
  alignas(64) static constexpr std::int16_t kInterleaved[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                                21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                                11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i order = _mm512_load_si512(kInterleaved);
  const __mmask16 columns = first(width);
  for (std::int64_t pair = 0; pair < 16; ++pair) {
    const float* const from = x + 2 * pair * stride;
    const __mmask16 upper = 2 * pair < count ? columns : __mmask16{0};
    const __mmask16 lower = 2 * pair + 1 < count ? columns : __mmask16{0};
    const auto both = reinterpret_cast<__m512i>(
        _mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps(lower, from + stride), _mm512_maskz_loadu_ps(upper, from)));
    block[pair] = _mm512_permutexvar_epi16(order, both);
  }
}

BALEEN_BF16 void store(const Block& block, Bf16Bits* to, std::int64_t stride) {
  for (std::int64_t row = 0; row < 16; ++row) _mm512_storeu_si512(to + row * stride, block[row]);
}

BALEEN_BF16 void pack_a(const DenseProduct<float>& p, std::int64_t inner, Bf16Bits* to) {
  Block block;
  for (std::int64_t row = 0; row < p.m; row += kOperandRows) {
    for (std::int64_t at = 0; at < inner; at += kInnerBlock) {
      if (p.a_transposed) {
        pairs_along_columns(p.a + at * p.a_stride + row, p.a_stride, p.k - at, p.m - row, block);
        transpose(block);
      } else {
        pairs_along_rows(p.a + row * p.a_stride + at, p.a_stride, p.m - row, p.k - at, block);
      }
      store(block, to + row * inner + at, inner);
    }
  }
}

BALEEN_BF16 void pack_b(const DenseProduct<float>& p, std::int64_t inner, Bf16Bits* to) {
  Block block;
  for (std::int64_t column = 0; column < p.n; column += kPanelColumns) {
    for (std::int64_t at = 0; at < inner; at += kInnerBlock) {
      if (p.b_transposed) {
        pairs_along_rows(p.b + column * p.b_stride + at, p.b_stride, p.n - column, p.k - at, block);
        transpose(block);
      } else {
        pairs_along_columns(p.b + at * p.b_stride + column, p.b_stride, p.k - at, p.n - column, block);
      }
      store(block, to + column * inner + at * kPanelColumns, 2 * kPanelColumns);
    }
  }
}

std::int64_t up_to_whole(std::int64_t count, std::int64_t block) {
  return (count + block - 1) / block * block;
}

void resize(std::vector<Bf16Bits>& values, std::int64_t count) {
  if (static_cast<std::int64_t>(values.size()) < count) values.resize(static_cast<std::size_t>(count));
}

}  // namespace

void Bf16Operands::pack(const DenseProduct<float>& p) {
  inner = up_to_whole(p.k, kInnerBlock);
  panels = up_to_whole(p.n, kPanelColumns) / kPanelColumns;
  resize(a, up_to_whole(p.m, kOperandRows) * inner);
  resize(b, panels * kPanelColumns * inner);
  pack_a(p, inner, a.data());
  pack_b(p, inner, b.data());
}

}  // namespace baleen

#endif
