// Arrays of a shape and a type that are nowhere: for costs, which look at shapes alone. Reading one is a
// fault.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/matmul/weight_matrix.h"
#include "tensor/activations.h"
#include "tensor/fp8_rows.h"
#include "tensor/ragged_batch.h"

namespace baleen::test {

/// In the first page of the address space, which is never mapped, and not null.
template <class T>
T* nowhere() {
  return reinterpret_cast<T*>(std::uintptr_t{256});
}

template <int Rank>
Activations<Rank> unread(const std::array<std::int64_t, Rank>& extents, ElementType type) {
  return {nowhere<std::byte>(), type, extents};
}
template <int Rank>
Activations<Rank> unread_bf16(const std::array<std::int64_t, Rank>& extents) {
  return unread<Rank>(extents, ElementType::kBf16);
}
template <int Rank>
Activations<Rank> unread_f32(const std::array<std::int64_t, Rank>& extents) {
  return unread<Rank>(extents, ElementType::kF32);
}

template <class T>
std::span<T> unread_span(std::int64_t size) {
  return {nowhere<T>(), static_cast<std::size_t>(size)};
}

inline WeightMatrix unread_weight(WeightFormat format, std::int64_t rows, std::int64_t cols) {
  return {.format = format, .rows = rows, .cols = cols, .data = nowhere<std::byte>()};
}

inline Fp8Rows unread_fp8_rows() { return {.codes = nowhere<std::uint8_t>(), .scales = nowhere<float>()}; }

/// Tokens [start, start + num_tokens) of a sequence.
struct Chunk {
  std::int64_t start = 0;
  std::int64_t num_tokens = 0;
};

/// A batch without pages.
class UnreadBatch {
 public:
  explicit UnreadBatch(const std::vector<Chunk>& chunks) {
    for (const Chunk& chunk : chunks) {
      slices_.push_back({.first_row = num_rows_, .num_tokens = chunk.num_tokens, .start = chunk.start});
      num_rows_ += chunk.num_tokens;
    }
  }
  [[nodiscard]] std::vector<SequenceSlice>& slices() { return slices_; }
  [[nodiscard]] std::int64_t num_rows() const { return num_rows_; }
  [[nodiscard]] RaggedBatch batch() const { return {unread_span<const TokenId>(num_rows_), slices_}; }

 private:
  std::int64_t num_rows_ = 0;
  std::vector<SequenceSlice> slices_;
};

}  // namespace baleen::test
