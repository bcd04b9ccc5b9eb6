#include "cuda/tensor_map.h"

#include <cuda_runtime_api.h>

#include <array>

#include "cuda/cuda_error.h"

namespace baleen {
namespace {

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

EncodeTiled find_encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check_cuda(
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found),
      "looking for the driver's tensor maps");
  if (found != cudaDriverEntryPointSuccess)
    fail("the CUDA driver knows no tensor maps; a driver for CUDA 12 or later does");
  return reinterpret_cast<EncodeTiled>(function);
}

CUtensorMapSwizzle swizzle_of(TileSwizzle swizzle) {
  switch (swizzle) {
    case TileSwizzle::kNone:
      return CU_TENSOR_MAP_SWIZZLE_NONE;
    case TileSwizzle::k32B:
      return CU_TENSOR_MAP_SWIZZLE_32B;
    case TileSwizzle::k64B:
      return CU_TENSOR_MAP_SWIZZLE_64B;
    case TileSwizzle::k128B:
      return CU_TENSOR_MAP_SWIZZLE_128B;
  }
  return CU_TENSOR_MAP_SWIZZLE_NONE;
}

template <std::size_t Rank>
CUtensorMap encode(const void* base, const std::array<cuuint64_t, Rank>& extents,
                   const std::array<cuuint64_t, Rank - 1>& strides_bytes,
                   const std::array<cuuint32_t, Rank>& box, TileSwizzle swizzle) {
  static const EncodeTiled encode_tiled = find_encoder();
  std::array<cuuint32_t, Rank> steps;
  steps.fill(1);
  CUtensorMap map;
  const CUresult status = encode_tiled(
      &map, CU_TENSOR_MAP_DATA_TYPE_UINT8, static_cast<cuuint32_t>(Rank), const_cast<void*>(base),
      extents.data(), strides_bytes.data(), box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
      swizzle_of(swizzle), CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    fail("the CUDA driver refuses a tensor map (error {}): {} bytes x {} rows, {} bytes apart, box {} x {}",
         static_cast<int>(status), extents[0], extents[1], strides_bytes[0], box[0], box[1]);
  }
  return map;
}

}  // namespace

CUtensorMap make_tensor_map(const void* base, std::int64_t rows, std::int64_t row_bytes,
                            std::int64_t stride_bytes, int box_rows, int box_bytes, TileSwizzle swizzle) {
  return encode<2>(base, {static_cast<cuuint64_t>(row_bytes), static_cast<cuuint64_t>(rows)},
                   {static_cast<cuuint64_t>(stride_bytes)},
                   {static_cast<cuuint32_t>(box_bytes), static_cast<cuuint32_t>(box_rows)}, swizzle);
}

CUtensorMap make_tensor_map(const void* base, std::int64_t count, std::int64_t matrix_stride_bytes,
                            std::int64_t rows, std::int64_t row_bytes, std::int64_t stride_bytes,
                            int box_rows, int box_bytes, TileSwizzle swizzle, int box_matrices) {
  return encode<3>(
      base,
      {static_cast<cuuint64_t>(row_bytes), static_cast<cuuint64_t>(rows), static_cast<cuuint64_t>(count)},
      {static_cast<cuuint64_t>(stride_bytes), static_cast<cuuint64_t>(matrix_stride_bytes)},
      {static_cast<cuuint32_t>(box_bytes), static_cast<cuuint32_t>(box_rows),
       static_cast<cuuint32_t>(box_matrices)},
      swizzle);
}

}  // namespace baleen
