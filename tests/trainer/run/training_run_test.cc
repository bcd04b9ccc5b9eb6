// The loop around a loss that is simple enough to know its gradient.
#include "trainer/run/training_run.h"

#include <gtest/gtest.h>

#include "model/model_folder.h"
#include "model/tensor_table.h"
#include "tests/trainer/run/toy_run.h"
#include "trainer/run/export.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;
using TrainingRunTest = test::ToyRun;

TEST_F(TrainingRunTest, LowersTheLossAndLogsIt) {
  train("a");
  const std::vector<nlohmann::json> lines = log_of("a");
  ASSERT_EQ(lines.size(), 14U);  // 12 steps, two evaluations
  EXPECT_EQ(lines[0]["step"], 1);
  EXPECT_LT(lines[11]["loss"].get<double>(), 0.9 * lines[0]["loss"].get<double>());
  EXPECT_EQ(lines[13]["step"], 12);
  EXPECT_GT(lines[13]["held_out_bits_per_byte"].get<double>(), 0);
  EXPECT_LT(lines[13]["held_out_nats_per_token"].get<double>(),
            lines[6]["held_out_nats_per_token"].get<double>());
  EXPECT_EQ(RunFolder(folder_ / "a").checkpoints(), (std::vector<std::int64_t>{10, 12}));
}

TEST_F(TrainingRunTest, AResumedRunIsTheRunThatNeverStopped) {
  const Parameters<float> whole = train("whole");
  train("parts", {.stop_step = 4});
  train("parts", {.resume = true, .stop_step = 7});
  expect_same(whole, train("parts", {.resume = true}));
  std::vector<double> losses, whole_losses;
  for (const auto& line : log_of("parts"))
    if (line.contains("loss")) losses.push_back(line["loss"]);
  for (const auto& line : log_of("whole"))
    if (line.contains("loss")) whole_losses.push_back(line["loss"]);
  EXPECT_EQ(losses, whole_losses);
}

TEST_F(TrainingRunTest, TensorsThatAreNotChosenStayAsTheyAre) {
  Parameters<float> first(config_.model);
  initialise(first, config_.model, config_.initializer_range, config_.run.seed);
  config_.tune.tensors = {"mtp.*"};
  const Parameters<float> tuned = train("a");
  EXPECT_EQ(log_of("a")[0]["gradient_norm"], 0);  // the loss is of the embedding alone
  for (std::size_t i = 0; i < tuned.size(); ++i) {
    const bool same = std::ranges::equal(tuned.values(i), first.values(i));
    const std::string& name = tuned.spec(i).name;
    EXPECT_TRUE(same || name.starts_with("mtp.")) << name;
    EXPECT_FALSE(same && name == "mtp.0.ffn.gate.bias");  // balanced by its load
  }
}

TEST_F(TrainingRunTest, ThreadsDoNotMatter) { expect_same(train("one", {}, 1), train("three", {}, 3)); }

TEST_F(TrainingRunTest, AnInterruptionEndsAfterTheStepWithACheckpoint) {
  int asked = 0;
  train("a", {.interrupted = [&asked] { return ++asked == 3; }});
  EXPECT_EQ(RunFolder(folder_ / "a").checkpoints(), (std::vector<std::int64_t>{3}));
}

TEST_F(TrainingRunTest, AStepThatIsNotFiniteIsSkippedAndNamed) {
  poisoned_ = {2, 3};
  train("a");
  const std::vector<nlohmann::json> lines = log_of("a");
  EXPECT_EQ(lines[2]["skipped"], "layers.1.attn.wq_a");
  EXPECT_EQ(lines[3]["skipped"], "layers.1.attn.wq_a");
  EXPECT_FALSE(lines[4].contains("skipped"));
}

TEST_F(TrainingRunTest, ThreeSkippedStepsInARowEndTheRun) {
  poisoned_ = {6, 7, 8};
  const std::string error = error_of([this] { train("a"); });
  EXPECT_NE(error.find("layers.1.attn.wq_a"), std::string::npos) << error;
  EXPECT_NE(error.find("checkpoint of step 5 is intact"), std::string::npos) << error;
  poisoned_ = {};
  const Parameters<float> resumed = train("a", {.resume = true});
  expect_same(train("b"), resumed);
}

TEST_F(TrainingRunTest, Refusals) {
  train("a", {.stop_step = 2});
  EXPECT_NE(error_of([this] { train("a"); }).find("‹resume›"), std::string::npos);
  EXPECT_NE(error_of([this] { train("b", {.resume = true}); }).find("no checkpoint"), std::string::npos);
  const RunFolder held(folder_ / "held");
  EXPECT_NE(error_of([this] { train("held"); }).find("another process trains"), std::string::npos);
  config_.schedule.learning_rate = 0.06;
  config_.muon.momentum = 0.9;
  const std::string error = error_of([this] { train("a", {.resume = true}); });
  EXPECT_NE(error.find("schedule.learning_rate: 0.05 before, 0.06 now"), std::string::npos) << error;
  EXPECT_NE(error.find("muon.momentum: 0.95 before, 0.9 now"), std::string::npos) << error;
}

TEST_F(TrainingRunTest, ADamagedCheckpointIsASentence) {
  train("a", {.stop_step = 2});
  const fs::path state = RunFolder(folder_ / "a").checkpoint(2) / "state.safetensors";
  fs::resize_file(state, fs::file_size(state) / 2);
  EXPECT_NE(error_of([this] { train("a", {.resume = true}); }), "");
}

TEST_F(TrainingRunTest, AnExportedModelHasTheReleasedLayout) {
  const Parameters<float> weights = train("a", {.stop_step = 1});
  ThreadPool pool(2);
  export_model(folder_ / "model", config_, weights, make_token_tables(config_.model, 1), false, pool);
  const ModelConfig model = load_config(folder_ / "model");
  EXPECT_EQ(model, config_.model);
  EXPECT_TRUE(mismatches(model, Checkpoint(folder_ / "model")).empty());
  EXPECT_TRUE(fs::exists(folder_ / "model" / "tokenizer.json"));
}

}  // namespace
}  // namespace baleen
