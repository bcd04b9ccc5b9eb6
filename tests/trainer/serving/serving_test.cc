// Training that rounds as the released formats do: its forward against the engine, its weights against an
// export, its gradients.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
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
  Serving() {
    config_.data.folder = "models/stories";  // its tokenizer goes with exports
    set_layers({0, 4, 128, 4, 128});
    std::mt19937 random(10);
    for (std::int64_t i = 0; i < kTokens; ++i)
      batch_.tokens.push_back(
          static_cast<TokenId>(random() % static_cast<unsigned>(config_.model.vocab_size)));
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

  /// A random model with a layer of each ratio and an MTP block.
  void set_layers(std::vector<std::int64_t> ratios) {
    ModelConfig model = preset_config("tiny-flash");
    model.num_hidden_layers = std::ssize(ratios);
    ratios.push_back(0);
    model.compress_ratios = std::move(ratios);
    set_model(std::move(model));
  }

  /// DeepSeek-V4.1 without its draft head.
  void set_v41() { set_model(without_drafts(preset_config("tiny-v41"))); }

  void set_model(ModelConfig model) {
    config_.model = std::move(model);
    files_.emplace(config_.model, 1, config_.data.folder);
    config_.run.from = files_->path();
    weights_ = Parameters<float>(config_.model);
    import_weights(config_, weights_, pool_);
    tables_ = token_tables_of(config_);
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      for (float& value : weights_.values(i)) value *= 1 + 0.02F * normal(random);
    }
  }

  static PassOptions rounding(bool rounds) { return {.rounds_as_released = rounds, .scaled_rope = true}; }

  EngineOptions engine_options(Precision precision = Precision::kReleased) const {
    EngineOptions options{.device = {}, .precision = precision, .num_threads = 2};
    options.max_batch_tokens = options.max_logit_rows = kTokens;
    options.cache_tokens = 512;
    options.drafts = config_.model.num_draft_blocks() > 0;
    return options;
  }

  /// An engine with the weights as they are in memory.
  std::unique_ptr<Engine> engine(Precision precision = Precision::kReleased) {
    return std::make_unique<Engine>(engine_weights(config_.model, weights_, tables_,
                                                   stored_formats(config_.model), config_.data.folder, pool_),
                                    engine_options(precision));
  }

  /// Logits of the main model or of the MTP block, [rows, V].
  std::vector<float> served_logits(Engine& engine, LogitsOf of) const {
    std::vector<float> logits;
    for (const TrainingBatch::Document& document : batch_.documents) {
      const StepInput input{*engine.open({}),
                            std::span(batch_.tokens)
                                .subspan(static_cast<std::size_t>(document.begin),
                                         static_cast<std::size_t>(document.end - document.begin)),
                            WantedLogits::kAll};
      const Result<StepOutput> output = engine.step({&input, 1});
      EXPECT_TRUE(output.ok());
      const ConstActivations<2>& rows =
          of == LogitsOf::kMtp ? output.value().draft_logits : output.value().logits;
      logits.insert(logits.end(), rows.data(), rows.data() + rows.size());
      engine.close(input.sequence, false);
    }
    return logits;
  }

  /// Of each row |difference| / |row| between the trainer's logits and the engine's, in ascending order.
  std::vector<double> errors(bool rounds, LogitsOf of, Precision precision = Precision::kReleased) {
    TrainingGraph<float> graph(config_.model, tables_, pool_);
    const std::vector<float> got = graph.logits(stored(), batch_, rounding(rounds), of);
    const std::vector<float> expected = served_logits(*engine(precision), of);
    EXPECT_EQ(got.size(), expected.size());
    const auto width = static_cast<std::size_t>(config_.model.vocab_size);
    std::vector<double> errors;
    for (std::size_t begin = 0; begin < expected.size(); begin += width) {
      double error = 0, norm = 0;
      for (std::size_t i = begin; i < begin + width; ++i) {
        error += std::pow(static_cast<double>(got[i]) - expected[i], 2);
        norm += std::pow(expected[i], 2);
      }
      errors.push_back(std::sqrt(error / norm));
    }
    std::ranges::sort(errors);
    return errors;
  }

  /// The engine with an export has the logits of one with the weights in memory, and the export's values are
  /// those that `stored` rounds to.
  void expect_exported_weights();

  void cut_into_documents(std::int64_t length) {
    batch_.documents.clear();
    for (std::int64_t begin = 0; begin < kTokens; begin += length) {
      batch_.documents.push_back({begin, std::min(begin + length, kTokens)});
      batch_.is_target[static_cast<std::size_t>(begin)] = 0;
    }
  }

  ThreadPool pool_{2};
  std::optional<test::RandomCheckpoint> files_;
  TrainConfig config_;
  Parameters<float> weights_{preset_config("tiny-flash")};
  TokenTables tables_;
  TrainingBatch batch_;
};

double median(const std::vector<double>& sorted) { return sorted[sorted.size() / 2]; }

// Engine and trainer add products in other orders. Where that moves a value across the border between two
// codes, the later values of a model of random weights have little in common, and so have the rows that see
// them; without such a value they are equal to float32. So documents are short, and medians are compared.
TEST_F(Serving, TheRoundedForwardHasTheLogitsOfReleasedPrecision) {
  cut_into_documents(5);
  for (const LogitsOf of : {LogitsOf::kMain, LogitsOf::kMtp}) {
    const std::vector<double> rounded = errors(true, of), plain = errors(false, of);
    RecordProperty(of == LogitsOf::kMtp ? "mtp" : "main",
                   std::to_string(median(rounded)) + ", not rounded " + std::to_string(median(plain)));
    EXPECT_LT(median(rounded), 1e-3);
    EXPECT_GT(median(plain), 0.03);
  }
}

// In a model of one layer such a value changes few rows, so that a document can be long enough for indexers
// to choose.
TEST_F(Serving, TheRoundedCacheAndIndexersAreTheEngines) {
  for (const std::int64_t ratio : {4, 128}) {
    set_layers({ratio});
    const std::vector<double> rounded = errors(true, LogitsOf::kMain), plain = errors(false, LogitsOf::kMain);
    // Of ratio 128 the last 23 rows see an entry.
    EXPECT_LT(rounded[rounded.size() * 9 / 10], 1e-3) << ratio;
    EXPECT_GT(median(plain), 0.01) << ratio;
  }
}

void Serving::expect_exported_weights() {
  const std::filesystem::path exported = files_->path().parent_path() / "exported";
  export_model(exported, config_, weights_, tables_, false, pool_);
  Engine of_export(exported, engine_options());
  EXPECT_EQ(served_logits(of_export, LogitsOf::kMain), served_logits(*engine(), LogitsOf::kMain));
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

TEST_F(Serving, TheRoundedWeightsAreThoseOfAnExport) { expect_exported_weights(); }
TEST_F(Serving, TheRoundedWeightsOfV41AreThoseOfAnExport) {
  set_v41();
  expect_exported_weights();
}

// Selections and candidates are made of scores that differ in their last bits alone, so they are the same.
TEST_F(Serving, TheForwardOfV41HasTheLogitsOfExactPrecision) {
  set_v41();
  const std::vector<double> of_rows = errors(false, LogitsOf::kMain, Precision::kExact);
  RecordProperty("largest", std::to_string(of_rows.back() * 1e6) + "e-6");
  EXPECT_LT(of_rows.back(), 1e-5);
}

TEST_F(Serving, TheRoundedForwardOfV41HasTheLogitsOfReleasedPrecision) {
  set_v41();
  cut_into_documents(5);
  const std::vector<double> rounded = errors(true, LogitsOf::kMain), plain = errors(false, LogitsOf::kMain);
  RecordProperty("main", std::to_string(median(rounded)) + ", not rounded " + std::to_string(median(plain)));
  EXPECT_LT(median(rounded), 1e-3);
  EXPECT_GT(median(plain), 0.03);
}

TEST_F(Serving, GradientsPassTheRoundingsStraightThrough) {
  set_layers({4});
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
