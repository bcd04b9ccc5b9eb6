// GRPO on a model of random weights: a reply that begins with a rare token becomes common.
#include "trainer/post/policy_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "engine/engine.h"
#include "model/presets.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/temporary_folder.h"
#include "trainer/run/import.h"
#include "trainer/serving/engine_weights.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;

ModelConfig small_model() {
  ModelConfig model = preset_config("tiny-flash");
  model.vocab_size = 4096;  // of the bundled tokenizer
  model.num_hidden_layers = 2;
  model.compress_ratios = {0, 4, 0};
  model.n_routed_experts = 4;
  model.moe_intermediate_size = 128;
  return model;
}

class PolicyRunTest : public ::testing::Test {
 protected:
  PolicyRunTest() : files_(small_model()) {
    for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
      fs::copy_file(fs::path("models/stories") / name, files_.path() / name);
    // Half of the letters are rewarded, which about half of the first replies begin with.
    std::ofstream(folder_ / "prompts.jsonl") << R"({"prompt": "The fox", "pattern": "^[ ]*[a-m]"})"
                                             << "\n";
    config_ = parse_train_config(R"(
[run]
folder = "run"
steps = 8
seed = 3
[rollout]
prompts = "prompts.jsonl"
prompts_per_step = 1
group_size = 16
prompt_tokens = 16
max_tokens = 4
[grpo]
beta = 0.0
[schedule]
learning_rate = 0.02
[optimizer]
matrices = "adamw"
[checkpoint]
interval = 3
)",
                                 "test.toml", folder_.path(), files_.path());
  }

  Parameters<float> train(const std::string& name, TrainingRunOptions options = {}, int num_threads = 2) {
    ThreadPool pool(num_threads);
    const RunFolder folder(folder_ / name);
    const TokenTables tables = token_tables_of(config_);
    PolicyRun run(config_, folder, tables, std::move(options), pool);
    run.run();
    return run.state().weights;
  }

  std::vector<nlohmann::json> log_of(const std::string& name) const {
    std::ifstream file(folder_ / name / "log.jsonl");
    std::vector<nlohmann::json> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }

  test::TemporaryFolder folder_;
  test::RandomCheckpoint files_;
  TrainConfig config_;
};

TEST_F(PolicyRunTest, RaisesTheReward) {
  train("a");
  const std::vector<nlohmann::json> lines = log_of("a");
  ASSERT_EQ(lines.size(), 8U);
  EXPECT_LT(lines.front()["reward"].get<double>(), 0.7);
  EXPECT_GT(lines.back()["reward"].get<double>(), 0.9);
  for (const nlohmann::json& line : lines) EXPECT_LT(line["probability_drift"].get<double>(), 0.005);
}

TEST_F(PolicyRunTest, WithQuantisationTheEngineServesTheReleasedFormats) {
  config_.qat.start_step = 1;
  config_.grpo.beta = 0.1;  // every group has a gradient
  train("a", {.stop_step = 3});
  const std::vector<nlohmann::json> lines = log_of("a");
  ASSERT_EQ(lines.size(), 3U);
  for (const nlohmann::json& line : lines) EXPECT_LT(line["probability_drift"].get<double>(), 0.005);
  train("b", {.stop_step = 2});
  train("b", {.resume = true, .stop_step = 3});
  EXPECT_EQ(log_of("b")[2]["loss"], lines[2]["loss"]);
  config_.qat.start_step.reset();
  train("c", {.stop_step = 2});
  EXPECT_EQ(log_of("c")[0]["loss"], lines[0]["loss"]);
  EXPECT_NE(log_of("c")[1]["gradient_norm"], lines[1]["gradient_norm"]);
}

TEST_F(PolicyRunTest, AResumedRunIsTheRunThatNeverStoppedOnAnyThreads) {
  const Parameters<float> whole = train("whole", {.stop_step = 4}, 1);
  train("parts", {.stop_step = 2});
  const Parameters<float> parts = train("parts", {.resume = true, .stop_step = 4});
  for (std::size_t i = 0; i < whole.size(); ++i)
    ASSERT_TRUE(std::ranges::equal(whole.values(i), parts.values(i))) << whole.spec(i).name;
}

TEST_F(PolicyRunTest, ResumingMeetsWhatTheRunBeganWith) {
  config_.grpo.beta = 0.5;
  train("a", {.stop_step = 1});
  const auto error_of_resuming = [this] {
    try {
      train("a", {.resume = true, .stop_step = 1});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(error_of_resuming(), "no error");
  const std::string prompts = R"({"prompt": "The fox", "pattern": "^[ ]*[a-m]"})";
  std::ofstream(folder_ / "prompts.jsonl") << prompts << " \n";
  EXPECT_NE(error_of_resuming().find("prompts, rollout.prompts: other contents now"), std::string::npos)
      << error_of_resuming();
  std::ofstream(folder_ / "prompts.jsonl") << prompts << "\n";
  fs::rename(files_.path() / "tokenizer_config.json", folder_ / "kept");
  EXPECT_NE(error_of_resuming().find("tokenizer, tokenizer_config.json: missing now"), std::string::npos)
      << error_of_resuming();
  fs::rename(folder_ / "kept", files_.path() / "tokenizer_config.json");
  // A bit in the middle of the reference's weights.
  const fs::path weights = files_.path() / "model.safetensors";
  std::fstream file(weights, std::ios::in | std::ios::out | std::ios::binary);
  const auto middle = static_cast<std::streamoff>(fs::file_size(weights) / 2);
  file.seekg(middle);
  const auto byte = static_cast<char>(file.get());
  file.seekp(middle);
  file.put(static_cast<char>(byte ^ 4));
  file.close();
  EXPECT_NE(error_of_resuming().find("models, the policy of run.from: other contents now"), std::string::npos)
      << error_of_resuming();
}

TEST_F(PolicyRunTest, AReferencePolicyAddsNothingBeforeTheFirstUpdate) {
  const double without = (train("a", {.stop_step = 1}), log_of("a")[0]["gradient_norm"].get<double>());
  config_.grpo.beta = 0.5;
  const double with = (train("b", {.stop_step = 1}), log_of("b")[0]["gradient_norm"].get<double>());
  EXPECT_NEAR(with, without, 1e-6 * without);
}

TEST_F(PolicyRunTest, BadPromptsAreSentencesWithTheirLine) {
  const auto error_of = [this](const std::string& line) {
    std::ofstream(folder_ / "prompts.jsonl") << R"({"prompt": "The", "answer": "fox"})"
                                             << "\n"
                                             << line << "\n";
    try {
      train("bad");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  for (const auto& [line, words] : std::vector<std::pair<std::string, std::string>>{
           {"{", "line 2: not a line of JSON"},
           {R"({"prompt": "x"})", "line 2: no reward"},
           {R"({"answer": "x"})", "line 2: expected \"prompt\" or \"messages\""},
           {R"({"prompt": "x", "pattern": "("})", "line 2: regular expression"},
           {R"({"prompt": "x", "call": 3})", "line 2: call: expected an object"},
           {R"({"prompt": "a b c d e f g h i j k l m n o p q r", "answer": "x"})",
            "rollout.prompt_tokens"}}) {
    const std::string error = error_of(line);
    EXPECT_NE(error.find(words), std::string::npos) << error;
  }
}

TEST(Rollouts, LogprobsAreTheEnginesAtTheTemperature) {
  const test::RandomCheckpoint files(small_model());
  TrainConfig config;
  config.model = small_model();
  config.run.from = files.path();
  ThreadPool pool(2);
  Parameters<float> weights(config.model);
  import_weights(config, weights, pool);
  EngineOptions options{.device = {}, .precision = Precision::kExact, .num_threads = 2, .max_sequences = 3};
  options.cache_tokens = 2048;
  options.prefix_cache = true;
  Engine engine(
      engine_weights(config.model, weights, token_tables_of(config), kBf16Formats, "models/stories", pool),
      options);
  const RolloutConfig config_of_rollouts{.group_size = 3, .max_tokens = 5, .temperature = 0.5};
  const std::vector<TokenId> prompt(300, 7);  // longer than a page of the cache
  const std::vector<Rollout> rollouts = sample_group(engine, config_of_rollouts, prompt, 1, 11);
  ASSERT_EQ(rollouts.size(), 3U);
  EXPECT_NE(rollouts[0].tokens, rollouts[1].tokens);
  for (const Rollout& rollout : rollouts) {
    ASSERT_EQ(rollout.tokens.size(), rollout.logprobs.size());
    for (const double logprob : rollout.logprobs) EXPECT_LT(logprob, 0);
  }
  const std::vector<Rollout> again = sample_group(engine, config_of_rollouts, prompt, 1, 11);
  for (std::size_t i = 0; i < rollouts.size(); ++i) {
    EXPECT_EQ(again[i].tokens, rollouts[i].tokens);
    EXPECT_EQ(again[i].logprobs, rollouts[i].logprobs);
  }
}

}  // namespace
}  // namespace baleen
