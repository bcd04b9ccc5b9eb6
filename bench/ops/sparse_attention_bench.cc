// Attention on the shapes of the released models: decode (T = 1) and prefill, ratio 4 with its selection and
// ratio 128. Each case is verified against the reference first. GB/s counts the cache rows, GFLOP/s both
// products.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/sparse_attention/sparse_attention.h"
#include "tests/support/cache_pages.h"
#include "tests/support/compare.h"
#include "tests/support/random_weights.h"

namespace baleen {
namespace {

template <class PageTable>
void fill(const LatentPool& pool, const PageTable& table, std::int64_t num_rows) {
  const auto width = static_cast<std::size_t>(pool.format.width());
  const std::vector<float> values = test::random_values(width + 1024, 3);
  for (std::int64_t row = 0; row < num_rows; ++row) {
    test::write_row(pool, table, row,
                    std::span(values).subspan(static_cast<std::size_t>(row * 37 % 1024), width));
  }
}

/// Arguments: T, heads, ratio, entries (selected for ratio 4; all of the sequence's for ratio 128).
void attention(benchmark::State& state) {
  const std::int64_t num_queries = state.range(0), num_heads = state.range(1), num_entries = state.range(3);
  const int ratio = static_cast<int>(state.range(2));
  constexpr std::int64_t kHeadDim = 512;
  // Ratio 4: the selection is spread over eight times as many entries.
  const std::int64_t start = ratio == 0 ? 1000 : ratio == 4 ? num_entries * 8 * 4 : num_entries * ratio;
  const std::int64_t num_pages = (start + num_queries + kPageTokens - 1) / kPageTokens;
  const LatentFormat format{448, 64, Precision::kReleased};
  const auto table = test::shuffled_pages(num_pages, 0, 1);
  test::LatentPages window(format, 256, num_pages),
      compressed(format, ratio == 0 ? 1 : 256 / ratio, num_pages);
  fill(window.pool(), table, start + num_queries);
  if (ratio != 0) fill(compressed.pool(), table, (start + num_queries) / ratio);

  const std::vector<float> q =
      test::random_values(static_cast<std::size_t>(num_queries * num_heads * kHeadDim), 2);
  const std::vector<float> sink(static_cast<std::size_t>(num_heads), 0.5F);
  std::vector<float> out(q.size()), want(static_cast<std::size_t>(num_heads * kHeadDim));
  std::vector<std::int32_t> selected(static_cast<std::size_t>(num_queries * num_entries));
  for (std::size_t i = 0; i < selected.size(); ++i) {
    selected[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) % num_entries * 8 + 3);
  }
  const std::vector<TokenId> tokens(static_cast<std::size_t>(num_queries));
  const SequenceSlice slice{0, num_queries, start, table, table, 0};
  SparseAttentionArgs args{.q = {q.data(), {num_queries, num_heads, kHeadDim}},
                           .batch = {tokens, {&slice, 1}},
                           .window = window.pool(),
                           .compressed = compressed.pool(),
                           .ratio = ratio,
                           .sink = sink,
                           .scale = 1.0F / std::sqrt(static_cast<float>(kHeadDim)),
                           .out = {out.data(), {num_queries, num_heads, kHeadDim}}};
  if (ratio == 4) args.selected = {selected.data(), {num_queries, num_entries}};
  ThreadPool pool(default_num_threads());
  Arena scratch(sparse_attention_scratch_bytes(num_heads, kHeadDim, pool.num_threads()));
  CpuContext context{pool, scratch};
  sparse_attention_cpu(args, context);

  SparseAttentionArgs first = args;
  const SequenceSlice one{0, 1, start, table, table, 0};
  first.batch = {std::span(tokens).first(1), {&one, 1}};
  first.q = args.q.slice(0, 1);
  first.out = {want.data(), {1, num_heads, kHeadDim}};
  sparse_attention_ref(first);
  const std::string error = test::difference(std::span(out).first(want.size()), want, {.norm = 2e-3});
  if (!error.empty()) return state.SkipWithError(error.c_str());

  for (auto _ : state) sparse_attention_cpu(args, context);
  const OpCost cost = sparse_attention_cost(args);
  const auto iterations = static_cast<double>(state.iterations());
  state.counters["GB/s"] =
      benchmark::Counter(cost.read_bytes * iterations * 1e-9, benchmark::Counter::kIsRate);
  state.counters["GFLOP/s"] =
      benchmark::Counter(cost.total_flops() * iterations * 1e-9, benchmark::Counter::kIsRate);
}

BENCHMARK(attention)
    ->Args({1, 64, 0, 1})
    ->Args({1, 64, 4, 512})
    ->Args({64, 64, 4, 512})
    ->Args({1, 128, 4, 1024})
    ->Args({1, 64, 128, 1024})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond)
    ->MinTime(0.3);

}  // namespace
}  // namespace baleen
