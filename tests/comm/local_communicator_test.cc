#include "comm/local_communicator.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "base/error.h"

namespace baleen {
namespace {

using Bytes = std::vector<std::byte>;

/// What member `from` of a group sends to member `to` in round `round`: as many bytes as their sum, perhaps
/// none.
Bytes message(std::int64_t from, std::int64_t to, int round) {
  return Bytes(static_cast<std::size_t>(from + 2 * to + round),
               static_cast<std::byte>(16 * from + to + round));
}

void exchange_rounds(LocalExchange& exchange, const RankGroup& group, int num_rounds) {
  LocalCommunicator communicator(exchange);
  for (int round = 0; round < num_rounds; ++round) {
    std::vector<Bytes> sent, arrived;
    std::vector<std::span<const std::byte>> send;
    std::vector<std::span<std::byte>> receive;
    for (std::int64_t i = 0; i < group.size(); ++i) {
      sent.push_back(message(group.place, i, round));
      arrived.emplace_back(message(i, group.place, round).size());
    }
    for (std::size_t i = 0; i < sent.size(); ++i) {
      send.emplace_back(sent[i]);
      receive.emplace_back(arrived[i]);
    }
    communicator.exchange(group, send, receive);
    for (std::int64_t i = 0; i < group.size(); ++i)
      EXPECT_EQ(arrived[static_cast<std::size_t>(i)], message(i, group.place, round)) << "round " << round;
  }
}

TEST(LocalCommunicator, EveryMemberGetsWhatEachOtherSent) {
  LocalExchange exchange(std::chrono::seconds(60));
  std::vector<std::jthread> threads;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] { exchange_rounds(exchange, RankGroup::strided(0, 1, 4, rank), 50); });
  }
}

TEST(LocalCommunicator, GroupsDoNotMeet) {
  LocalExchange exchange(std::chrono::seconds(60));
  std::vector<std::jthread> threads;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      exchange_rounds(exchange, RankGroup::strided(rank % 2, 2, 2, rank), static_cast<int>(10 + rank % 2));
      exchange_rounds(exchange, RankGroup::strided(rank / 2 * 2, 1, 2, rank), 10);
    });
  }
}

std::string failure_of(LocalExchange& exchange, std::int64_t rank, std::size_t num_bytes) {
  const RankGroup group = RankGroup::strided(0, 1, 2, rank);
  const Bytes sent(num_bytes), own;
  Bytes arrived(num_bytes);
  std::vector<std::span<const std::byte>> send(2, own);
  std::vector<std::span<std::byte>> receive(2);
  send[static_cast<std::size_t>(1 - rank)] = sent;
  receive[static_cast<std::size_t>(1 - rank)] = arrived;
  try {
    LocalCommunicator(exchange).exchange(group, send, receive);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(LocalCommunicator, AMissingRankEndsTheWait) {
  LocalExchange exchange(std::chrono::milliseconds(20));
  EXPECT_NE(failure_of(exchange, 0, 8).find("waited 20 ms for rank 1"), std::string::npos);
}

TEST(LocalCommunicator, AFailedRankEndsTheOthers) {
  LocalExchange exchange(std::chrono::seconds(60));
  std::string said;
  {
    const std::jthread waits([&] { said = failure_of(exchange, 0, 8); });
    exchange.stop("rank 1: the checkpoint is damaged");
  }
  EXPECT_NE(said.find("rank 0 ends: rank 1: the checkpoint is damaged"), std::string::npos) << said;
}

TEST(LocalCommunicator, OtherSizesAreNamed) {
  LocalExchange exchange(std::chrono::seconds(60));
  std::string said;
  {
    const std::jthread other([&] {
      if (!failure_of(exchange, 1, 12).empty()) exchange.stop("rank 1 ended");
    });
    said = failure_of(exchange, 0, 8);
    if (!said.empty()) exchange.stop("rank 0 ended");
  }
  EXPECT_TRUE(said.find("12 bytes") != std::string::npos || said.find("rank 1 ended") != std::string::npos)
      << said;
}

}  // namespace
}  // namespace baleen
