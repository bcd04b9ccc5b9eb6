/// Ranks that wait for each other, and tell each other values on the way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "comm/communicator.h"

namespace baleen {

/// What each of the group tells, by place.
template <class T>
[[nodiscard]] std::vector<T> tell_all(Communicator& communicator, const RankGroup& group, const T& own) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(group.ranks.size());
  const std::vector<std::span<const std::byte>> send(all.size(), std::as_bytes(std::span(&own, 1)));
  std::vector<std::span<std::byte>> receive;
  receive.reserve(all.size());
  for (T& one : all) receive.push_back(std::as_writable_bytes(std::span(&one, 1)));
  communicator.exchange(group, send, receive);
  return all;
}

/// Returns when all of the group have called it: an exchange of a byte.
void meet_all(Communicator& communicator, const RankGroup& group);

/// Of each of `own` the largest that a rank of the group has; all of them call it with as many.
[[nodiscard]] std::vector<std::int64_t> largest_of_all(Communicator& communicator, const RankGroup& group,
                                                       const std::vector<std::int64_t>& own);

}  // namespace baleen
