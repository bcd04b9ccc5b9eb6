// Rows of steps on a GPU, from its own memory, the host's and disk: the bits that a CPU reads from the map.
#include "engram/engram_store.h"

#include <gtest/gtest.h>

#include "cuda/cuda_memory.h"
#include "ops/engram/cuda/engram.h"
#include "tests/engram/small_tables.h"
#include "tests/support/compare.h"
#include "tests/support/test_cuda.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr std::int64_t kMaxRows = 40, kWidth = 24 * 256;

/// V4.1's rows and hashes, a thousand rows for each.
ModelConfig config_with_wide_rows() {
  ModelConfig config = test::small_engram_config();
  EngramConfig& engram = *config.engram;
  engram.n_heads = 8;
  engram.head_dim = 256;
  engram.vocab_size = 1000;
  engram.num_embeddings.clear();
  for (const EngramTable& table : engram_tables(engram)) engram.num_embeddings.push_back(table.num_rows());
  return config;
}

TEST(EngramStoreOnGpu, ReadsFromEveryPlaceWhatTheMapHas) {
  BALEEN_NEEDS_GPU();
  const test::SmallTables small(config_with_wide_rows());
  const Checkpoint checkpoint(small.folder());
  const std::vector<StoredEngramTable> stored = stored_engram_tables(small.config, checkpoint);
  const auto hashes = [&] { return EngramHashes(small.config, test::small_compressed_ids()); };
  EngramStore mapped(hashes(), std::make_shared<EngramTables>(stored, EngramPlace::kMapped, host_memory()),
                     kMaxRows, host_memory(), host_memory());
  const std::vector<TokenId> ids{5, 9, 31, 7, 5, 5, 1, 0, 30, 4, 3, 3, 8, 1, 9, 5, 9, 31, 7, 5};
  const auto steps = [&](std::size_t begin, std::size_t end) {
    return std::vector<EngramRun>{{std::span(ids).first(begin), std::span(ids).subspan(begin, end - begin)}};
  };
  for (const EngramPlace place : {EngramPlace::kDevice, EngramPlace::kHost, EngramPlace::kDisk}) {
    test::TestCuda cuda;
    CudaPinnedMemory pinned;
    Memory& memory = place == EngramPlace::kHost ? static_cast<Memory&>(pinned) : cuda.memory();
    EngramStore store(hashes(), std::make_shared<EngramTables>(stored, place, memory), kMaxRows,
                      cuda.memory(), pinned);
    auto* const z = cuda.allocate<Bf16Bits>(kMaxRows * kWidth);
    for (const auto& [begin, end] : {std::pair<std::size_t, std::size_t>{0, 12}, {12, 13}, {13, 20}}) {
      store.begin(steps(begin, end));
      if (end < ids.size()) store.prefetch(steps(end, end + 1));  // while kernels run
      mapped.begin(steps(begin, end));
      const auto count = static_cast<std::int64_t>(end - begin);
      for (const std::int64_t table : {0, 1}) {
        // With the rows of padding that a captured step would have.
        BALEEN_ARCH::engram_lookup(store.lookup(table, 0, kMaxRows, View<Bf16Bits, 2>(z, {kMaxRows, kWidth})),
                                   cuda.context());
        cuda.synchronise();
        std::vector<float> want(static_cast<std::size_t>(count * kWidth));
        engram_lookup_ref(mapped.lookup(table, 0, count, {want.data(), {count, kWidth}}));
        EXPECT_CLOSE(cuda.download_bf16(z, count * kWidth), want, {})
            << engram_place_name(place) << ", table " << table << ", from token " << begin;
      }
    }
  }
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
