/// One rank's end of NCCL: bytes between GPUs of any hosts. One communicator has all ranks of the service;
/// groups of them exchange by its sends and receives, so no sum is ever in NCCL's order.
///
///     host          exchange ──queues──►  count begun │ sends, receives │ count ended        on the stream
///     watch thread  begun, ended in pinned memory: one that does not end in time, or an error of NCCL's own,
///                   aborts the communicator, so that what waits on the GPU ends; check() then throws
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>

#include "comm/communicator.h"
#include "comm/nccl/nccl_library.h"

namespace baleen {

/// Exchanges that a stream has begun and ended, as kernels count them.
struct ExchangeCounts {
  std::uint32_t* in_gpu = nullptr;   ///< [2]
  std::uint32_t* in_host = nullptr;  ///< [2] pinned: the same, for the host to read
};

class NcclRank {
 public:
  /// Rank `rank` of `num_ranks`, on GPU `gpu`, which becomes the thread's current one. All ranks make one at
  /// the same time; `host` leads to the others meanwhile. When it returns all connections are made and NCCL
  /// has the memory that it wants, besides `kBufferBytes` here. Throws `Error` where there is no NCCL, where
  /// ranks have different versions of it or share a GPU, and for a rank that does not come in time.
  NcclRank(int gpu, std::int64_t rank, std::int64_t num_ranks, Communicator& host,
           std::chrono::milliseconds longest_wait);
  NcclRank(const NcclRank&) = delete;
  NcclRank& operator=(const NcclRank&) = delete;
  /// After graphs that have exchanges in them: NCCL waits for their end.
  ~NcclRank();

  /// Queues on `stream` what `Communicator::exchange` does, but for the rank's own part. Between kernels that
  /// count (`counts`). Throws as `check`.
  void exchange(const RankGroup& group, std::span<const std::span<const std::byte>> send,
                std::span<const std::span<std::byte>> receive, CUstream_st* stream) const;

  /// Throws `Error` once the ranks have lost each other: one did not come in time, or NCCL reports an error.
  /// The results of the step are then void, and nothing can be exchanged any more.
  void check() const;

  [[nodiscard]] std::int64_t rank() const { return rank_; }
  [[nodiscard]] std::int64_t num_ranks() const { return num_ranks_; }
  [[nodiscard]] ExchangeCounts counts() const;
  /// GPU memory for what arrives before kernels take it, of one exchange at a time.
  static constexpr std::int64_t kBufferBytes = std::int64_t{64} << 20;
  [[nodiscard]] std::byte* buffer() const;

  /// Of all ranks, numbered as in the service.
  [[nodiscard]] NcclLibrary::Comm comm() const;
  [[nodiscard]] const NcclLibrary& library() const { return library_; }

 private:
  /// What the thread that joins needs, which is left behind when it hangs.
  struct Joined;
  void join(Communicator& host);
  /// Until the exchange under way has ended, if there is one.
  void watch(const std::stop_token& stop);
  void lose(const std::string& why);
  void release() noexcept;

  const NcclLibrary& library_;
  int gpu_;
  std::int64_t rank_, num_ranks_;
  std::chrono::milliseconds longest_wait_;
  std::shared_ptr<Joined> joined_;
  mutable std::timed_mutex calls_;  ///< while an exchange is queued
  std::atomic<bool> lost_ = false;
  std::string why_lost_;  ///< written before `lost_` is
  std::jthread watch_;
};

}  // namespace baleen
