// Runs of a tiny DeepSeek-V4.1: what it learns, and that neither stopping nor threads change a bit of it.
#include <gtest/gtest.h>

#include "tests/trainer/run/toy_run.h"
#include "trainer/run/graph_workers.h"
#include "trainer/run/import.h"

namespace baleen {
namespace {

/// Documents of a row have more entries than candidates, and those more than are selected.
constexpr const char* kV41Config = R"(
[run]
folder = "run"
steps = 9
[model]
preset = "tiny-v41"
num_nextn_predict_layers = 0
n_routed_experts = 4
index_topk = 8
[data]
folder = "data"
sequence_length = 64
batch_rows = 4
micro_batch_rows = 2
[schedule]
learning_rate = 0.004
warmup_steps = 1
decay_steps = 4
[indexer]
dense_steps = 2
warmup_steps = 2
[checkpoint]
interval = 3
keep = 3
[evaluation]
interval = 9
rows = 4
)";

class V41Run : public test::ToyRun {
 protected:
  V41Run() {
    config_ = parse_train_config(kV41Config, "test.toml", folder_.path());
    tables_ = token_tables_of(config_);
  }

  Parameters<float> train_v41(const std::string& name, TrainingRunOptions options = {}, int num_threads = 1) {
    ThreadPool pool(num_threads);
    GraphWorkers workers(config_, tables_, config_.num_micro_batches(1), num_threads);
    const RunFolder folder(folder_ / name);
    TrainingRun run(config_, folder, workers.losses(), std::move(options), pool);
    run.run();
    return run.state().weights;
  }

  TokenTables tables_;
};

TEST_F(V41Run, LearnsAndGivesTheSameBitsHoweverItRuns) {
  const Parameters<float> whole = train_v41("whole");
  const std::vector<nlohmann::json> log = log_of("whole");
  ASSERT_GE(log.size(), 9U);
  EXPECT_LT(log[8]["loss"].get<double>(), 0.5 * log[0]["loss"].get<double>());
  // Steps of each stage of the indexers: before they learn, alone, and while they select.
  EXPECT_FALSE(log[0].contains("indexer_loss"));
  EXPECT_EQ(log[2]["gradient_norm"], 0);
  EXPECT_GT(log[2]["indexer_gradient_norm"], 0);
  EXPECT_GT(log[8]["indexer_gradient_norm"], 0);

  static_cast<void>(train_v41("stopped", {.stop_step = 4}, 2));
  expect_same(train_v41("stopped", {.resume = true}, 2), whole);
}

TEST_F(V41Run, RefusesTheDraftHeadAndOneStream) {
  std::string text = kV41Config;
  const auto refused = [&] {
    return error_of([&] { static_cast<void>(parse_train_config(text, "test.toml", folder_.path())); });
  };
  const std::string key = "num_nextn_predict_layers = 0\n";
  text.erase(text.find(key), key.size());
  EXPECT_NE(refused().find("test.toml: model.num_nextn_predict_layers: expected 0"), std::string::npos)
      << refused();
  text = std::string(kV41Config) + "[ablation]\nplain_residual = true\n";
  EXPECT_NE(refused().find("test.toml, line 29: ablation.plain_residual"), std::string::npos) << refused();
}

TEST_F(V41Run, RefusesATokenizerThatNgramsWereNotHashedBy) {
  config_.model.engram->compressed_vocab_size = 3000;
  const std::string why = error_of([&] { static_cast<void>(token_tables_of(config_)); });
  EXPECT_NE(why.find("3372"), std::string::npos) << why;
}

}  // namespace
}  // namespace baleen
