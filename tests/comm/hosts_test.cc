// Which ranks are on one host.
#include "comm/hosts.h"

#include <gtest/gtest.h>

#include <string_view>
#include <thread>

#include "comm/local_communicator.h"

namespace baleen {
namespace {

HostIdentity named(std::string_view name) {
  HostIdentity identity;
  std::ranges::copy(name, identity.bytes.begin());
  return identity;
}

/// What every rank finds out, of ranks on hosts of these names.
std::vector<std::vector<std::int64_t>> found(const std::vector<std::string_view>& names) {
  LocalExchange exchange{std::chrono::seconds(20)};
  std::vector<std::vector<std::int64_t>> hosts(names.size());
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < names.size(); ++rank) {
    threads.emplace_back([&, rank] {
      LocalCommunicator communicator(exchange);
      const auto count = static_cast<std::int64_t>(names.size());
      hosts[rank] = hosts_of_ranks(
          communicator, RankGroup::strided(0, 1, count, static_cast<std::int64_t>(rank)), named(names[rank]));
    });
  }
  threads.clear();
  return hosts;
}

TEST(Hosts, AreNumberedByTheirFirstRank) {
  using Numbers = std::vector<std::int64_t>;
  for (const Numbers& hosts : found({"b", "b", "a", "a"})) EXPECT_EQ(hosts, (Numbers{0, 0, 1, 1}));
  for (const Numbers& hosts : found({"b", "a", "b"})) EXPECT_EQ(hosts, (Numbers{0, 1, 0}));
  for (const Numbers& hosts : found({"c"})) EXPECT_EQ(hosts, (Numbers{0}));
}

TEST(Hosts, AProcessHasOneIdentity) {
  EXPECT_EQ(host_identity(), host_identity());
  EXPECT_NE(host_identity(), HostIdentity());
}

}  // namespace
}  // namespace baleen
