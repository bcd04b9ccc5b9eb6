// Training that rounds as the released formats do: its forward against the engine, its weights against an
// export, its gradients.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>

#include "engine/engine.h"
#include "model/presets.h"
#include "tests/support/random_checkpoint.h"
#include "trainer/graph/model.h"
#include "trainer/run/export.h"
#include "trainer/run/import.h"
#include "trainer/run/stored_weights.h"
#include "trainer/serving/engine_weights.h"

namespace baleen {
namespace {

constexpr std::int64_t kTokens = 150;

/// Masters near the values of a random checkpoint, so that rounding changes them, and tokens: enough for the
/// indexers to leave entries out.
class Serving : public ::testing::Test {
 protected:
  Serving() : files_(preset_config("tiny-flash")), weights_(preset_config("tiny-flash")) {
    config_.model = preset_config("tiny-flash");
    config_.model.index_topk = 16;
    config_.run.from = files_.path();
    config_.data.folder = "models/stories";  // its tokenizer goes with exports
    import_weights(config_, weights_, pool_);
    tables_ = hash_tables_of(config_);
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      for (float& value : weights_.values(i)) value *= 1 + 0.02F * normal(random);
    }
    for (std::int64_t i = 0; i < kTokens; ++i)
      batch_.tokens.push_back(static_cast<TokenId>(random() % static_cast<unsigned>(config_.model.vocab_size)));
    batch_.is_target.assign(kTokens, 1);
    batch_.is_target[0] = 0;
    batch_.documents = {{0, kTokens}};
    batch_.row_begin = {0, kTokens};
    batch_.num_global_targets = kTokens - 1;
  }

  Parameters<float> stored() {
    Parameters<float> stored(config_.model);
    round_to_stored(weights_, stored_formats(config_.model), stored, pool_);
    return stored;
  }

  static PassOptions rounding(bool rounds) { return {.rounds_as_released = rounds, .scaled_rope = true}; }

  ThreadPool pool_{2};
  test::RandomCheckpoint files_;
  TrainConfig config_;
  Parameters<float> weights_;
  HashTables tables_;
  TrainingBatch batch_;
};

/// Mean over the rows of |difference| / |row|.
double relative_error(std::span<const float> got, std::span<const float> expected, std::int64_t rows) {
  const std::size_t width = expected.size() / static_cast<std::size_t>(rows);
  double sum = 0;
  for (std::size_t begin = 0; begin < expected.size(); begin += width) {
    double error = 0, norm = 0;
    for (std::size_t i = begin; i < begin + width; ++i) {
      error += std::pow(static_cast<double>(got[i]) - expected[i], 2);
      norm += std::pow(expected[i], 2);
    }
    sum += std::sqrt(error / norm);
  }
  return sum / static_cast<double>(rows);
}

TEST_F(Serving, TheRoundedForwardHasTheLogitsOfReleasedPrecision) {
  EngineOptions options{.device = {}, .precision = Precision::kReleased, .num_threads = 2};
  options.max_batch_tokens = options.max_logit_rows = kTokens;
  options.cache_tokens = 512;
  options.mtp = true;
  Engine engine(engine_weights(config_.model, weights_, tables_, stored_formats(config_.model), pool_), options);
  const StepInput input{*engine.open({}), batch_.tokens, WantedLogits::kAll};
  const Result<StepOutput> output = engine.step({&input, 1});
  ASSERT_TRUE(output.ok());
  const auto values_of = [](const ConstActivations<2>& rows) {
    return std::span(rows.data(), static_cast<std::size_t>(rows.size()));
  };
  TrainingGraph<float> graph(config_.model, tables_, pool_);
  const Parameters<float> weights = stored();
  for (const LogitsOf of : {LogitsOf::kMain, LogitsOf::kMtp}) {
    const bool mtp = of == LogitsOf::kMtp;
    const std::span<const float> expected =
        values_of(mtp ? output.value().mtp_logits : output.value().logits);
    const std::int64_t rows = mtp ? kTokens - 1 : kTokens;
    const double rounded = relative_error(graph.logits(weights, batch_, rounding(true), of), expected, rows);
    const double plain = relative_error(graph.logits(weights, batch_, rounding(false), of), expected, rows);
    RecordProperty(mtp ? "mtp" : "main", std::to_string(rounded) + ", not rounded " + std::to_string(plain));
    EXPECT_LT(rounded, 0.01);
    EXPECT_LT(rounded, plain / 4);
  }
}

TEST_F(Serving, TheRoundedWeightsAreThoseOfAnExport) {
  const std::filesystem::path exported = files_.path().parent_path() / "exported";
  export_model(exported, config_, weights_, tables_, false, pool_);
  config_.run.from = exported;
  Parameters<float> read(config_.model);
  import_weights(config_, read, pool_);
  const Parameters<float> rounded = stored();
  weights_ = rounded;
  const Parameters<float> again = stored();
  for (std::size_t i = 0; i < read.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(read.values(i), rounded.values(i))) << read.spec(i).name;
    EXPECT_TRUE(std::ranges::equal(again.values(i), rounded.values(i))) << read.spec(i).name;
  }
}

TEST_F(Serving, GradientsPassTheRoundingsStraightThrough) {
  const Parameters<float> weights = stored();
  Parameters<float> with(config_.model), without(config_.model), one_thread(config_.model);
  TrainingGraph<float> graph(config_.model, tables_, pool_);
  graph.run(weights, batch_, rounding(true), &with);
  graph.run(weights, batch_, rounding(false), &without);
  ThreadPool one(1);
  TrainingGraph<float>(config_.model, tables_, one).run(weights, batch_, rounding(true), &one_thread);
  double inner = 0, norm_with = 0, norm_without = 0;
  for (std::size_t i = 0; i < with.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(with.values(i), one_thread.values(i))) << with.spec(i).name;
    for (std::size_t at = 0; at < with.values(i).size(); ++at) {
      const double a = with.values(i)[at], b = without.values(i)[at];
      inner += a * b;
      norm_with += a * a;
      norm_without += b * b;
    }
  }
  RecordProperty("cosine", std::to_string(inner / std::sqrt(norm_with * norm_without)));
  EXPECT_GT(inner / std::sqrt(norm_with * norm_without), 0.99);
  EXPECT_NEAR(norm_with / norm_without, 1, 0.05);
}

}  // namespace
}  // namespace baleen
