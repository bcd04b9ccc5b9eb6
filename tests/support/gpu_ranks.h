/// Ranks that are threads of one test, on as many GPUs as there are.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "comm/peer/peer_memory.h"
#include "cuda/cuda_graph.h"
#include "tests/support/test_cuda.h"

namespace baleen::test {

[[nodiscard]] inline int num_gpus() {
  static const bool kPrepared = (prepare_shared_gpus(), true);
  static_cast<void>(kPrepared);
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

/// Of `count` ranks: all GPUs in turn, so that ranks share them where there are fewer.
[[nodiscard]] inline std::vector<int> gpus_of_ranks(std::int64_t count) {
  std::vector<int> gpus;
  for (std::int64_t rank = 0; rank < count; ++rank) gpus.push_back(static_cast<int>(rank % num_gpus()));
  return gpus;
}

class GpuRanks {
 public:
  explicit GpuRanks(std::int64_t count, std::chrono::milliseconds longest_wait = std::chrono::seconds(20),
                    std::int64_t scratch_bytes = std::int64_t{16} << 20)
      : scratch_bytes_(scratch_bytes),
        gpus_(gpus_of_ranks(count)),
        memory_(gpus_, longest_wait),
        barrier_(count) {}

  /// `work` of each rank, in a thread whose GPU is the rank's. What it throws is a failure of the test.
  void run(const std::function<void(TestCuda& cuda, const RankGroup& group)>& work) {
    std::vector<std::jthread> threads;
    for (std::int64_t rank = 0; rank < memory_.num_ranks(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          check_cuda(cudaSetDevice(gpus_[static_cast<std::size_t>(rank)]), "selecting the GPU");
          TestCuda cuda(scratch_bytes_);
          cuda.context().peers = &memory_.rank(rank);
          work(cuda, RankGroup::strided(0, 1, memory_.num_ranks(), rank));
        } catch (const std::exception& error) {
          ADD_FAILURE() << "rank " << rank << ": " << error.what();
          barrier_.arrive_and_drop();
        }
      });
    }
  }

  /// For the threads of ranks: memory is allocated before any of them launches what waits for another.
  void meet() { barrier_.arrive_and_wait(); }
  [[nodiscard]] const PeerRank& rank(std::int64_t index) const { return memory_.rank(index); }

 private:
  std::int64_t scratch_bytes_;
  std::vector<int> gpus_;
  PeerMemory memory_;
  std::barrier<> barrier_;
};

/// `work` once as it is, then captured and replayed `replays` times.
inline void run_and_replay(TestCuda& cuda, GpuRanks& ranks, const std::function<void()>& work, int replays) {
  work();
  cuda.synchronise();
  ranks.meet();
  const CudaGraph graph(cuda.context().stream, work);
  graph.upload(cuda.context().stream);
  cuda.synchronise();
  ranks.meet();
  for (int i = 0; i < replays; ++i) graph.launch(cuda.context().stream);
  cuda.synchronise();
  ranks.meet();
}

}  // namespace baleen::test

/// First line of every test that needs `count` GPUs.
#define BALEEN_NEEDS_GPUS(count) \
  if (::baleen::test::num_gpus() < (count)) GTEST_SKIP() << "needs " << (count) << " GPUs"
