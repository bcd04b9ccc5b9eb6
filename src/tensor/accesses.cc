#include "tensor/accesses.h"

#include <algorithm>

namespace baleen {
namespace {

std::uintptr_t address_of(const MemoryRange& range) { return reinterpret_cast<std::uintptr_t>(range.begin); }

/// Behind its last byte.
std::uintptr_t end_of(const MemoryRange& range) {
  if (range.num_rows == MemoryRange::kToTheEnd) return std::numeric_limits<std::uintptr_t>::max();
  return address_of(range) +
         static_cast<std::uintptr_t>((range.num_rows - 1) * range.stride_bytes + range.row_bytes);
}

/// Whether bytes [begin, end) meet a row, both within the extent of `rows`.
bool meets_a_row(const MemoryRange& rows, std::uintptr_t begin, std::uintptr_t end) {
  const auto stride = static_cast<std::uintptr_t>(rows.stride_bytes);
  if (rows.num_rows == 1 || end - begin >= stride) return true;
  const std::uintptr_t behind_row = (begin - address_of(rows)) % stride;
  return behind_row < static_cast<std::uintptr_t>(rows.row_bytes) || behind_row + (end - begin) > stride;
}

}  // namespace

bool MemoryRange::has(const std::byte* address) const {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  return !empty() && at >= address_of(*this) && at < end_of(*this) && meets_a_row(*this, at, at + 1);
}

bool overlap(const MemoryRange& one, const MemoryRange& other) {
  if (one.empty() || other.empty()) return false;
  const std::uintptr_t begin = std::max(address_of(one), address_of(other));
  const std::uintptr_t end = std::min(end_of(one), end_of(other));
  if (begin >= end) return false;
  if (other.num_rows == 1) return meets_a_row(one, begin, end);
  if (one.num_rows == 1) return meets_a_row(other, begin, end);
  if (one.stride_bytes != other.stride_bytes) return true;
  const MemoryRange& first = address_of(one) <= address_of(other) ? one : other;
  const MemoryRange& second = address_of(one) <= address_of(other) ? other : one;
  const std::uintptr_t row = address_of(second);
  return meets_a_row(first, row, row + static_cast<std::uintptr_t>(second.row_bytes));
}

MemoryRange range_of_pages(const std::byte* base, std::int64_t page_bytes, std::int64_t num_pages,
                           std::int64_t stride_bytes) {
  const MemoryRange pages{base, page_bytes, num_pages > 0 ? num_pages : MemoryRange::kToTheEnd, stride_bytes};
  return num_pages == 1 ? MemoryRange{base, page_bytes} : pages;
}

MemoryRange range_of(const LatentPool& pool) {
  return range_of_pages(pool.base, pool.rows_per_page * pool.format.row_bytes(), pool.num_pages,
                        pool.page_stride_bytes);
}

MemoryRange range_of(const IndexKeyPool& pool) {
  return range_of_pages(pool.base, pool.rows_per_page * pool.format.row_bytes(), pool.num_pages,
                        pool.page_stride_bytes);
}

Accesses& Accesses::add_fp8(std::vector<MemoryRange>& to, const Fp8Rows& rows, std::int64_t num_rows,
                            std::int64_t width) {
  if (!rows) return *this;
  add(to, {reinterpret_cast<const std::byte*>(rows.codes), num_rows * width});
  add(to, strided_range<2>(rows.scales, std::int64_t{sizeof(float)}, {width / rows.group, num_rows},
                           {rows.scale_stride, 1}));
  return *this;
}

}  // namespace baleen
