/// A rank on a GPU whose other ranks are processes of the same host: they open each other's memory by handle.
///
///     rank 0                                      rank 1
///     region, arrays ──handles, by the host──►    opened: other addresses, the same bytes
///     tells an array's address in an exchange     finds it among rank 0's ranges, adds the distance
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "comm/peer/peer_memory.h"

namespace baleen {

class PeerProcess {
 public:
  /// Rank `rank` of `num_ranks`, on GPU `gpu`, which becomes the thread's current one. All ranks make one at
  /// the same time. Throws `Error` where they are on several hosts, share a GPU or have no access to each
  /// other's. Memory as of a rank of `PeerMemory`. `host`: to the others; outlives this.
  PeerProcess(int gpu, std::int64_t rank, std::int64_t num_ranks, Communicator& host,
              std::chrono::milliseconds longest_wait);
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;
  ~PeerProcess();

  [[nodiscard]] const PeerRank& rank() const { return ranks_[static_cast<std::size_t>(rank_)]; }

  /// `PeerRank::share`.
  void share(const CudaAllocations& allocations);
  /// Gives the others' memory back: all ranks, when nothing runs any more and before they free their own.
  void close();

 private:
  struct Introduction;
  struct SharedRanges;
  [[nodiscard]] RankGroup everybody() const { return RankGroup::strided(0, 1, std::ssize(ranks_), rank_); }
  void check_others(const std::vector<Introduction>& all) const;
  [[nodiscard]] std::byte* open(const void* handle);
  void close_others() noexcept;

  std::vector<PeerRank> ranks_;  ///< ranks as seen from here; others have their regions alone, as opened
  std::int64_t rank_;
  int gpu_;
  Communicator& host_;
  std::vector<std::byte*> opened_;
};

}  // namespace baleen
