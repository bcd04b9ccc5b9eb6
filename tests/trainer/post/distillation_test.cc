// Distillation of two teachers into a student: small models of random weights.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "model/presets.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/temporary_folder.h"
#include "trainer/post/policy_group.h"
#include "trainer/post/policy_run.h"
#include "trainer/post/teacher_objective.h"
#include "trainer/run/import.h"
#include "training_data/pack.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;

ModelConfig small_model(std::int64_t num_layers, std::int64_t vocab_size = 4096) {
  ModelConfig model = preset_config("tiny-flash");
  model.vocab_size = vocab_size;  // 4,096: of the bundled tokenizer
  model.num_hidden_layers = num_layers;
  model.compress_ratios =
      num_layers == 2 ? std::vector<std::int64_t>{0, 4, 0} : std::vector<std::int64_t>{0, 0};
  model.n_routed_experts = 4;
  model.moe_intermediate_size = 128;
  return model;
}

class DistillationTest : public ::testing::Test {
 protected:
  DistillationTest()
      : student_(small_model(2)), story_teacher_(small_model(2), 7), tool_teacher_(small_model(1)) {
    for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
      fs::copy_file(fs::path("models/stories") / name, student_.path() / name);
    write_prompts("tools");
  }

  void write_prompts(const std::string& second_domain) {
    std::ofstream(folder_ / "prompts.jsonl")
        << R"({"prompt": "The fox", "domain": "stories"})"
        << "\n"
        << R"({"prompt": "A call", "domain": ")" << second_domain << "\"}\n";
  }

  TrainConfig config(const std::string& teachers) {
    return parse_train_config(R"(
[run]
folder = "run"
steps = 40
seed = 3
[rollout]
prompts = "prompts.jsonl"
prompts_per_step = 2
group_size = 2
prompt_tokens = 16
max_tokens = 6
[distill]
)" + teachers + R"(
[schedule]
learning_rate = 0.003
[optimizer]
matrices = "adamw"
[checkpoint]
interval = 3
)",
                              "test.toml", folder_.path(), student_.path());
  }

  TrainConfig two_teachers() {
    return config("teachers = [\"" + story_teacher_.path().string() + "\", \"" +
                  tool_teacher_.path().string() + "\"]\ndomains = [\"stories\", \"tools\"]");
  }

  /// Two teachers, and `sft` for a section [sft] with the folder "texts", which is packed here.
  TrainConfig with_texts(const std::string& sft) {
    std::ofstream(folder_ / "texts.jsonl") << R"({"text": "The fox ran over the hill and slept there."})"
                                           << "\n"
                                           << R"({"text": "A call was heard from the other side of it."})"
                                           << "\n";
    if (!fs::exists(folder_ / "texts")) {
      PackOptions pack;
      pack.files = {folder_ / "texts.jsonl"};
      pack.tokenizer = "models/stories";
      pack.out = folder_ / "texts";
      pack_corpus(pack);
    }
    return config("teachers = [\"" + story_teacher_.path().string() + "\", \"" +
                  tool_teacher_.path().string() + "\"]\ndomains = [\"stories\", \"tools\"]\n[sft]\n" + sft);
  }

  std::vector<nlohmann::json> log_of(const std::string& name) {
    std::ifstream file(folder_ / name / "log.jsonl");
    std::vector<nlohmann::json> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }

  Parameters<float> train(const TrainConfig& config, const std::string& name, TrainingRunOptions options = {},
                          int num_threads = 2) {
    ThreadPool pool(num_threads);
    const RunFolder folder(folder_ / name);
    const TokenTables tables = token_tables_of(config);
    PolicyRun run(config, folder, tables, std::move(options), pool);
    run.run();
    return run.state().weights;
  }

  std::string error_of(const TrainConfig& config) {
    try {
      train(config, "bad");
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  test::TemporaryFolder folder_;
  test::RandomCheckpoint student_, story_teacher_, tool_teacher_;
};

TEST_F(DistillationTest, BothTeachersAreApproached) {
  train(two_teachers(), "a");
  const std::vector<nlohmann::json> lines = log_of("a");
  ASSERT_EQ(lines.size(), 40U);
  EXPECT_LT(lines.back()["kl"].get<double>(), 0.7 * lines.front()["kl"].get<double>());
  for (const nlohmann::json& line : lines) {
    const double mean = 0.5 * (line["kl.stories"].get<double>() + line["kl.tools"].get<double>());
    EXPECT_NEAR(line["kl"].get<double>(), mean, 1e-6 * mean);
  }
}

TEST_F(DistillationTest, AResumedRunIsTheRunThatNeverStoppedOnAnyThreads) {
  const Parameters<float> whole = train(two_teachers(), "whole", {.stop_step = 4}, 1);
  train(two_teachers(), "parts", {.stop_step = 2});
  const Parameters<float> parts = train(two_teachers(), "parts", {.resume = true, .stop_step = 4});
  for (std::size_t i = 0; i < whole.size(); ++i)
    ASSERT_TRUE(std::ranges::equal(whole.values(i), parts.values(i))) << whole.spec(i).name;
}

TEST_F(DistillationTest, TextsBesideTheRepliesAreLearned) {
  const std::string part = "folder = \"texts\"\nrows = 1\nsequence_length = 32\nweight = ";
  train(with_texts(part + "1.0"), "texts-too", {.stop_step = 20});
  const std::vector<nlohmann::json> lines = log_of("texts-too");
  ASSERT_EQ(lines.size(), 20U);
  EXPECT_LT(lines.back()["sft_loss"].get<double>(), 0.5 * lines.front()["sft_loss"].get<double>());
  EXPECT_LT(lines.back()["kl"].get<double>(), lines.front()["kl"].get<double>());
  EXPECT_NEAR(lines.front()["loss"].get<double>(),
              lines.front()["kl"].get<double>() + lines.front()["sft_loss"].get<double>(), 1e-9);

  const Parameters<float> none = train(two_teachers(), "none", {.stop_step = 2});
  const Parameters<float> weightless = train(with_texts(part + "0.0"), "weightless", {.stop_step = 2});
  for (std::size_t i = 0; i < none.size(); ++i)
    ASSERT_TRUE(std::ranges::equal(none.values(i), weightless.values(i))) << none.spec(i).name;
  const Parameters<float> whole = train(with_texts(part + "0.5"), "whole", {.stop_step = 4}, 1);
  train(with_texts(part + "0.5"), "parts", {.stop_step = 3});
  const Parameters<float> parts = train(with_texts(part + "0.5"), "parts", {.resume = true, .stop_step = 4});
  for (std::size_t i = 0; i < whole.size(); ++i)
    ASSERT_TRUE(std::ranges::equal(whole.values(i), parts.values(i))) << whole.spec(i).name;
}

TEST_F(DistillationTest, AStudentThatIsItsTeacherHasNoLoss) {
  const TrainConfig own = config("teachers = [\"" + student_.path().string() + "\"]");
  ThreadPool pool(2);
  const TokenTables tables = token_tables_of(own);
  Parameters<float> weights(own.model), gradients(own.model);
  import_weights(own, weights, pool);
  const PolicyPrompt prompt{.tokens = {0, 5, 9}, .mode = {}, .rule = {}, .domain = ""};
  TeacherObjective objective(own, tables, {&prompt, 1}, pool);
  const RolloutGroup group{&prompt, {{.tokens = {7, 8, 1}, .logprobs = {-1, -1, -1}, .ended = true}}};
  const ObjectiveReport report =
      objective.add_gradients({&group, 1}, weights, {.mtp_weight = 0, .scaled_rope = true}, gradients);
  EXPECT_NEAR(report.loss, 0, 1e-6);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    for (const float value : gradients.values(i))
      ASSERT_LT(std::fabs(value), 1e-5F) << gradients.spec(i).name;
  }
}

TEST_F(DistillationTest, WhatCannotBeIsASentence) {
  write_prompts("poems");
  const std::string domain = error_of(two_teachers());
  EXPECT_NE(domain.find("domain \"poems\", expected one of distill.domains: stories, tools"),
            std::string::npos)
      << domain;
  const test::RandomCheckpoint other(small_model(1, 512));
  const std::string vocabulary = error_of(config("teachers = [\"" + other.path().string() + "\"]"));
  EXPECT_NE(vocabulary.find("512 tokens in its vocabulary, expected the student's 4096"), std::string::npos)
      << vocabulary;
  const std::string missing = error_of(config("teachers = [\"nowhere\"]"));
  EXPECT_NE(missing.find("nowhere"), std::string::npos) << missing;
  EXPECT_THROW(config("teachers = [\"a\", \"b\"]"), Error);
  EXPECT_THROW(config("teachers = []"), Error);
  EXPECT_THROW(with_texts("weight = 1.0"), Error);
  write_prompts("tools");
  const std::string data = error_of(with_texts("folder = \"nothing-packed\""));
  EXPECT_NE(data.find("nothing-packed"), std::string::npos) << data;
}

}  // namespace
}  // namespace baleen
