#include "engine/fabricated_history.h"

#include <algorithm>
#include <random>

#include "base/error.h"

namespace baleen {
namespace {

constexpr int kDistinctRows = 512;  // cycled: enough that scores differ and that ties are rare

template <class Pool, class Encode>
void fill_pages(Memory& memory, const Pool& pool, std::span<const PageId> pages, int width,
                std::mt19937& random, Encode encode) {
  if (pool.base == nullptr) return;
  std::normal_distribution<float> normal(0.0F, 1.0F);
  std::vector<float> values(static_cast<std::size_t>(kDistinctRows * width));
  for (float& value : values) value = normal(random);
  std::vector<std::byte> bytes(static_cast<std::size_t>(pool.page_stride_bytes));
  int next = 0;
  for (const PageId page : pages) {
    if (page == PageId::kNone) continue;
    for (int row = 0; row < pool.rows_per_page; ++row) {
      const std::span<const float> from(values.data() + static_cast<std::ptrdiff_t>(next) * width,
                                        static_cast<std::size_t>(width));
      encode(pool.format, bytes.data(), pool.rows_per_page, row, from);
      next = (next + 1) % kDistinctRows;
    }
    memory.upload(pool.page(static_cast<std::int64_t>(page)), bytes);
  }
}

}  // namespace

void fabricate_history(SequenceTable& sequences, const KvCache& cache, const RankConfig& rank,
                       std::int64_t max_batch_tokens, SequenceId sequence, std::int64_t num_positions) {
  // By steps, as a prompt would come, so that window pages are taken and freed on the way.
  const std::vector<TokenId> tokens(static_cast<std::size_t>(std::min(num_positions, max_batch_tokens)));
  for (std::int64_t seen = 0; seen < num_positions;) {
    const std::int64_t count = std::min(num_positions - seen, max_batch_tokens);
    if (!sequences.reserve(sequence, count)) fail("no room in the cache for {} positions", num_positions);
    sequences.commit(sequence, std::span(tokens).first(static_cast<std::size_t>(count)));
    seen += count;
  }
  const SequenceSlice slice = sequences.slice(sequence, 0, 0);
  std::mt19937 random(1);
  for (std::int64_t block = 0; block < rank.num_blocks(); ++block) {
    const int width = static_cast<int>(rank.model().head_dim),
              key_width = static_cast<int>(rank.model().index_head_dim);
    fill_pages(cache.memory(), cache.window(block), slice.window_pages, width, random, encode_latent_row);
    fill_pages(cache.memory(), cache.compressed(block), slice.pages, width, random, encode_latent_row);
    fill_pages(cache.memory(), cache.index_keys(block), slice.pages, key_width, random, encode_index_key);
  }
}

}  // namespace baleen
