/// Arguments of the kernels of attention, and the one that takes them all.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/cuda_context.h"
#include "numeric/bf16.h"
#include "numeric/latent_row.h"
#include "ops/sparse_attention/sparse_attention.h"
#include "tensor/ragged_batch.h"

namespace baleen::BALEEN_ARCH {

inline constexpr int kRunEntries = 64;  ///< runs are cut from the start of the list

/// Rows that kernels on tensor cores take: those of the released models. V4.1's have as many values.
inline constexpr int kTilesNope = 448, kTilesRope = 64, kTilesWidth = kTilesNope + kTilesRope;

/// What rows are (numeric/latent_row.h). V4.1's are of two kinds: e4m3 codes in the window, e2m1 codes of
/// entries.
enum class RowForm : std::uint8_t { kV4, kV32, kV41 };

/// A `LatentPool` of `released` rows as kernels see it.
struct RowPool {
  const std::byte* base;
  std::int64_t page_stride_bytes;
  int rows_shift;  ///< rows a page: 1 << rows_shift
};

struct AttentionLaunch {
  DeviceBatch batch;
  RowPool window;
  RowPool compressed;
  int ratio;
  bool selects;                  ///< entries are the selected ones, else all
  const std::int32_t* selected;  ///< [T, top_k]
  std::int64_t selected_stride;
  int top_k;
  int window_tokens;

  const Bf16Bits* q;  ///< [T, heads, nope + rope]
  std::int64_t q_row_stride, q_head_stride;
  Bf16Bits* out;
  std::int64_t out_row_stride, out_head_stride;
  const float* sink;
  float scale_log2;     ///< softmax's scale times log2(e): exponentials are powers of two
  const float* cosine;  ///< [T, rope / 2]; null: values are not rotated
  const float* sine;
  std::int64_t angle_stride;

  int num_rows, num_heads;
  int nope, rope;
  RowForm form;
};

/// With plain loops, rows of any geometry.
void attention_any(const AttentionLaunch& launch, CudaContext& context);

/// What the arguments say, checked; `rotation` turns the result back.
[[nodiscard]] AttentionLaunch describe_attention(const SparseAttentionArgs& args, const RopeArgs& rotation,
                                                 const CudaContext& context);

}  // namespace baleen::BALEEN_ARCH
