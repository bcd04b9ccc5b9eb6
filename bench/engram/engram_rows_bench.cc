// What a step waits for the rows of its tokens where tables lie on disk, read anew or from the system's cache
// of pages, and in memory. Two tables of 1.07 GB in the folder for temporary files, n-grams all different.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <random>

#include "base/check.h"
#include "engram/engram_store.h"
#include "tests/engram/small_tables.h"

namespace baleen {
namespace {

constexpr std::int64_t kMaxTokens = 8192;

/// Of V4.1's widths, with one of 95 of its rows.
ModelConfig config_of_bench() {
  ModelConfig config = parse_config(test::v41_config().dump(), "config.json");
  EngramConfig& engram = *config.engram;
  engram.vocab_size /= 95;
  engram.num_embeddings.clear();
  for (const EngramTable& table : engram_tables(engram)) engram.num_embeddings.push_back(table.num_rows());
  return config;
}

struct BenchTables {
  ModelConfig config = config_of_bench();
  test::SmallTables files{config};
  Checkpoint checkpoint{files.folder()};

  /// So that the next reads are the disk's.
  void drop_pages() const {
    const int descriptor = ::open(files.file().c_str(), O_RDONLY | O_CLOEXEC);
    BALEEN_CHECK(descriptor >= 0);
    BALEEN_CHECK_EQ(::fsync(descriptor), 0);
    BALEEN_CHECK_EQ(::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED), 0);
    ::close(descriptor);
  }
  [[nodiscard]] std::unique_ptr<EngramStore> store(EngramPlace place) const {
    std::vector<TokenId> compressed(static_cast<std::size_t>(config.vocab_size));
    for (std::size_t i = 0; i < compressed.size(); ++i)
      compressed[i] = static_cast<TokenId>(i) % static_cast<TokenId>(config.engram->compressed_vocab_size);
    auto tables =
        std::make_shared<EngramTables>(stored_engram_tables(config, checkpoint), place, host_memory());
    return std::make_unique<EngramStore>(EngramHashes(config, std::move(compressed)), std::move(tables),
                                         kMaxTokens, host_memory(), host_memory());
  }
};

BenchTables& tables() {
  static BenchTables made;
  return made;
}

void fetch(benchmark::State& state, EngramPlace place, bool cold) {
  const std::unique_ptr<EngramStore> store = tables().store(place);
  std::mt19937 random(1);
  std::vector<TokenId> ids(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    state.PauseTiming();
    for (TokenId& id : ids) id = static_cast<TokenId>(random() % 129280);
    if (cold) tables().drop_pages();
    const std::vector<EngramRun> runs{{{}, ids}};
    state.ResumeTiming();
    store->begin(runs);
  }
  state.counters["reads/s"] = benchmark::Counter(
      2.0 * static_cast<double>(store->num_fetched() * state.iterations()), benchmark::Counter::kIsRate);
}

#define BALEEN_FETCH_BENCHMARK(name, ...)     \
  BENCHMARK_CAPTURE(fetch, name, __VA_ARGS__) \
      ->ArgName("tokens")                     \
      ->Arg(1)                                \
      ->Arg(6)                                \
      ->Arg(64)                               \
      ->Arg(kMaxTokens)                       \
      ->UseRealTime()                         \
      ->Unit(benchmark::kMicrosecond)

BALEEN_FETCH_BENCHMARK(disk, EngramPlace::kDisk, true);
BALEEN_FETCH_BENCHMARK(cached, EngramPlace::kDisk, false);
BALEEN_FETCH_BENCHMARK(memory, EngramPlace::kHost, false);

}  // namespace
}  // namespace baleen
