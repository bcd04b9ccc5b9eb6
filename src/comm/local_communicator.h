/// Ranks that are threads of one process: a message is a copy out of the sender's array.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "comm/communicator.h"

namespace baleen {

/// What the ranks of a process share. Thread-safe.
class LocalExchange {
 public:
  explicit LocalExchange(std::chrono::milliseconds longest_wait) : longest_wait_(longest_wait) {}

  /// Ends every wait of every rank, now and later, with `reason`.
  void stop(const std::string& reason);

  /// `Communicator::exchange` of one rank.
  void exchange(const RankGroup& group, std::span<const std::span<const std::byte>> send,
                std::span<const std::span<std::byte>> receive);

 private:
  using Pair = std::pair<std::int64_t, std::int64_t>;  ///< sender, receiver
  /// The same behind the lock.
  void exchange(std::unique_lock<std::mutex>& lock, const RankGroup& group,
                std::span<const std::span<const std::byte>> send,
                std::span<const std::span<std::byte>> receive);
  /// Waits until `done`, with the mutex held.
  template <class Done>
  void wait(std::unique_lock<std::mutex>& lock, std::int64_t rank, std::int64_t other, const Done& done);

  std::chrono::milliseconds longest_wait_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Pair, std::span<const std::byte>> offered_;  ///< not taken yet
  std::string stopped_;                                 ///< why; empty: it is not
};

/// One rank's end of it. `exchange` outlives this.
class LocalCommunicator final : public Communicator {
 public:
  explicit LocalCommunicator(LocalExchange& exchange) : exchange_(exchange) {}
  void exchange(const RankGroup& group, std::span<const std::span<const std::byte>> send,
                std::span<const std::span<std::byte>> receive) override {
    exchange_.exchange(group, send, receive);
  }

 private:
  LocalExchange& exchange_;
};

}  // namespace baleen
