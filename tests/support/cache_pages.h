/// Owned cache pages and page tables for tests of the operations that read and write them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "numeric/index_key.h"
#include "numeric/latent_row.h"
#include "tensor/ragged_batch.h"

namespace baleen::test {

/// A pool's memory. Untouched bytes hold 0xFF, which reads as NaN in every format: what is not written shows.
template <class Pool, class Format>
class Pages {
 public:
  Pages(const Format& format, int rows_per_page, std::int64_t num_pages)
      : bytes_(static_cast<std::size_t>(num_pages * format.page_stride_bytes(rows_per_page)),
               std::byte{0xFF}),
        pool_{bytes_.data(), format.page_stride_bytes(rows_per_page), rows_per_page, format} {}
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  [[nodiscard]] const Pool& pool() const { return pool_; }
  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
  Pool pool_;
};

using LatentPages = Pages<LatentPool, LatentFormat>;
using IndexKeyPages = Pages<IndexKeyPool, IndexKeyFormat>;

/// Row `row` of a sequence whose pages are `table`.
[[nodiscard]] inline std::vector<float> read_row(const LatentPool& pool, std::span<const PageId> table,
                                                 std::int64_t row) {
  std::vector<float> values(static_cast<std::size_t>(pool.format.width()));
  const auto page = static_cast<std::int64_t>(table[static_cast<std::size_t>(row / pool.rows_per_page)]);
  decode_latent_row(pool.format, pool.page(page), pool.rows_per_page,
                    static_cast<int>(row % pool.rows_per_page), values);
  return values;
}
[[nodiscard]] inline std::vector<float> read_row(const IndexKeyPool& pool, std::span<const PageId> table,
                                                 std::int64_t row) {
  std::vector<float> values(static_cast<std::size_t>(pool.format.dim));
  const auto page = static_cast<std::int64_t>(table[static_cast<std::size_t>(row / pool.rows_per_page)]);
  decode_index_key(pool.format, pool.page(page), pool.rows_per_page,
                   static_cast<int>(row % pool.rows_per_page), values);
  return values;
}
inline void write_row(const LatentPool& pool, std::span<const PageId> table, std::int64_t row,
                      std::span<const float> values) {
  const auto page = static_cast<std::int64_t>(table[static_cast<std::size_t>(row / pool.rows_per_page)]);
  encode_latent_row(pool.format, pool.page(page), pool.rows_per_page,
                    static_cast<int>(row % pool.rows_per_page), values);
}
inline void write_row(const IndexKeyPool& pool, std::span<const PageId> table, std::int64_t row,
                      std::span<const float> values) {
  const auto page = static_cast<std::int64_t>(table[static_cast<std::size_t>(row / pool.rows_per_page)]);
  encode_index_key(pool.format, pool.page(page), pool.rows_per_page,
                   static_cast<int>(row % pool.rows_per_page), values);
}

/// `count` pages in no order: first, first + 1, ... shuffled.
[[nodiscard]] inline std::vector<PageId> shuffled_pages(std::int64_t count, std::int32_t first,
                                                        std::uint32_t seed) {
  std::vector<PageId> table(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < table.size(); ++i)
    table[i] = static_cast<PageId>(first + static_cast<std::int32_t>(i));
  std::shuffle(table.begin(), table.end(), std::mt19937(seed));
  return table;
}

}  // namespace baleen::test
