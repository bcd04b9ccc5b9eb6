// Parallel plans through the commands: ranks as threads of one process.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <thread>

#include "base/file.h"
#include "tests/support/baleen_program.h"
#include "tests/support/http_client.h"
#include "tests/support/run_program.h"
#include "tests/support/server_process.h"

namespace baleen {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

test::ProgramResult baleen(Words arguments) {
  arguments.insert(arguments.begin(), test::kBaleenProgram);
  return test::run_program(arguments);
}

Words operator+(Words first, const Words& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// Experts change places every few steps.
const Words kMovesExperts{"--balance-experts",
                          "--balance-first",
                          "2",
                          "--balance-interval",
                          "4",
                          "--balance-window",
                          "4",
                          "--balance-gain",
                          "0"};

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
        Words{"--dp", "2", "--pp", "2"}, Words{"--tp", "2", "--o-proj-tp", "1", "--sequence-parallel"},
        Words{"--ep", "4", "--expert-transport", "all-gather"},
        Words{"--tp", "2", "--o-proj-tp", "1", "--expert-transport", "all-to-all"},
        Words{"--dp", "2", "--prefill-groups", "1"},
        Words{"--dp", "2", "--dbo", "--dbo-prompt-rows", "2", "--dbo-decode-rows", "1"}, Words{"--cp", "2"},
        Words{"--cp", "2", "--dp", "2"}, Words{"--cp", "2", "--pp", "2"}}) {
    EXPECT_TRUE(logits(tiny, plan) == want) << testing::PrintToString(plan);
  }
  const std::string heads = random_model("tiny-real-heads");
  EXPECT_TRUE(logits(heads, {"--ep", "3"}, false) == logits(heads, {}, false));
}

TEST_F(Ranks, TheBundledModelOverManyRanks) {
  const std::string want = logits("models/stories", {});
  EXPECT_TRUE(logits("models/stories", {"--ep", "8"}) == want);
  EXPECT_TRUE(logits("models/stories", {"--pp", "3"}) == want);
  EXPECT_TRUE(logits("models/stories", {"--cp", "8"}) == want);
}

TEST_F(Ranks, TensorParallelRepeatsItself) {
  const std::string tiny = random_model("tiny-flash");
  EXPECT_TRUE(logits(tiny, {"--tp", "2"}) == logits(tiny, {"--tp", "2"}));
}

TEST_F(Ranks, TextOfOneRank) {
  const Words run{"run", "Once upon a time", "--max-tokens", "24", "--seed", "3", "--quiet"};
  const test::ProgramResult want = baleen(run);
  ASSERT_EQ(want.status, 0) << want.err;
  for (const Words& plan :
       {Words{"--ep", "4"}, Words{"--dp", "2"}, Words{"--pp", "2"}, Words{"--cp", "4"},
        Words{"--dp", "2", "--redundant-experts", "2"},
        Words{"--dp", "2", "--expert-placement", "round-robin"}, Words{"--ep", "4"} + kMovesExperts,
        Words{"--ep", "4", "--expert-transport", "all-gather"} + kMovesExperts}) {
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
  expect({"--tp", "2", "--dbo"}, "--dbo: ");
  expect({"--dp", "2", "--dbo", "--expert-transport", "all-gather"}, "--expert-transport all-gather moves");
  expect({"--cp", "2", "--tp", "2"}, "--cp 2 with --tp 2: ranks that share out rows have all heads; --cp 4");
  expect({"--cp", "2", "--sequence-parallel"}, "--sequence-parallel with --cp 2");
  expect({"--cp", "2", "--lmhead-tp", "4"}, "--lmhead-tp 4");
  expect({"--dp", "2", "--prefill-groups", "2"}, "--prefill-groups 2: of --dp 2 groups one at least decodes");
  expect({"--prefill-groups", "1"}, "--prefill-groups 1: of --dp 1 groups");
  const test::ProgramResult simulated =
      baleen({"simulate", "--model", "tiny-flash", "--device", "h200", "--dp", "2", "--prefill-groups", "1"});
  EXPECT_EQ(simulated.status, 1);
  EXPECT_NE(simulated.err.find("--prefill-groups 1: not simulated"), std::string::npos) << simulated.err;
  expect({"--balance-experts"}, "--balance-experts and --expert-map: every rank has all experts");
  expect({"--ep", "2", "--expert-map", folder_ / "absent.json"}, "absent.json");
  {
    AtomicFileWriter writer(folder_ / "map.json");
    writer.write(R"({"physical_to_logical": [[0, 1]]})");
    writer.commit();
  }
  expect({"--ep", "2", "--expert-map", folder_ / "map.json"}, "--expert-map: 1 layers, but the model has 6");
  const test::ProgramResult usage = baleen({"run", "text", "--ep", "2", "--balance-window", "3"});
  EXPECT_EQ(usage.status, 2);
  EXPECT_NE(usage.err.find("--balance-experts"), std::string::npos) << usage.err;
}

TEST_F(Ranks, ATransportOfExpertsIsForcedByNameOrRefused) {
  const Words run{"run", "text", "--max-tokens", "2"};
  const auto expect = [&](const Words& plan, int status, const std::string& part) {
    const test::ProgramResult result = baleen(run + plan);
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  };
  const auto named = [](const char* name) { return Words{"--ep", "2", "--expert-transport", name}; };
  expect({"--ep", "2"}, 0, "baleen: experts of 2 devices: tp 1, dp 2, ep 2 by all-to-all: ");
  expect(named("auto"), 0, "by all-to-all: ");
  expect(named("all-gather"), 0, "by all-gather, as --expert-transport says: ");
  expect(named("reduce-scatter"), 0, "by reduce-scatter, as --expert-transport says: ");
  expect(
      named("peer-memory"), 1,
      "--expert-transport peer-memory: is for GPUs of one host; CPU ranks have all-to-all for it; this plan "
      "can have all-to-all, all-gather, reduce-scatter");
  expect(named("all-reduce"), 1, "--expert-transport all-reduce: ranks have tokens of their own");
  expect(named("none"), 1, "--expert-transport none: the experts lie on several ranks");
  expect(named("nccl"), 1, "--expert-transport nccl: ");
  expect({"--ep", "2", "--messages", "nccl"}, 1,
         "--messages is for GPUs of several ranks; these ranks are on processors: leave it out");
  expect({"--expert-transport", "all-gather"}, 1, "this plan can have none");
  expect(named("reduce-scatter") + Words{"--redundant-experts", "2"}, 1,
         "sums in the order of ranks would depend on where experts lie");
  expect(named("post"), 2, "--expert-transport");
  EXPECT_EQ(baleen(run + Words{"--ep", "2", "--quiet"}).err.find("experts of"), std::string::npos);
  EXPECT_EQ(baleen(run).err.find("experts of"), std::string::npos) << "one rank has all of them";
}

TEST_F(Ranks, OnInt8GiveTheTextOfOneRank) {
  const Words run{"run", "Once upon a time", "--max-tokens", "24",  "--seed",
                  "3",   "--quiet",          "--kernel",     "int8"};
  const test::ProgramResult want = baleen(run);
  ASSERT_EQ(want.status, 0) << want.err;
  for (const Words& plan : {Words{"--ep", "2"}, Words{"--dp", "2"}, Words{"--pp", "2"}}) {
    const test::ProgramResult got = baleen(run + plan);
    EXPECT_EQ(got.status, 0) << got.err;
    EXPECT_EQ(got.out, want.out) << testing::PrintToString(plan);
  }
}

TEST_F(Ranks, EveryPairOfTransportAndBackendIsListed) {
  const Words bench{"bench", "--kernels", "--prompt", "4", "--decode", "2", "--ep", "2"};
  const auto experts = [&](const Words& more) {
    const test::ProgramResult result = baleen(bench + more + Words{"--json"});
    EXPECT_EQ(result.status, 0) << result.err;
    std::vector<std::string> lines;
    const Json listing = Json::parse(result.out);
    for (const Json& row : listing["experts"]) {
      lines.push_back(row["transport"].get<std::string>() + " " + row["backend"].get<std::string>() + ": " +
                      row["outcome"].get<std::string>());
      EXPECT_EQ(row["chosen"], row["outcome"] == "chosen");
    }
    return lines;
  };
  const auto has = [](const std::vector<std::string>& lines, const std::string& wanted) {
    EXPECT_EQ(std::ranges::count(lines, wanted), 1) << wanted << " in " << testing::PrintToString(lines);
  };
  const std::vector<std::string> automatic = experts({});
  EXPECT_EQ(automatic.size(), 32U) << "eight transports, four back-ends";
  has(automatic, "all-to-all int8: not needed: one listed before it runs");
  has(automatic, "all-to-all simd: chosen");
  has(automatic, "all-to-all reference: not needed: one listed before it runs");
  has(automatic, "all-gather simd: not needed: one listed before it runs");
  has(automatic, "none simd: refused: the experts lie on several ranks");
  const std::vector<std::string> forced =
      experts({"--expert-transport", "all-gather", "--kernel", "experts=reference"});
  has(forced, "all-gather reference: chosen");
  has(forced, "all-gather simd: excluded: another is forced");
  has(forced, "all-to-all reference: excluded: another is forced");
  const std::string text = baleen(bench).out;
  EXPECT_NE(text.find("experts, decoding:\n  none            refused: "), std::string::npos) << text;
}

TEST_F(Ranks, TheSimulatorPricesTheNamedTransport) {
  const auto simulate = [&](const Words& more) {
    return baleen(Words{"simulate", "--model", "flash", "--device", "h200", "--dp", "8", "--num-queries",
                        "64", "--decode", "--context-length", "1000"} +
                  more);
  };
  const test::ProgramResult sent = simulate({}), gathered = simulate({"--expert-transport", "all-gather"});
  EXPECT_EQ(sent.status, 0) << sent.err;
  EXPECT_EQ(gathered.status, 0) << gathered.err;
  EXPECT_EQ(sent.out.find("all_gather"), std::string::npos) << sent.out;
  EXPECT_NE(gathered.out.find("all_gather"), std::string::npos) << gathered.out;
  const test::ProgramResult refused = simulate({"--expert-transport", "all-reduce"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find("--expert-transport all-reduce: "), std::string::npos) << refused.err;
}

TEST_F(Ranks, ThePlannerExplainsItsChoice) {
  const Words explain{"plan", "--explain", "--model", "tiny-flash", "--device"};
  const test::ProgramResult result = baleen(explain + Words{"h200", "--devices", "2"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("recommended: "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("% of the best"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("left out:"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("experts of the recommended plan, decoding "), std::string::npos) << result.out;
  for (const char* transport : {"  none ", "  all-reduce ", "  all-to-all ", "  peer-memory ",
                                "  all-gather ", "  reduce-scatter ", "  nccl "})
    EXPECT_NE(result.out.find(std::string("\n") + transport), std::string::npos) << transport;
  EXPECT_EQ(baleen({"plan", "--devices", "2"}).status, 2) << "wants --explain";
}

TEST_F(Ranks, WhatIsNoListOfGpusIsRefused) {
  for (const char* list : {"cpu", "0,", "0,x", "-1", ","}) {
    const test::ProgramResult result = baleen({"run", "--devices", list, "--max-tokens", "1", "hi"});
    EXPECT_NE(result.status, 0) << list;
    EXPECT_NE(result.err.find("expected numbers of GPUs, as 0,1"), std::string::npos) << result.err;
  }
}

TEST_F(Ranks, AServerWithTwoGroupsRepliesAsOneRank) {
  const Words serve{test::kBaleenProgram, "serve", "--port",    "0",   "--quiet",
                    "--threads",          "2",     "--context", "8192"};
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

/// One line for each change, whose experts and bytes add up to the totals of /stats.
void expect_changes(const std::string& log, const Json& balance) {
  const std::regex change(
      "baleen: experts moved in ([0-9]+) layers: ([0-9,]+) experts, ([0-9,]+) bytes; balancedness over "
      "layers [01][.][0-9]{2} [(]least [01][.][0-9]{2}[)] before, [01][.][0-9]{2} [(]least "
      "[01][.][0-9]{2}[)] after");
  const auto number = [](std::string text) {
    std::erase(text, ',');
    return std::stoll(text);
  };
  std::int64_t num_changes = 0, num_experts = 0, num_bytes = 0;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    std::smatch parts;
    if (!std::regex_match(line, parts, change)) continue;
    ++num_changes;
    EXPECT_GE(number(parts[1]), 1);
    EXPECT_LE(number(parts[1]), 7);
    num_experts += number(parts[2]);
    num_bytes += number(parts[3]);
  }
  EXPECT_EQ(num_changes, balance["rebalancings"]) << log;
  EXPECT_EQ(num_experts, balance["moved_experts"]) << log;
  EXPECT_EQ(num_bytes, balance["moved_bytes"]) << log;
}

/// Prompts of few words make some experts busy. Experts move while requests run, and the text stays that of
/// one rank.
TEST_F(Ranks, AServerThatMovesExpertsRepliesAsOneRank) {
  const Words serve{test::kBaleenProgram, "serve", "--port",    "0",   "--quiet",
                    "--threads",          "2",     "--context", "8192"};
  const auto ask = [](const test::ServerProcess& server, int i) {
    std::string prompt;
    for (int word = 0; word < 60; ++word) prompt += i % 2 == 0 ? " fox" : " the little snail";
    const Json request{
        {"model", "stories"}, {"prompt", prompt}, {"seed", i}, {"temperature", 0.8}, {"max_tokens", 12}};
    const test::HttpReply reply =
        test::http_request(server.port(), "POST", "/v1/completions", request.dump());
    EXPECT_EQ(reply.status, 200) << reply.body;
    return Json::parse(reply.body)["choices"][0]["text"].get<std::string>();
  };
  const auto get = [](const test::ServerProcess& server, const char* path) {
    return test::http_request(server.port(), "GET", path);
  };
  constexpr int kNumRequests = 6;
  std::vector<std::string> want;
  {
    const test::ServerProcess server(serve);
    for (int i = 0; i < kNumRequests; ++i) want.push_back(ask(server, i));
    EXPECT_TRUE(Json::parse(get(server, "/stats").body)["expert_balance"].is_null());
    EXPECT_EQ(get(server, "/metrics").body.find("baleen_expert_"), std::string::npos);
    EXPECT_EQ(get(server, "/experts").status, 404);
  }
  const Words ranks{"--ep", "2", "--redundant-experts", "2", "--speculate", "1"};
  std::string map;
  {
    const std::string log = folder_ / "log";
    test::ServerProcess server(serve + ranks + kMovesExperts, [&log] {
      ::dup2(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO);
    });
    for (int i = 0; i < kNumRequests; ++i) EXPECT_EQ(ask(server, i), want[static_cast<std::size_t>(i)]);
    const Json balance = Json::parse(get(server, "/stats").body)["expert_balance"];
    EXPECT_GE(balance["rebalancings"], 3) << balance;
    EXPECT_GE(balance["moved_bytes"], balance["moved_experts"]);
    EXPECT_EQ(balance["failures"], 0);
    EXPECT_EQ(balance["layers"].size(), 7u) << "six layers and the MTP block";
    EXPECT_EQ(balance["layers"][3]["before"].size(), 2u);
    EXPECT_GE(balance["balancedness"]["after"]["mean"], balance["balancedness"]["before"]["mean"]);
    const std::string metrics = get(server, "/metrics").body;
    for (const char* part : {"baleen_expert_balancedness{maps=\"after\",layers=\"least\"}",
                             "baleen_expert_balancedness{maps=\"before\",layers=\"mean\"}",
                             "baleen_moved_expert_bytes_total", "baleen_expert_rebalancing_failures_total 0"})
      EXPECT_NE(metrics.find(part), std::string::npos) << part << "\nin\n" << metrics;
    map = get(server, "/experts").body;
    EXPECT_EQ(server.end(SIGTERM), 0);
    expect_changes(read_text_file(log), balance);
  }
  // What it ended with is where the next one begins.
  {
    AtomicFileWriter writer(folder_ / "map.json");
    writer.write(map);
    writer.commit();
  }
  test::ServerProcess server(serve + ranks + Words{"--expert-map", folder_ / "map.json"});
  EXPECT_EQ(Json::parse(get(server, "/experts").body), Json::parse(map));
  EXPECT_EQ(ask(server, 1), want[1]);
  EXPECT_EQ(server.end(SIGTERM), 0);
}

/// Requests side by side: prompts in one group, replies in the other, the text of one rank.
TEST_F(Ranks, AServerWhoseGroupsHaveRolesRepliesAsOneRank) {
  const Words serve{
      test::kBaleenProgram, "serve", "--port", "0", "--quiet", "--threads", "2", "--context", "8192",
      "--max-batch-tokens", "96"};
  constexpr int kNumRequests = 6;
  const auto ask = [](const test::ServerProcess& server, int i) {
    std::string prompt;
    for (int word = 0; word < 40 + 60 * i; ++word) prompt += i % 2 == 0 ? " fox" : " the little snail";
    const Json request{
        {"model", "stories"}, {"prompt", prompt}, {"seed", i}, {"temperature", 0.8}, {"max_tokens", 12}};
    const test::HttpReply reply =
        test::http_request(server.port(), "POST", "/v1/completions", request.dump());
    EXPECT_EQ(reply.status, 200) << reply.body;
    return Json::parse(reply.body)["choices"][0]["text"].get<std::string>();
  };
  const auto ask_all = [&](const test::ServerProcess& server) {
    std::vector<std::string> texts(kNumRequests);
    std::vector<std::jthread> clients;
    for (int i = 0; i < kNumRequests; ++i)
      clients.emplace_back([&, i] { texts[static_cast<std::size_t>(i)] = ask(server, i); });
    clients.clear();
    return texts;
  };
  std::vector<std::string> want;
  {
    test::ServerProcess server(serve);
    want = ask_all(server);
    EXPECT_EQ(server.end(SIGTERM), 0);
  }
  for (const Words& more : {Words{"--dp", "2"}, Words{"--dp", "2", "--speculate", "2"}, Words{"--dp", "4"}}) {
    test::ServerProcess server(serve + more + Words{"--prefill-groups", more[1] == "2" ? "1" : "2"});
    EXPECT_EQ(ask_all(server), want) << testing::PrintToString(more);
    const Json stats = Json::parse(test::http_request(server.port(), "GET", "/stats").body);
    EXPECT_EQ(stats["ranks"]["roles"][0], "prefill");
    EXPECT_EQ(stats["ranks"]["roles"].back(), "decode");
    EXPECT_EQ(stats["ranks"]["transfers"]["sequences"], kNumRequests) << stats["ranks"];
    EXPECT_GT(stats["ranks"]["transfers"]["bytes"], 0);
    EXPECT_EQ(stats["ranks"]["transfers"]["refused"], 0);
    EXPECT_EQ(stats["pools"]["pages"]["in_use"], 0);
    EXPECT_EQ(server.end(SIGTERM), 0);
  }
}

}  // namespace
}  // namespace baleen
