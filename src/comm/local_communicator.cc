#include "comm/local_communicator.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"

namespace baleen {

void LocalExchange::stop(const std::string& reason) {
  const std::scoped_lock lock(mutex_);
  if (stopped_.empty()) stopped_ = reason;
  changed_.notify_all();
}

template <class Done>
void LocalExchange::wait(std::unique_lock<std::mutex>& lock, std::int64_t rank, std::int64_t other,
                         const Done& done) {
  const bool in_time = changed_.wait_for(lock, longest_wait_, [&] { return !stopped_.empty() || done(); });
  if (!stopped_.empty()) fail("rank {} ends: {}", rank, stopped_);
  if (!in_time) {
    fail("rank {} waited {} ms for rank {}, which did not come; it may have ended or be stuck", rank,
         longest_wait_.count(), other);
  }
}

void LocalExchange::exchange(const RankGroup& group, std::span<const std::span<const std::byte>> send,
                             std::span<const std::span<std::byte>> receive) {
  BALEEN_CHECK(std::ssize(send) == group.size() && std::ssize(receive) == group.size());
  const std::int64_t rank = group.rank();
  const auto place = static_cast<std::size_t>(group.place);
  BALEEN_CHECK_EQ(send[place].size(), receive[place].size());
  if (send[place].data() != receive[place].data()) std::ranges::copy(send[place], receive[place].begin());
  std::unique_lock lock(mutex_);
  try {
    exchange(lock, group, send, receive);
  } catch (...) {
    // The arrays go with the failed rank: others must not find them.
    std::erase_if(offered_, [&](const auto& offer) { return offer.first.first == rank; });
    throw;
  }
}

void LocalExchange::exchange(std::unique_lock<std::mutex>& lock, const RankGroup& group,
                             std::span<const std::span<const std::byte>> send,
                             std::span<const std::span<std::byte>> receive) {
  const std::int64_t rank = group.rank();
  const auto place = static_cast<std::size_t>(group.place);
  for (std::size_t i = 0; i < group.ranks.size(); ++i) {
    if (i != place) offered_.emplace(Pair{rank, group.ranks[i]}, send[i]);
  }
  changed_.notify_all();
  for (std::size_t i = 0; i < group.ranks.size(); ++i) {
    if (i == place) continue;
    const std::int64_t other = group.ranks[i];
    const Pair pair{other, rank};
    wait(lock, rank, other, [&] { return offered_.contains(pair); });
    const std::span<const std::byte> from = offered_.at(pair);
    if (from.size() != receive[i].size()) {
      fail("rank {} sends {} bytes to rank {}, which expects {}: they run different plans or batches", other,
           from.size(), rank, receive[i].size());
    }
    std::ranges::copy(from,
                      receive[i].begin());  // under the lock: a sender that fails takes its arrays along
    offered_.erase(pair);
    changed_.notify_all();
  }
  for (std::size_t i = 0; i < group.ranks.size(); ++i) {
    if (i == place) continue;
    wait(lock, rank, group.ranks[i], [&] { return !offered_.contains({rank, group.ranks[i]}); });
  }
}

}  // namespace baleen
