// Bounded replay through the whole server: what it says of itself, and replies that depend neither on pieces
// of their prompts, on requests beside them, on drafts nor on what was cached.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/server/running_server.h"
#include "tests/support/random_checkpoint.h"

namespace baleen {
namespace {

using Json = nlohmann::json;
using test::RunningServer;
using test::RunningServerOptions;

const test::RandomCheckpoint& checkpoint() {
  static const test::RandomCheckpoint made(preset_config("tiny-v41"), 5, "models/stories");
  return made;
}

RunningServerOptions options(std::int64_t chunk, std::int64_t drafts, bool prefix_cache) {
  RunningServerOptions some;
  some.model = checkpoint().path();
  some.engine.max_batch_tokens = chunk;
  some.engine.prefix_cache = prefix_cache;
  some.engine.bounded_replay_tokens = 128;
  some.scheduler.max_batch_tokens = chunk;
  some.scheduler.speculate = drafts;
  return some;
}

/// Some hundred tokens that begin as those of every other one.
std::string prompt(int number) {
  std::string text;
  for (int i = 0; i < 50 + 7 * number; ++i)
    text += fmt::format("The {}. whale swam to the blue sea. ", i % 17);
  return text + fmt::format("Then number {} came.", number);
}

std::string reply(RunningServer& server, int number) {
  const Json json =
      server.ask("/v1/completions",
                 {{"model", "stories"}, {"prompt", prompt(number)}, {"max_tokens", 12}, {"temperature", 0}});
  return json["choices"][0]["text"].dump() + json["usage"]["completion_tokens"].dump();
}

TEST(BoundedReplayServer, RepliesAreThoseOfThePromptsAlone) {
  std::vector<std::string> want;
  {
    RunningServer plain(options(600, 0, false));
    for (int i = 0; i < 4; ++i) want.push_back(reply(plain, i));
  }
  RunningServer server(options(96, 3, true));
  for (int round = 0; round < 2; ++round) {
    std::vector<std::future<std::string>> replies;
    for (int i = 0; i < 4; ++i)
      replies.push_back(std::async(std::launch::async, [&server, i] { return reply(server, i); }));
    for (std::size_t i = 0; i < replies.size(); ++i) EXPECT_EQ(replies[i].get(), want[i]) << i;
  }
  EXPECT_GT(server.stats()["scheduler"]["cached_tokens"], 0);
  EXPECT_GT(server.stats()["scheduler"]["drafted_tokens"], 0);
}

TEST(BoundedReplayServer, SaysThatItIsOn) {
  RunningServer server(options(600, 0, true));
  EXPECT_EQ(server.stats()["model"]["bounded_replay"], 128);
  EXPECT_EQ(Json::parse(server.get("/v1/models").body)["data"][0]["bounded_replay"], 128);
  RunningServer exact;
  EXPECT_EQ(exact.stats()["model"]["bounded_replay"], 0);
  EXPECT_FALSE(Json::parse(exact.get("/v1/models").body)["data"][0].contains("bounded_replay"));
}

}  // namespace
}  // namespace baleen
