// First weights from a checkpoint: the bundled model, as the engine runs it.
#include "trainer/run/import.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "engine/engine.h"
#include "sampling/softmax_weights.h"
#include "tests/support/temporary_folder.h"
#include "tokenizer/tokenizer.h"
#include "trainer/graph/model.h"
#include "trainer/run/export.h"

namespace baleen {
namespace {

using test::TemporaryFolder;

constexpr const char* kStoriesConfig = R"(
[run]
folder = "run"
steps = 1
[data]
folder = "models/stories"
sequence_length = 64
batch_rows = 1
)";

TrainConfig stories_config(const std::string& more = "") {
  return parse_train_config(kStoriesConfig + more, "test.toml", ".", "models/stories");
}

std::vector<TokenId> story() {
  const Tokenizer tokenizer = Tokenizer::load("models/stories");
  std::vector<TokenId> tokens =
      tokenizer.encode("Once upon a time there was a little fox who lived in the hills.").value();
  tokens.insert(tokens.begin(), *tokenizer.bos());
  return tokens;
}

/// -log p of each token of the story after the first, as `baleen perplexity --precision exact` sums it.
double engine_loss(const std::vector<TokenId>& tokens) {
  const auto size = static_cast<std::int64_t>(tokens.size());
  Engine engine("models/stories", {.device = {},
                                   .precision = Precision::kExact,
                                   .num_threads = 2,
                                   .max_batch_tokens = size,
                                   .max_logit_rows = size,
                                   .cache_tokens = 256});
  const StepInput input{*engine.open({}), std::span(tokens).first(tokens.size() - 1), WantedLogits::kAll};
  const Result<StepOutput> output = engine.step({&input, 1});
  double sum = 0;
  for (std::int64_t row = 0; row + 1 < size; ++row) {
    const std::span<const float> logits = output.value().logits.row(row);
    sum += log_sum_exp(logits, logit_extremes(logits).max) -
           logits[static_cast<std::size_t>(tokens[static_cast<std::size_t>(row) + 1])];
  }
  return sum;
}

double trainer_loss(const TrainConfig& config, const Parameters<float>& weights,
                    const std::vector<TokenId>& tokens, ThreadPool& pool) {
  TrainingBatch batch;
  batch.tokens = tokens;
  batch.is_target.assign(tokens.size(), 1);
  batch.is_target.front() = 0;
  batch.documents = {{0, batch.num_tokens()}};
  batch.row_begin = {0, batch.num_tokens()};
  batch.num_global_targets = batch.num_tokens() - 1;
  const TokenTables tables = token_tables_of(config);
  TrainingGraph<float> graph(config.model, tables, pool);
  return graph.run(weights, batch, {.mtp_weight = 0, .scaled_rope = true}, nullptr).loss_sum;
}

TEST(Import, TheLossBeforeTrainingIsTheEnginesOfTheSameCheckpoint) {
  ThreadPool pool(2);
  const TrainConfig config = stories_config();
  Parameters<float> weights(config.model);
  import_weights(config, weights, pool);
  const std::vector<TokenId> tokens = story();
  const double expected = engine_loss(tokens);
  EXPECT_NEAR(trainer_loss(config, weights, tokens, pool), expected, 1e-4 * expected);
}

TEST(Import, AnExportWithoutStepsBetweenLosesNothing) {
  ThreadPool pool(2);
  TrainConfig config = stories_config();
  Parameters<float> weights(config.model);
  import_weights(config, weights, pool);
  const TemporaryFolder folder;
  export_model(folder / "model", config, weights, token_tables_of(config), false, pool);
  TrainConfig again = config;
  again.run.from = folder / "model";
  Parameters<float> reread(config.model);
  import_weights(again, reread, pool);
  for (std::size_t i = 0; i < weights.size(); ++i)
    EXPECT_TRUE(std::ranges::equal(weights.values(i), reread.values(i))) << weights.spec(i).name;
  EXPECT_EQ(token_tables_of(config).experts, token_tables_of(again).experts);
}

TEST(Import, AModelOfAnotherShapeIsRefusedWithItsTensors) {
  ThreadPool pool(1);
  const TrainConfig config = stories_config("[model]\nn_routed_experts = 4\n");
  Parameters<float> weights(config.model);
  try {
    import_weights(config, weights, pool);
    FAIL() << "no error";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("leave [model] out"), std::string::npos) << text;
    EXPECT_NE(text.find("tensor \"layers."), std::string::npos) << text;
  }
  EXPECT_THROW((void)parse_train_config(kStoriesConfig, "test.toml", ".", "no such folder"), Error);
  EXPECT_THROW((void)stories_config("[tune]\ntensors = [\"layer.*\"]\n"), Error);
}

}  // namespace
}  // namespace baleen
