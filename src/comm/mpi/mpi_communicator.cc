#include "comm/mpi/mpi_communicator.h"

#include <algorithm>
#include <thread>

#include "base/check.h"
#include "base/error.h"

namespace baleen {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kExchangeTag = 0;
constexpr int kStopTag = 32;
// Others share the processors: after some tries a wait lets them run, and one for the next call sleeps.
constexpr int kTriesBetweenChecks = 64;
constexpr auto kRest = std::chrono::microseconds(200);
constexpr auto kAwakeFor = std::chrono::milliseconds(2);

}  // namespace

void MpiCommunicator::check(std::int64_t other, Clock::time_point begin, bool limited) {
  for (std::int64_t rank = 0; rank < world_->size(); ++rank) {
    if (rank == world_->rank()) continue;
    const std::int64_t size = world_->waiting_bytes(rank, kStopTag);
    if (size < 0) continue;
    std::string reason(static_cast<std::size_t>(size), ' ');
    world_->start_receive(rank, kStopTag, std::as_writable_bytes(std::span(reason)));
    stopped_ = true;  // the rank that said it says it to the others too
    fail("{}", reason);
  }
  if (limited && Clock::now() - begin > longest_wait_) {
    fail("rank {} waited {} ms for rank {}, which did not come; it may have ended or be stuck",
         world_->rank(), longest_wait_.count(), other);
  }
}

void MpiCommunicator::wait() {
  const Clock::time_point begin = Clock::now();
  for (int tries = 1;; ++tries) {
    const std::int64_t other = world_->test();
    if (other < 0) return;
    if (tries % kTriesBetweenChecks != 0) continue;
    check(other, begin, true);
    std::this_thread::yield();
  }
}

void MpiCommunicator::exchange(const RankGroup& group, std::span<const std::span<const std::byte>> send,
                               std::span<const std::span<std::byte>> receive) {
  BALEEN_CHECK(std::ssize(send) == group.size() && std::ssize(receive) == group.size());
  const auto place = static_cast<std::size_t>(group.place);
  BALEEN_CHECK_EQ(send[place].size(), receive[place].size());
  if (send[place].data() != receive[place].data()) std::ranges::copy(send[place], receive[place].begin());
  for (std::size_t i = 0; i < group.ranks.size(); ++i) {
    if (i != place) world_->start_receive(group.ranks[i], kExchangeTag, receive[i]);
  }
  for (std::size_t i = 0; i < group.ranks.size(); ++i) {
    if (i != place) world_->start_send(group.ranks[i], kExchangeTag, send[i]);
  }
  wait();
}

void MpiCommunicator::send(std::int64_t to, int tag, std::span<const std::byte> bytes) {
  world_->start_send(to, tag, bytes);
  wait();
}

std::vector<std::byte> MpiCommunicator::receive(std::int64_t from, int tag, bool limited,
                                                const std::function<void()>& meanwhile) {
  const Clock::time_point begin = Clock::now();
  std::int64_t size = -1;
  while ((size = world_->waiting_bytes(from, tag)) < 0) {
    check(from, begin, limited);
    if (meanwhile) meanwhile();
    if (Clock::now() - begin > kAwakeFor) {
      std::this_thread::sleep_for(kRest);
    } else {
      std::this_thread::yield();
    }
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  world_->start_receive(from, tag, bytes);
  wait();
  return bytes;
}

void MpiCommunicator::stop_others(const std::string& reason) {
  if (std::exchange(stopped_, true)) return;
  reason_ = reason;
  for (std::int64_t rank = 0; rank < world_->size(); ++rank) {
    if (rank != world_->rank()) world_->start_send(rank, kStopTag, std::as_bytes(std::span(reason_)));
  }
}

}  // namespace baleen
