/// Matrices of 8 x 8 values of 16 bits from shared memory to the operands of mma.sync.  (PTX: ldmatrix)
#pragma once

#include <cstdint>

#include "cuda/ptx/mbarrier.h"

namespace baleen::ptx {

/// Four matrices. Lane 8 i + r says where row r of matrix i lies, 16 bytes; lane 4 g + q gets of matrix i, in
/// word i, the values 2q and 2q + 1 of row g.
__device__ inline void ldmatrix_x4(std::uint32_t (&words)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(shared_address(row))
               : "memory");
}

/// The same, with lane 4 g + q getting the values of rows 2q and 2q + 1 in column g.
__device__ inline void ldmatrix_x4_transposed(std::uint32_t (&words)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(shared_address(row))
               : "memory");
}

}  // namespace baleen::ptx
