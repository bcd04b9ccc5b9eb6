// Made-up history for benchmarks: a sequence at a far position whose cache holds plausible rows, without the
// hours that computing them would take.

#include <random>

#include "base/error.h"
#include "engine/engine.h"

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

void Engine::fabricate_history(SequenceId id, std::int64_t num_positions) {
  // By steps, as a prompt would come, so that window pages are taken and freed on the way.
  const std::vector<TokenId> tokens(
      static_cast<std::size_t>(std::min(num_positions, options_.max_batch_tokens)));
  for (std::int64_t seen = 0; seen < num_positions;) {
    const std::int64_t count = std::min(num_positions - seen, options_.max_batch_tokens);
    if (!sequences_.reserve(id, count)) fail("no room in the cache for {} positions", num_positions);
    sequences_.commit(id, std::span(tokens).first(static_cast<std::size_t>(count)));
    seen += count;
  }
  const SequenceSlice slice = sequences_.slice(id, 0, 0);
  std::mt19937 random(1);
  for (std::int64_t block = 0; block < rank_config_.num_blocks(); ++block) {
    const int width = static_cast<int>(config().head_dim);
    fill_pages(cache_.memory(), cache_.window(block), slice.window_pages, width, random, encode_latent_row);
    fill_pages(cache_.memory(), cache_.compressed(block), slice.pages, width, random, encode_latent_row);
    fill_pages(cache_.memory(), cache_.index_keys(block), slice.pages,
               static_cast<int>(config().index_head_dim), random, encode_index_key);
  }
}

}  // namespace baleen
