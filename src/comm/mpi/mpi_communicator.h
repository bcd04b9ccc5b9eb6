/// Ranks that are processes: messages through MPI, with waits that end.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/mpi/mpi_world.h"

namespace baleen {

/// One caller at a time.
class MpiCommunicator final : public Communicator {
 public:
  /// A wait ends after `longest_wait` with a sentence that names the rank which did not come.
  MpiCommunicator(std::shared_ptr<MpiWorld> world, std::chrono::milliseconds longest_wait)
      : world_(std::move(world)), longest_wait_(longest_wait) {}

  void exchange(const RankGroup& group, std::span<const std::span<const std::byte>> send,
                std::span<const std::span<std::byte>> receive) override;

  [[nodiscard]] MpiWorld& world() { return *world_; }

  /// Letters beside exchanges; `tag` from 1 on tells their kinds apart.
  void send(std::int64_t to, int tag, std::span<const std::byte> bytes);
  /// The next one from there. Without `limited` waits for ever, and lets the processor rest; `meanwhile`,
  /// where there is one, is called now and then.
  [[nodiscard]] std::vector<std::byte> receive(std::int64_t from, int tag, bool limited = true,
                                               const std::function<void()>& meanwhile = {});

  /// Ends the waits of all other ranks with `reason`; once.
  void stop_others(const std::string& reason);

 private:
  /// Until all that was started is done.
  void wait();
  /// Throws where another rank has ended all, or `other` is waited for since `begin` for too long.
  void check(std::int64_t other, std::chrono::steady_clock::time_point begin, bool limited);

  std::shared_ptr<MpiWorld> world_;
  std::chrono::milliseconds longest_wait_;
  std::string reason_;  ///< outlives its being sent
  bool stopped_ = false;
};

}  // namespace baleen
