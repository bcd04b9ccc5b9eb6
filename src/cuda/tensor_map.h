/// Descriptors of the tensor memory accelerator (TMA). Encoded by the driver, which is found at run time.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace baleen {

enum class TileSwizzle : std::uint8_t { kNone, k32B, k64B, k128B };

/// A row-major matrix of `rows` x `row_bytes` (rows `stride_bytes` apart, a multiple of 16), cut into boxes
/// of box_rows x box_bytes bytes (box_bytes a multiple of 16, at most the swizzle's span). Elements are
/// bytes: formats do not matter to a copy. Bytes outside the matrix arrive as zeros. `base` is 16-byte
/// aligned device memory. Pass the map to a kernel by value as `const __grid_constant__ CUtensorMap`. Throws
/// `Error` when the driver refuses it.
[[nodiscard]] CUtensorMap make_tensor_map(const void* base, std::int64_t rows, std::int64_t row_bytes,
                                          std::int64_t stride_bytes, int box_rows, int box_bytes,
                                          TileSwizzle swizzle);

/// The same for `count` matrices `matrix_stride_bytes` apart (experts, groups): coordinates (byte, row,
/// matrix); a box is the same piece of `box_matrices` of them.
[[nodiscard]] CUtensorMap make_tensor_map(const void* base, std::int64_t count,
                                          std::int64_t matrix_stride_bytes, std::int64_t rows,
                                          std::int64_t row_bytes, std::int64_t stride_bytes, int box_rows,
                                          int box_bytes, TileSwizzle swizzle, int box_matrices = 1);

}  // namespace baleen
