// Parallel plans through the commands: ranks as threads of one process.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "base/file.h"
#include "tests/support/http_client.h"
#include "tests/support/run_program.h"
#include "tests/support/server_process.h"

namespace baleen {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

test::ProgramResult baleen(Words arguments) {
  arguments.insert(arguments.begin(), BALEEN_PROGRAM);
  return test::run_program(arguments);
}

Words operator+(Words first, const Words& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

class Ranks : public testing::Test {
 protected:
  /// The file that `baleen logits` writes.
  [[nodiscard]] std::string logits(const std::string& model, const Words& plan, bool mtp = true) const {
    std::string ids;
    for (int i = 0; i < 150; ++i) ids += std::to_string((i * 37 + 11) % 500) + " ";
    {
      AtomicFileWriter writer(folder_ / "ids");
      writer.write(ids);
      writer.commit();
    }
    const std::string out = folder_ / "logits.safetensors";
    Words words{"logits", "--model", model, "--tokens", folder_ / "ids", "--out", out, "--chunk", "64"};
    if (mtp) words.emplace_back("--mtp");
    const test::ProgramResult result = baleen(words + plan);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.status == 0 ? read_text_file(out) : result.err;
  }
  [[nodiscard]] std::string random_model(const std::string& preset) const {
    const std::string path = folder_ / preset;
    EXPECT_EQ(baleen({"init", path, "--preset", preset}).status, 0);
    return path;
  }

  const test::TemporaryFolder folder_;
};

TEST_F(Ranks, LogitsOfOneRankToTheBit) {
  const std::string tiny = random_model("tiny-flash");
  const std::string want = logits(tiny, {});
  for (const Words& plan :
       {Words{"--ep", "2"}, Words{"--dp", "4", "--ep", "4"}, Words{"--pp", "2"},
        Words{"--dp", "2", "--pp", "2"}, Words{"--tp", "2", "--o-proj-tp", "1", "--sequence-parallel"}}) {
    EXPECT_TRUE(logits(tiny, plan) == want) << testing::PrintToString(plan);
  }
  const std::string heads = random_model("tiny-real-heads");
  EXPECT_TRUE(logits(heads, {"--ep", "3"}, false) == logits(heads, {}, false));
}

TEST_F(Ranks, TheBundledModelOverManyRanks) {
  const std::string want = logits("models/stories", {});
  EXPECT_TRUE(logits("models/stories", {"--ep", "8"}) == want);
  EXPECT_TRUE(logits("models/stories", {"--pp", "3"}) == want);
}

TEST_F(Ranks, TensorParallelRepeatsItself) {
  const std::string tiny = random_model("tiny-flash");
  EXPECT_TRUE(logits(tiny, {"--tp", "2"}) == logits(tiny, {"--tp", "2"}));
}

TEST_F(Ranks, TextOfOneRank) {
  const Words run{"run", "Once upon a time", "--max-tokens", "24", "--seed", "3", "--quiet"};
  const test::ProgramResult want = baleen(run);
  ASSERT_EQ(want.status, 0) << want.err;
  for (const Words& plan : {Words{"--ep", "4"}, Words{"--dp", "2"}, Words{"--pp", "2"},
                            Words{"--dp", "2", "--redundant-experts", "2"},
                            Words{"--dp", "2", "--expert-placement", "round-robin"}}) {
    EXPECT_EQ(baleen(run + plan).out, want.out) << testing::PrintToString(plan);
  }
}

TEST_F(Ranks, LayoutsThatCannotBeAreRefused) {
  const auto expect = [](const Words& plan, const std::string& part) {
    const test::ProgramResult result = baleen(Words{"run", "text", "--quiet"} + plan);
    EXPECT_EQ(result.status, 1) << part;
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  };
  expect({"--tp", "3"}, "--tp 3: ");
  expect({"--ep", "3", "--dp", "2"}, "--ep 3 x --moe-tp");
  expect({"--pp", "99"}, "--pp 99: the model has");
  expect({"--dp", "2", "--o-proj-tp", "2"}, "--o-proj-tp 2: over more ranks than --tp 1");
  expect({"--pp", "2", "--redundant-experts", "2"}, "--redundant-experts 2");
  expect({"--dp", "2", "--dbo"}, "--dbo");
}

TEST_F(Ranks, ThePlannerExplainsItsChoice) {
  const Words explain{"plan", "--explain", "--model", "tiny-flash", "--device"};
  const test::ProgramResult result = baleen(explain + Words{"h200", "--devices", "2"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("recommended: "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("% of the best"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("left out:"), std::string::npos) << result.out;
  EXPECT_EQ(baleen({"plan", "--devices", "2"}).status, 2) << "wants --explain";
}

TEST_F(Ranks, AServerWithTwoGroupsRepliesAsOneRank) {
  const Words serve{BALEEN_PROGRAM, "serve", "--port", "0", "--quiet", "--threads", "2", "--context", "8192"};
  const auto request = [](int i) {
    const std::string text = "Tell me a story about animal number " + std::to_string(i) + ".";
    return Json{{"model", "stories"},
                {"messages", {{{"role", "user"}, {"content", text}}}},
                {"seed", i},
                {"temperature", 0.8},
                {"max_tokens", 16}};
  };
  const auto ask = [&](const test::ServerProcess& server, int i) {
    const test::HttpReply reply =
        test::http_request(server.port(), "POST", "/v1/chat/completions", request(i).dump());
    EXPECT_EQ(reply.status, 200) << reply.body;
    return Json::parse(reply.body)["choices"][0]["message"]["content"].get<std::string>();
  };
  constexpr int kNumRequests = 6;
  std::vector<std::string> want, got(kNumRequests);
  {
    const test::ServerProcess server(serve);
    for (int i = 0; i < kNumRequests; ++i) want.push_back(ask(server, i));
  }
  test::ServerProcess server(serve + Words{"--dp", "2", "--speculate", "1"});
  {
    std::vector<std::jthread> clients;
    for (int i = 0; i < kNumRequests; ++i)
      clients.emplace_back([&, i] { got[static_cast<std::size_t>(i)] = ask(server, i); });
  }
  EXPECT_EQ(got, want);
  EXPECT_EQ(Json::parse(test::http_request(server.port(), "GET", "/stats").body)["ranks"]["count"], 2);
  EXPECT_NE(test::http_request(server.port(), "GET", "/metrics").body.find("baleen_ranks 2"),
            std::string::npos);
  EXPECT_EQ(server.end(SIGTERM), 0);
}

}  // namespace
}  // namespace baleen
