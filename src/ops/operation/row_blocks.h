/// Sharing out the rows of an operation whose rows are computed independently of one another.
#pragma once

#include <algorithm>
#include <cstdint>

#include "parallel/thread_pool.h"

namespace baleen {

/// Calls body(begin, end, thread) on consecutive ranges that cover [0, num_rows). `values_per_row`: numbers a
/// row moves, which decides when a range is worth a thread of its own. A single row runs on the calling
/// thread.
template <class Body>
void for_row_blocks(ThreadPool& pool, std::int64_t num_rows, std::int64_t values_per_row, Body&& body) {
  // 16 Ki floats take some 3 us, a few times what the pool needs to hand out an item.
  constexpr std::int64_t kMinValues = 16384;
  constexpr std::int64_t kItemsPerThread = 4;
  const std::int64_t fewest = (kMinValues + values_per_row - 1) / std::max<std::int64_t>(1, values_per_row);
  const std::int64_t wanted_items = kItemsPerThread * pool.num_threads();
  const std::int64_t rows = std::max({std::int64_t{1}, fewest, (num_rows + wanted_items - 1) / wanted_items});
  pool.parallel_for((num_rows + rows - 1) / rows, [&](std::int64_t item, int thread) {
    body(item * rows, std::min(num_rows, (item + 1) * rows), thread);
  });
}

}  // namespace baleen
