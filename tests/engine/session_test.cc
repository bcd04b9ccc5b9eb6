// How much of each prompt a long agent session finds again, turn by turn, while others press on the window
// pages.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/engine/sequence_world.h"

namespace baleen {
namespace {

constexpr int kTurns = 40;

/// One agent: every prompt is its history and something new. Now and then it tries something that it drops
/// again: a branch from some turns ago.
class Session {
 public:
  Session(test::World& world, std::uint32_t seed) : world_(world), random_(seed) {
    history_ = test::drawn_tokens(2000, seed);  // instructions and tools
    ends_.push_back(history_.size());
  }

  void turn(int number) {
    if (number % 5 == 4) {
      std::vector<TokenId> branch(history_.begin(),
                                  history_.begin() + static_cast<std::ptrdiff_t>(*(ends_.end() - 3)));
      static_cast<void>(reply(branch, branch_rates));
    }
    history_ = reply(history_, rates);
    ends_.push_back(history_.size());
  }

  std::vector<double> rates, branch_rates;  ///< share of each prompt that was found

 private:
  /// A request of `tokens` and 100 to 500 new ones, answered by 50 to 250; returns all of them.
  std::vector<TokenId> reply(std::vector<TokenId> tokens, std::vector<double>& found) {
    append(tokens, 100 + random_() % 400);
    const SequenceId id = *world_.table.open(tokens);
    found.push_back(static_cast<double>(world_.table.length(id)) / static_cast<double>(tokens.size()));
    world_.feed(id, tokens, 512, false);
    append(tokens, 50 + random_() % 200);
    for (auto at = static_cast<std::size_t>(world_.table.length(id)); at < tokens.size(); ++at) {
      EXPECT_TRUE(world_.step(id, std::span(tokens).subspan(at, 1)));
    }
    world_.table.close(id, true);
    return tokens;
  }
  void append(std::vector<TokenId>& tokens, std::size_t count) {
    const std::vector<TokenId> more = test::drawn_tokens(count, static_cast<std::uint32_t>(random_()));
    tokens.insert(tokens.end(), more.begin(), more.end());
  }

  test::World& world_;
  std::mt19937 random_;
  std::vector<TokenId> history_;
  std::vector<std::size_t> ends_;
};

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Two sessions take turns; single requests come in between.
std::vector<Session> replay(std::int64_t reserved_tails, int others_a_turn) {
  test::World world({.num_pages = 1000, .num_window_pages = 24, .num_state_slots = 2}, true, reserved_tails);
  std::vector<Session> sessions{{world, 1}, {world, 2}};
  std::uint32_t seed = 100;
  for (int turn = 0; turn < kTurns; ++turn) {
    for (Session& session : sessions) {
      session.turn(turn);
      for (int i = 0; i < others_a_turn; ++i) {
        const std::vector<TokenId> prompt = test::drawn_tokens(1500, seed++);
        const SequenceId id = *world.table.open(prompt);
        world.feed(id, prompt, 512, false);
        world.table.close(id, true);
      }
    }
  }
  return sessions;
}

TEST(AgentSession, FindsItsHistoryUnderPressure) {
  constexpr int kOthers = 4;
  const std::vector<Session> plain = replay(0, kOthers), reserved = replay(16, kOthers);
  fmt::print("share of each prompt found in the cache\nturn   no reserve   16 tails reserved\n");
  for (std::size_t turn = 0; turn < kTurns; ++turn) {
    fmt::print("{:4}{:12.0f} %{:17.0f} %\n", turn, 100 * plain[0].rates[turn], 100 * reserved[0].rates[turn]);
  }
  fmt::print("mean{:12.0f} %{:17.0f} %\nbranches{:8.0f} %{:17.0f} %\n", 100 * mean(plain[0].rates),
             100 * mean(reserved[0].rates), 100 * mean(plain[0].branch_rates),
             100 * mean(reserved[0].branch_rates));
  // The price: branch points in the middle go first.
  EXPECT_GT(mean(plain[0].rates), 0.8);
  EXPECT_GT(mean(reserved[0].rates), 0.9);
  EXPECT_GT(mean(plain[0].branch_rates), mean(reserved[0].branch_rates));
}

}  // namespace
}  // namespace baleen
