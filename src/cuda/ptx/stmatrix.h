/// Fragments of matrix instructions to shared memory.  (PTX: stmatrix)
#pragma once

#include <cstdint>

#include "cuda/ptx/mbarrier.h"

namespace baleen::ptx {

/// Four 8 x 8 matrices of 16-bit values. Lane l holds columns 2 (l % 4) and the next of row l / 4 of matrix i
/// in values[i]; `row` of lane l is where row l % 8 of matrix l / 8 goes, 16 bytes, so aligned.
__device__ inline void stmatrix_x4(void* row, const std::uint32_t (&values)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)),
               "r"(values[0]), "r"(values[1]), "r"(values[2]), "r"(values[3])
               : "memory");
}

/// The same, transposed: `row` of lane l is where column l % 8 of matrix l / 8 goes.
__device__ inline void stmatrix_x4_transposed(void* row, const std::uint32_t (&values)[4]) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)),
      "r"(values[0]), "r"(values[1]), "r"(values[2]), "r"(values[3])
      : "memory");
}

}  // namespace baleen::ptx
