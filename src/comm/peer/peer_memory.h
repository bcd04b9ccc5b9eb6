/// GPUs of one host that write into each other's memory: what collectives on them need. Plain peer access, no
/// multicast.
///
/// Where one process drives all GPUs an address of one is an address for all (`PeerMemory`). Ranks that are
/// processes open each other's memory by handle (peer_process.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/peer/peer_view.h"
#include "comm/rank_group.h"
#include "cuda/cuda_memory.h"

namespace baleen {

/// Whether kernels of GPU `gpu` can load and store the memory of GPU `other`.
[[nodiscard]] bool can_access_memory(int gpu, int other);

class NcclRank;
class PeerProcess;

/// Where packets lie until they are read.
enum class MessageMemory : std::uint8_t {
  kDevices,  ///< the memory of the GPU that reads them
  kHost      ///< pinned memory of the host, for GPUs without access to each other's: packets alone
};

/// One rank's end. Its functions are for the thread that drives the rank's GPU.
class PeerRank {
 public:
  PeerRank() = default;
  /// One whose messages go by NCCL, for ranks of several hosts: there is no view of the others. `nccl`
  /// outlives this.
  explicit PeerRank(const NcclRank& nccl);

  /// Null: messages go through peer memory.
  [[nodiscard]] const NcclRank* nccl() const { return nccl_; }
  [[nodiscard]] PeerView view(const RankGroup& group) const;
  /// Throws `Error` naming the rank for which a kernel has waited too long. The results of the step are then
  /// void, and nothing can be exchanged any more.
  void check() const;
  /// Lets ranks in other processes reach these pieces of the GPU's memory, all that messages lie in. All
  /// ranks call it, between allocating and the first message. Within a process there is nothing to do.
  void share(const CudaAllocations& allocations) const;
  /// Ranks of the service on this rank's GPU or, if that is more, on another: itself at least. What keeps a
  /// multiprocessor until other ranks or other blocks have done something takes this part of them at most.
  [[nodiscard]] std::int64_t sharing() const { return sharing_; }
  /// Messages lie in the host's memory: `PeerView::packets_only`.
  [[nodiscard]] bool packets_only() const { return place_ == MessageMemory::kHost; }
  [[nodiscard]] std::int64_t rank() const { return rank_; }
  [[nodiscard]] std::int64_t num_ranks() const;

 private:
  friend class PeerMemory;
  friend class PeerProcess;
  struct State {
    std::uint32_t counts[kMaxPeers][kMaxExchangeBlocks];
    std::uint32_t blocks_done;
    std::uint32_t failed;
    std::int32_t counters[kMaxPeerCounters];
    PeerRange ranges[kMaxPeers][kMaxPeerRanges];  ///< pieces of memory of ranks in other processes
  };
  /// Takes and clears the region, on the current GPU or of the host, of one of `num_ranks`.
  void open_region(std::int64_t num_ranks, MessageMemory place = MessageMemory::kDevices);
  void close_region() noexcept;
  /// Of the region of a rank: inboxes, staging and signals by sender.
  [[nodiscard]] uint4* inbox(std::int64_t sender) const;
  [[nodiscard]] std::byte* staging(std::int64_t sender) const;
  [[nodiscard]] PeerSignals* signals(std::int64_t sender) const;
  [[nodiscard]] State* state() const { return state_; }

  const std::vector<PeerRank>* all_ = nullptr;
  const NcclRank* nccl_ = nullptr;
  PeerProcess* process_ = nullptr;  ///< set where ranks are processes
  std::int64_t rank_ = 0;
  int gpu_ = 0;
  std::int64_t sharing_ = 1;
  std::int32_t max_blocks_ = kMaxExchangeBlocks;  ///< PeerView::max_blocks
  MessageMemory place_ = MessageMemory::kDevices;
  std::byte* region_ = nullptr;     ///< lies in the GPU's memory, or in the host's
  State* state_ = nullptr;          ///< lies in the GPU's memory
  PeerFailure* failure_ = nullptr;  ///< lies in the host's memory
  std::chrono::milliseconds longest_wait_{};
};

/// Owns the regions of all ranks.
class PeerMemory {
 public:
  /// Rank i runs on GPU `gpus[i]`. Ranks may share a GPU (comm/shared_gpus.h): that is for trying plans.
  /// Throws `Error` where two GPUs have no access to each other's memory, and messages are to lie there.
  /// Takes 34 MiB for each rank on every rank's GPU, or of the host.
  PeerMemory(std::span<const int> gpus, std::chrono::milliseconds longest_wait,
             MessageMemory place = MessageMemory::kDevices);
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;
  ~PeerMemory();

  [[nodiscard]] const PeerRank& rank(std::int64_t index) const {
    return ranks_[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] std::int64_t num_ranks() const { return static_cast<std::int64_t>(ranks_.size()); }

 private:
  void connect(std::span<const int> gpus) const;
  void release() noexcept;

  std::vector<PeerRank> ranks_;
};

}  // namespace baleen
