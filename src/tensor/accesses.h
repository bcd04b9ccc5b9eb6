/// Which bytes an operation reads and which it writes, as its arguments say: ranges of memory with strides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "numeric/index_key.h"
#include "numeric/latent_row.h"
#include "tensor/activations.h"
#include "tensor/fp8_rows.h"

namespace baleen {

/// `num_rows` rows of `row_bytes` each, `stride_bytes` apart.
struct MemoryRange {
  /// Rows of a range whose end is not known: up to the end of memory.
  static constexpr std::int64_t kToTheEnd = std::numeric_limits<std::int64_t>::max();

  const std::byte* begin = nullptr;
  std::int64_t row_bytes = 0;
  std::int64_t num_rows = 1;
  std::int64_t stride_bytes = 0;  ///< >= row_bytes, where there are several rows

  [[nodiscard]] bool empty() const { return begin == nullptr || row_bytes <= 0 || num_rows <= 0; }
  /// Whether `address` lies in a row.
  [[nodiscard]] bool has(const std::byte* address) const;
  bool operator==(const MemoryRange&) const = default;
};

/// Whether a byte may lie in both. Exact for rows of one stride and for blocks without gaps; rows of
/// different strides count as overlapping where their extents do.
[[nodiscard]] bool overlap(const MemoryRange& one, const MemoryRange& other);

/// The bytes from which an array's rows begin: `bytes_of_element` times what `extents` and `strides` say.
/// Gaps behind rows are left out, those within a row of the first axis are not.
template <std::size_t kRank>
[[nodiscard]] MemoryRange strided_range(const void* data, std::int64_t bytes_of_element,
                                        const std::array<std::int64_t, kRank>& extents,
                                        const std::array<std::int64_t, kRank>& strides) {
  std::int64_t in_row = 1;
  for (std::size_t axis = 1; axis < kRank; ++axis) {
    if (extents[axis] == 0) return {};
    in_row += (extents[axis] - 1) * strides[axis];
  }
  if constexpr (kRank == 1) in_row = extents[0];
  const std::int64_t num_rows = kRank == 1 ? 1 : extents[0];
  const bool dense = num_rows == 1 || strides[0] == in_row;
  return {static_cast<const std::byte*>(data), bytes_of_element * in_row * (dense ? num_rows : 1),
          dense && num_rows > 0 ? 1 : num_rows, dense ? 0 : bytes_of_element * strides[0]};
}

template <class T, int kRank>
[[nodiscard]] MemoryRange range_of(const View<T, kRank>& view) {
  return strided_range(view.data(), std::int64_t{sizeof(T)}, view.extents(), view.strides());
}
template <class Float, int kRank>
[[nodiscard]] MemoryRange range_of(const ActivationView<Float, kRank>& view) {
  constexpr bool kDouble = std::is_same_v<std::remove_const_t<Float>, double>;
  return strided_range(view.address(), kDouble ? std::int64_t{sizeof(double)} : size_of(view.element_type()),
                       view.extents(), view.strides());
}
template <class T>
[[nodiscard]] MemoryRange range_of(std::span<T> values) {
  return {reinterpret_cast<const std::byte*>(values.data()), static_cast<std::int64_t>(values.size_bytes())};
}
/// One layer's part of the pages: those that the pool says it has, or all up to the end of memory.
[[nodiscard]] MemoryRange range_of_pages(const std::byte* base, std::int64_t page_bytes,
                                         std::int64_t num_pages, std::int64_t stride_bytes);
[[nodiscard]] MemoryRange range_of(const LatentPool& pool);
[[nodiscard]] MemoryRange range_of(const IndexKeyPool& pool);

/// What an operation declares. Two things it does not list, because no operation writes them: weights, which
/// are `WeightMatrix`, and the batch (`RaggedBatch` and a device's form of it).
class Accesses {
 public:
  /// Anything of which there is a `range_of`; empty ones are left out.
  template <class... Array>
  Accesses& read(const Array&... arrays) {
    (add(reads_, range(arrays)), ...);
    return *this;
  }
  template <class... Array>
  Accesses& write(const Array&... arrays) {
    (add(writes_, range(arrays)), ...);
    return *this;
  }
  /// Reads and writes.
  template <class... Array>
  Accesses& update(const Array&... arrays) {
    return read(arrays...).write(arrays...);
  }
  /// Rows of `num_rows` rows of `width` values; nothing where there are none.
  Accesses& read(const Fp8Rows& rows, std::int64_t num_rows, std::int64_t width) {
    return add_fp8(reads_, rows, num_rows, width);
  }
  Accesses& write(const Fp8Rows& rows, std::int64_t num_rows, std::int64_t width) {
    return add_fp8(writes_, rows, num_rows, width);
  }

  [[nodiscard]] std::span<const MemoryRange> reads() const { return reads_; }
  [[nodiscard]] std::span<const MemoryRange> writes() const { return writes_; }

 private:
  template <class Array>
  static MemoryRange range(const Array& array) {
    if constexpr (std::is_same_v<Array, MemoryRange>) {
      return array;
    } else {
      return range_of(array);
    }
  }
  static void add(std::vector<MemoryRange>& to, const MemoryRange& range) {
    if (!range.empty()) to.push_back(range);
  }
  Accesses& add_fp8(std::vector<MemoryRange>& to, const Fp8Rows& rows, std::int64_t num_rows,
                    std::int64_t width);

  std::vector<MemoryRange> reads_, writes_;
};

}  // namespace baleen
