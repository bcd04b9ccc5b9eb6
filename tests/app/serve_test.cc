// `baleen serve` as a process: restarts, kill -9, SIGTERM, wrong usage.
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/support/baleen_program.h"
#include "tests/support/http_client.h"
#include "tests/support/run_program.h"
#include "tests/support/server_process.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

using Json = nlohmann::json;
using test::ServerProcess;

std::vector<std::string> serve(const std::vector<std::string>& more = {},
                               const std::string& model = "models/stories") {
  std::vector<std::string> command = {
      test::kBaleenProgram, "serve", "--model",   model,  "--port", "0", "--quiet",
      "--threads",          "1",     "--context", "16384"};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

/// A conversation of several pages.
Json long_request(int seed) {
  std::string text = "Conversation " + std::to_string(seed) + ". ";
  for (int i = 0; i < 150; ++i)
    text += "The little fox number " + std::to_string(i) + " lived in the forest. ";
  return {{"model", "stories"},
          {"messages", {{{"role", "user"}, {"content", text}}}},
          {"temperature", 0},
          {"max_tokens", 20}};
}

Json ask(const ServerProcess& server, const Json& request) {
  const test::HttpReply reply =
      test::http_request(server.port(), "POST", "/v1/chat/completions", request.dump());
  EXPECT_EQ(reply.status, 200) << reply.body;
  return Json::parse(reply.body);
}

std::int64_t cached_tokens(const Json& reply) {
  return reply["usage"]["prompt_tokens_details"]["cached_tokens"];
}

Json disk(const ServerProcess& server) {
  return Json::parse(test::http_request(server.port(), "GET", "/stats").body)["disk"];
}

class ServeWithDisk : public testing::TestWithParam<const char*> {};

TEST_P(ServeWithDisk, AConversationGoesOnAfterKill) {
  const test::TemporaryFolder folder;
  const auto command = serve(
      {"--cache-dir", folder / "cache", "--cache-windows", GetParam(), "--cache-checkpoint-pages", "1"});
  Json before;
  {
    ServerProcess server(command);
    before = ask(server, long_request(1));
    EXPECT_EQ(cached_tokens(before), 0);
    for (int i = 0; i < 1000 && disk(server)["files"] < 5; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    // The next conversation's pages are being written when the process dies.
    ask(server, long_request(2));
    EXPECT_EQ(server.end(SIGKILL), 128 + SIGKILL);
  }
  ServerProcess server(command);
  EXPECT_EQ(disk(server)["rejected_files"], 0);
  const Json after = ask(server, long_request(1));
  EXPECT_GE(cached_tokens(after), 256);
  EXPECT_EQ(after["choices"][0]["message"], before["choices"][0]["message"]);
  EXPECT_EQ(server.end(SIGTERM), 0);
}
INSTANTIATE_TEST_SUITE_P(Policies, ServeWithDisk, testing::Values("all", "checkpoints", "none"));

/// What a sequence of it has beside pages, a pending token and the last ids, is made anew from the pages'
/// tokens: prompts that end at odd and even places, found in memory and, after the process died, on disk.
TEST(ServeV41, ConversationsGoOnInMemoryAndAfterKill) {
  const test::TemporaryFolder folder;
  const std::string model = folder / "stories";
  ASSERT_EQ(test::run_program({test::kBaleenProgram, "init", model, "--preset", "tiny-v41", "--tokenizer",
                               "models/stories"})
                .status,
            0);
  const auto command = serve({"--cache-dir", folder / "cache"}, model);
  const auto request = [](int more) {
    Json asked = long_request(1);
    std::string text = asked["messages"][0]["content"];
    for (int i = 0; i < more; ++i) text += " fox";
    asked["messages"][0]["content"] = text;
    return asked;
  };
  std::vector<Json> before;
  std::int64_t odd_ends = 0;
  {
    ServerProcess cold(serve({"--no-prefix-cache"}, model));
    for (int more = 0; more < 4; ++more) {
      before.push_back(ask(cold, request(more)));
      odd_ends += before.back()["usage"]["prompt_tokens"].get<std::int64_t>() % 2;
    }
  }
  EXPECT_EQ(odd_ends, 2);
  const auto expect_found = [&](const ServerProcess& server, int first) {
    for (int more = first; more < 4; ++more) {
      const Json reply = ask(server, request(more));
      EXPECT_GE(cached_tokens(reply), 256) << more;
      EXPECT_EQ(reply["choices"][0]["message"],
                before[static_cast<std::size_t>(more)]["choices"][0]["message"])
          << more;
    }
  };
  {
    ServerProcess server(command);
    EXPECT_EQ(cached_tokens(ask(server, request(0))), 0);
    expect_found(server, 1);
    for (int i = 0; i < 1000 && disk(server)["files"] < 4; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(server.end(SIGKILL), 128 + SIGKILL);
  }
  ServerProcess server(command);
  EXPECT_EQ(disk(server)["rejected_files"], 0);
  expect_found(server, 0);
  EXPECT_EQ(server.end(SIGTERM), 0);
}

TEST(Serve, TermLetsRepliesEnd) {
  ServerProcess server(serve({"--drain-seconds", "30"}));
  Json request = long_request(1);
  request["stream"] = true;
  request["max_tokens"] = 60;
  request["logit_bias"] = {{"1", -100}};
  test::HttpConnection connection(server.port());
  connection.send("POST", "/v1/chat/completions", request.dump());
  ASSERT_EQ(connection.read_head().status, 200);
  ASSERT_TRUE(connection.next_event().has_value());
  server.signal(SIGTERM);
  int num_events = 0;
  std::string last;
  while (const auto data = connection.next_event()) {
    ++num_events;
    last = *data;
  }
  EXPECT_EQ(last, "[DONE]");
  EXPECT_GT(num_events, 10);
  EXPECT_EQ(server.end(0), 0);
}

TEST(Serve, WrongUsageIsSaidAtOnce) {
  struct Case {
    std::vector<std::string> arguments;
    int status;
    const char* said;
  };
  for (const Case& each : std::vector<Case>{
           {{"--port", "99999"}, 2, "port"},
           {{"--speculate", "-1"}, 2, "speculate"},
           {{"--cache-windows", "some"}, 2, "cache-windows"},
           {{"--host", "256.1.1.1"}, 1, "256.1.1.1"},
           {{"--api-key-file", "/nonexistent"}, 1, "/nonexistent"},
           {{"--cache-dir", "/proc/nowhere"}, 1, "/proc/nowhere"},
           {{"--cache-dir", "/tmp/x", "--no-prefix-cache"}, 1, "--no-prefix-cache"},
       }) {
    std::vector<std::string> command = {test::kBaleenProgram, "serve", "--model", "models/stories"};
    command.insert(command.end(), each.arguments.begin(), each.arguments.end());
    const test::ProgramResult result = test::run_program(command);
    EXPECT_EQ(result.status, each.status) << result.err;
    EXPECT_NE(result.err.find(each.said), std::string::npos) << result.err;
  }
}

TEST(Serve, ATakenPortIsSaid) {
  const ServerProcess server(serve());
  std::vector<std::string> command = serve();
  command[5] = std::to_string(server.port());
  const test::ProgramResult result = test::run_program(command);
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find(std::to_string(server.port())), std::string::npos) << result.err;
}

}  // namespace
}  // namespace baleen
