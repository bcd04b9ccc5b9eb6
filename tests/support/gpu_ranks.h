/// Ranks that are threads of one test, a GPU each.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <cstdint>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "comm/peer/peer_memory.h"
#include "cuda/cuda_graph.h"
#include "tests/support/test_cuda.h"

namespace baleen::test {

[[nodiscard]] inline int num_gpus() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

/// GPUs are used from the first on.
class GpuRanks {
 public:
  explicit GpuRanks(std::int64_t count, std::chrono::milliseconds longest_wait = std::chrono::seconds(20))
      : memory_(first_gpus(count), longest_wait), barrier_(count) {}

  /// `work` of each rank, in a thread whose GPU is the rank's. What it throws is a failure of the test.
  void run(const std::function<void(TestCuda& cuda, const RankGroup& group)>& work) {
    std::vector<std::jthread> threads;
    for (std::int64_t rank = 0; rank < memory_.num_ranks(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          check_cuda(cudaSetDevice(static_cast<int>(rank)), "selecting the GPU");
          TestCuda cuda(std::int64_t{16} << 20);
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
  static std::vector<int> first_gpus(std::int64_t count) {
    std::vector<int> gpus(static_cast<std::size_t>(count));
    std::iota(gpus.begin(), gpus.end(), 0);
    return gpus;
  }

  PeerMemory memory_;
  std::barrier<> barrier_;
};

/// `work` once as it is, then captured and replayed `replays` times.
inline void run_and_replay(TestCuda& cuda, const std::function<void()>& work, int replays) {
  work();
  cuda.synchronise();
  const CudaGraph graph(cuda.context().stream, work);
  for (int i = 0; i < replays; ++i) graph.launch(cuda.context().stream);
  cuda.synchronise();
}

}  // namespace baleen::test

/// First line of every test that needs `count` GPUs.
#define BALEEN_NEEDS_GPUS(count) \
  if (::baleen::test::num_gpus() < (count)) GTEST_SKIP() << "needs " << (count) << " GPUs"
