/// Processes of one test as an `MpiWorld`: forked, with a pair of sockets between any two.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/mpi/mpi_world.h"

namespace baleen::test {

class SocketWorld final : public MpiWorld {
 public:
  /// `sockets[i]`: to rank i.
  SocketWorld(std::int64_t rank, std::vector<int> sockets);
  ~SocketWorld() override;

  [[nodiscard]] std::int64_t rank() const override { return rank_; }
  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(peers_.size()); }
  void start_send(std::int64_t to, int tag, std::span<const std::byte> bytes) override;
  void start_receive(std::int64_t from, int tag, std::span<std::byte> bytes) override;
  [[nodiscard]] std::int64_t test() override;
  [[nodiscard]] std::int64_t waiting_bytes(std::int64_t from, int tag) override;
  void finalize() override {}

 private:
  struct Message {
    int tag = 0;
    std::vector<std::byte> bytes;
  };
  struct Wanted {
    int tag;
    std::span<std::byte> to;
  };
  struct Sender;
  struct Peer {
    int socket = -1;
    std::unique_ptr<Sender> sender;
    std::vector<std::byte> read;  ///< of messages that are not whole
    std::deque<Message> come;
    std::deque<Wanted> wanted;
  };
  void receive(Peer& peer);

  std::mutex mutex_;  ///< guards what is below, but for `rank_`
  std::int64_t rank_;
  std::vector<Peer> peers_;
};

/// Runs `work` in so many forked processes; what any of them throws, or "" where none does. A process that
/// has nothing to do returns; one that takes two minutes is ended. The caller must not have used CUDA, nor
/// have threads.
[[nodiscard]] std::string run_processes(std::int64_t count,
                                        const std::function<void(const std::shared_ptr<MpiWorld>&)>& work);

}  // namespace baleen::test
