#include "comm/meet.h"

#include <algorithm>

namespace baleen {

void meet_all(Communicator& communicator, const RankGroup& group) {
  static_cast<void>(tell_all(communicator, group, std::byte{}));
}

std::vector<std::int64_t> largest_of_all(Communicator& communicator, const RankGroup& group,
                                         const std::vector<std::int64_t>& own) {
  std::vector<std::vector<std::int64_t>> of_all(static_cast<std::size_t>(group.size()), own);
  const std::vector<std::span<const std::byte>> send(of_all.size(), std::as_bytes(std::span(own)));
  std::vector<std::span<std::byte>> receive;
  receive.reserve(of_all.size());
  for (std::vector<std::int64_t>& of_one : of_all)
    receive.push_back(std::as_writable_bytes(std::span(of_one)));
  communicator.exchange(group, send, receive);
  std::vector<std::int64_t> largest = own;
  for (const std::vector<std::int64_t>& of_one : of_all) {
    for (std::size_t i = 0; i < largest.size(); ++i) largest[i] = std::max(largest[i], of_one[i]);
  }
  return largest;
}

}  // namespace baleen
