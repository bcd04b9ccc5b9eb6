/// Where the rows of each form lie: what is the same for all kernels on tensor cores.
#pragma once

#include "ops/sparse_attention/cuda/attention_tile.cuh"
#include "ops/sparse_attention/cuda/entry_list.cuh"
#include "ops/sparse_attention/cuda/grouped_rows.cuh"

namespace baleen::BALEEN_ARCH {

/// Codes and scales of a row of kWidth values in `pool`; `entry`: it is not of the window. V4's rotary part
/// is behind the codes.
template <RowForm kForm>
__device__ RowPlace row_place(const RowPool& pool, bool entry, PageId page, int row) {
  static_assert(kForm == RowForm::kV4 || kForm == RowForm::kV41);
  if constexpr (kForm == RowForm::kV4) {
    return {pool, page, row, kDataBytes, kScaleBytes};
  } else {
    RowPlace place(pool, page, row, entry ? entry_row_bytes(kWidth) : position_row_bytes(kWidth), 0);
    if (place.data != nullptr) place.scales = place.data + (entry ? kWidth / 2 : kWidth);
    return place;
  }
}
template <RowForm kForm>
__device__ RowPlace row_place(const AttentionLaunch& launch, bool entry, PageId page, int row) {
  return row_place<kForm>(entry ? launch.compressed : launch.window, entry, page, row);
}

}  // namespace baleen::BALEEN_ARCH
