/// Ranks that are threads of one test, on as many GPUs as there are.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/local_communicator.h"
#include "comm/nccl/nccl_rank.h"
#include "comm/peer/peer_memory.h"
#include "cuda/cuda_graph.h"
#include "tests/support/gpus_of_ranks.h"
#include "tests/support/test_cuda.h"

namespace baleen::test {

/// NCCL for ranks that are threads of a test, each on a GPU of its own.
class NcclRanks {
 public:
  NcclRanks(const std::vector<int>& gpus, std::chrono::milliseconds longest_wait)
      : exchange_(longest_wait), ranks_(gpus.size()) {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      threads.emplace_back([&, i] {
        try {
          LocalCommunicator host(exchange_);
          ranks_[i] = std::make_unique<NcclRank>(gpus[i], static_cast<std::int64_t>(i), std::ssize(gpus),
                                                 host, longest_wait);
        } catch (const std::exception& error) {
          exchange_.stop(error.what());
          ADD_FAILURE() << "rank " << i << ": " << error.what();
        }
      });
    }
    threads.clear();
    for (const auto& rank : ranks_) peers_.push_back(rank ? PeerRank(*rank) : PeerRank());
  }
  ~NcclRanks() {
    std::vector<std::jthread> threads;  // they leave together
    for (auto& rank : ranks_) threads.emplace_back([&rank] { rank.reset(); });
  }
  NcclRanks(const NcclRanks&) = delete;
  NcclRanks& operator=(const NcclRanks&) = delete;

  [[nodiscard]] const PeerRank& rank(std::int64_t index) const {
    return peers_[static_cast<std::size_t>(index)];
  }

 private:
  LocalExchange exchange_;
  std::vector<std::unique_ptr<NcclRank>> ranks_;
  std::vector<PeerRank> peers_;
};

/// Joining takes a second: the cases of a test suite that is derived of this share what they joined.
class WithNccl : public testing::Test {
 protected:
  static void TearDownTestSuite() { nccl_.reset(); }
  /// Of two ranks.
  static const std::shared_ptr<const NcclRanks>& nccl() {
    if (!nccl_) nccl_ = std::make_shared<const NcclRanks>(gpus_of_ranks(2), std::chrono::seconds(30));
    return nccl_;
  }

 private:
  static inline std::shared_ptr<const NcclRanks> nccl_;
};

/// Why `count` ranks cannot exchange by NCCL here; empty: they can.
[[nodiscard]] inline std::string why_not_nccl_ranks(std::int64_t count) {
  if (count > num_gpus()) return "NCCL wants a GPU for each rank";
  return why_not_nccl_library();
}

class GpuRanks {
 public:
  explicit GpuRanks(std::int64_t count, std::chrono::milliseconds longest_wait = std::chrono::seconds(20),
                    std::int64_t scratch_bytes = std::int64_t{16} << 20)
      : scratch_bytes_(scratch_bytes),
        gpus_(gpus_of_ranks(count)),
        memory_(std::make_shared<const PeerMemory>(gpus_, longest_wait)),
        barrier_(count) {}
  /// Ranks that exchange by `nccl`, as many as it has; null: through peer memory.
  GpuRanks(std::int64_t count, std::shared_ptr<const NcclRanks> nccl)
      : gpus_(gpus_of_ranks(count)),
        memory_(nccl ? nullptr : std::make_shared<const PeerMemory>(gpus_, std::chrono::seconds(20))),
        nccl_(std::move(nccl)),
        barrier_(count) {}

  /// `work` of each rank, in a thread whose GPU is the rank's. What it throws is a failure of the test.
  void run(const std::function<void(TestCuda& cuda, const RankGroup& group)>& work) {
    std::vector<std::jthread> threads;
    const std::int64_t count = std::ssize(gpus_);
    for (std::int64_t rank = 0; rank < count; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          check_cuda(cudaSetDevice(gpus_[static_cast<std::size_t>(rank)]), "selecting the GPU");
          TestCuda cuda(scratch_bytes_);
          cuda.context().peers = &this->rank(rank);
          work(cuda, RankGroup::strided(0, 1, count, rank));
        } catch (const std::exception& error) {
          ADD_FAILURE() << "rank " << rank << ": " << error.what();
          barrier_.arrive_and_drop();
        }
      });
    }
  }

  /// For the threads of ranks: memory is allocated before any of them launches what waits for another.
  void meet() { barrier_.arrive_and_wait(); }
  [[nodiscard]] const PeerRank& rank(std::int64_t index) const {
    return nccl_ ? nccl_->rank(index) : memory_->rank(index);
  }

 private:
  std::int64_t scratch_bytes_ = std::int64_t{16} << 20;
  std::vector<int> gpus_;
  std::shared_ptr<const PeerMemory> memory_;
  std::shared_ptr<const NcclRanks> nccl_;
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
