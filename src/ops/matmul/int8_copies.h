/// Copies of FP8 weights as integers, for the variants named `int8`.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include "ops/matmul/weight_matrix.h"
#include "ops/operation/operation.h"
#include "parallel/thread_pool.h"
#include "tensor/buffer.h"

namespace baleen {

/// What the copy of a matrix of so many weights takes: a byte each, and a scale per row and 32 inputs.
[[nodiscard]] constexpr std::int64_t int8_copy_bytes(std::int64_t num_weights) {
  return num_weights + num_weights / 32;
}

class Int8Copies {
 public:
  /// `weight` in kInt8: made by the threads of `pool` at the first call, and found by its address
  /// from then on, so what lies there must not change. Valid as long as this. `weight` is FP8, [N, K], K a
  /// multiple of 128; of a group with a NaN all products are not finite.
  const WeightMatrix& of(const WeightMatrix& weight, ThreadPool& pool);

 private:
  struct Copy {
    Copy(Buffer buffer, const WeightMatrix& in_buffer) : memory(std::move(buffer)), matrix(in_buffer) {}
    Buffer memory;
    WeightMatrix matrix;
  };
  std::map<std::tuple<const std::byte*, std::int64_t, std::int64_t>, Copy> copies_;
};

/// The context's copy of `weight`, which is FP8.
[[nodiscard]] const WeightMatrix& int8_copy(const WeightMatrix& weight, CpuContext& context);

}  // namespace baleen
