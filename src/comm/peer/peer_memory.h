/// GPUs of one host that write into each other's memory: what collectives on them need. Plain peer access, no
/// multicast.
///
/// One process drives all GPUs here, so an address of one is an address for all; ranks of several processes
/// would open each other's regions by handle and fill the same `PeerView`.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/peer/peer_view.h"
#include "comm/rank_group.h"

namespace baleen {

/// One rank's end. Its functions are for the thread that drives the rank's GPU.
class PeerRank {
 public:
  [[nodiscard]] PeerView view(const RankGroup& group) const;
  /// Throws `Error` naming the rank for which a kernel has waited too long. The results of the step are then
  /// void, and nothing can be exchanged any more.
  void check() const;

 private:
  friend class PeerMemory;
  struct State {
    std::uint32_t counts[kMaxPeers][kMaxExchangeBlocks];
    std::uint32_t blocks_done;
    std::uint32_t failed;
  };
  /// Of the region of a rank: inboxes, staging and signals by sender, then the state.
  [[nodiscard]] uint4* inbox(std::int64_t sender) const;
  [[nodiscard]] std::byte* staging(std::int64_t sender) const;
  [[nodiscard]] PeerSignals* signals(std::int64_t sender) const;
  [[nodiscard]] State* state() const;

  const std::vector<PeerRank>* all_ = nullptr;
  std::int64_t rank_ = 0;
  int gpu_ = 0;
  std::byte* region_ = nullptr;     ///< in the GPU's memory
  PeerFailure* failure_ = nullptr;  ///< in the host's
  std::chrono::milliseconds longest_wait_{};
};

/// Owns the regions of all ranks.
class PeerMemory {
 public:
  /// Rank i runs on GPU `gpus[i]`, a GPU each. Throws `Error` where two of them have no access to each
  /// other's memory. Takes 34 MiB for each rank on every GPU.
  PeerMemory(std::span<const int> gpus, std::chrono::milliseconds longest_wait);
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
