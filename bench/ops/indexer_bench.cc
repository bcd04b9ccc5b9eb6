// Scan of the indexer's keys, as a decode step at n keys (4 n positions) does in every ratio-4 layer.
// Verified against the reference first. GB/s counts the key rows; GFLOP/s the dot products, which `released`
// computes on integers.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "ops/indexer/indexer.h"
#include "tests/support/cache_pages.h"
#include "tests/support/random_weights.h"

namespace baleen {
namespace {

/// Arguments: T, heads, keys, top_k.
void scan(benchmark::State& state, Precision precision) {
  const std::int64_t num_queries = state.range(0), num_heads = state.range(1), num_keys = state.range(2);
  const std::int64_t top_k = state.range(3), dim = 128;
  const std::int64_t start = 4 * num_keys - 1;
  const std::int64_t num_pages = (start + num_queries + kPageTokens - 1) / kPageTokens;
  const auto table = test::shuffled_pages(num_pages, 0, 1);
  test::IndexKeyPages keys({static_cast<int>(dim), precision}, 64, num_pages);
  const std::vector<float> values = test::random_values(1 << 20, 3);
  for (std::int64_t row = 0; row < num_pages * 64; ++row) {
    test::write_row(keys.pool(), table, row,
                    std::span(values).subspan(static_cast<std::size_t>(row * 3691 % 1000000), 128));
  }
  const std::vector<float> q =
      test::random_values(static_cast<std::size_t>(num_queries * num_heads * dim), 2);
  const std::vector<float> weights =
      test::random_values(static_cast<std::size_t>(num_queries * num_heads), 4);
  const std::vector<float> cosine(static_cast<std::size_t>(num_queries * 32), 0.6F),
      sine(cosine.size(), 0.8F);
  std::vector<std::int32_t> selected(static_cast<std::size_t>(num_queries * top_k)),
      want(static_cast<std::size_t>(top_k));
  const std::vector<TokenId> tokens(static_cast<std::size_t>(num_queries));
  const SequenceSlice slice{0, num_queries, start, table, {}, 0};
  const IndexerArgs args{.q = {q.data(), {num_queries, num_heads, dim}},
                         .head_weights = {weights.data(), {num_queries, num_heads}},
                         .cosine = {cosine.data(), {num_queries, 32}},
                         .sine = {sine.data(), {num_queries, 32}},
                         .precision = precision,
                         .batch = {tokens, {&slice, 1}},
                         .keys = keys.pool(),
                         .selected = {selected.data(), {num_queries, top_k}}};
  ThreadPool pool(default_num_threads());
  Arena scratch(indexer_scratch_bytes(num_heads, dim, top_k, pool.num_threads()));
  CpuContext context{pool, scratch};
  indexer_cpu(args, context);

  IndexerArgs first = args;
  const SequenceSlice one{0, 1, start, table, {}, 0};
  first.batch = {std::span(tokens).first(1), {&one, 1}};
  first.q = args.q.slice(0, 1);
  first.selected = {want.data(), {1, top_k}};
  indexer_ref(first);
  std::int64_t num_missing = 0;
  for (std::int64_t i = 0; i < top_k; ++i) {
    num_missing +=
        std::binary_search(want.begin(), want.end(), selected[static_cast<std::size_t>(i)]) ? 0 : 1;
  }
  // Scores that differ in their last bits may change places at the end of the selection.
  if (num_missing * 100 > top_k) return state.SkipWithError("the selection differs from the reference's");

  for (auto _ : state) indexer_cpu(args, context);
  const auto iterations = static_cast<double>(state.iterations());
  const OpCost cost = indexer_cost(args);
  state.counters["GB/s"] =
      benchmark::Counter(cost.read_bytes * iterations * 1e-9, benchmark::Counter::kIsRate);
  state.counters["GFLOP/s"] =
      benchmark::Counter(cost.total_flops() * iterations * 1e-9, benchmark::Counter::kIsRate);
}

#define BALEEN_INDEXER_CASES(name, precision) \
  BENCHMARK_CAPTURE(scan, name, precision)    \
      ->Args({1, 64, 25000, 512})             \
      ->Args({16, 64, 25000, 512})            \
      ->UseRealTime()                         \
      ->Unit(benchmark::kMicrosecond)         \
      ->MinTime(0.3)
BALEEN_INDEXER_CASES(released, Precision::kReleased);
BALEEN_INDEXER_CASES(bf16, Precision::kBf16);
BALEEN_INDEXER_CASES(exact, Precision::kExact);

}  // namespace
}  // namespace baleen
