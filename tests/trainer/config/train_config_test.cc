// A run's configuration: what a file says, what it may not say, and what differs between two.
#include "trainer/config/train_config.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "trainer/config/train_config_fields.h"

namespace baleen {
namespace {

const std::string kSmallest = R"([run]
folder = "runs/a"
steps = 100
[model]
preset = "tiny-flash"
[data]
folder = "data"
sequence_length = 256
batch_rows = 8
)";

TrainConfig parsed(const std::string& text) { return parse_train_config(text, "a.toml", "/base"); }

std::string error_of(const std::string& text) {
  try {
    parsed(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

/// `kSmallest` with the first occurrence of `from` replaced.
std::string with(const std::string& from, const std::string& to) {
  std::string text = kSmallest;
  return text.replace(text.find(from), from.size(), to);
}

TEST(TrainConfig, DefaultsAreTheReportsValues) {
  const TrainConfig config = parsed(kSmallest);
  EXPECT_EQ(config.run.folder, "/base/runs/a");
  EXPECT_EQ(config.data.folder, "/base/data");
  EXPECT_EQ(config.model.hidden_size, 256);
  EXPECT_EQ(config.muon.momentum, 0.95);
  EXPECT_EQ(config.muon.update_rms, 0.18);
  EXPECT_EQ(config.adamw.epsilon, 1e-20);
  EXPECT_EQ(config.optimizer.matrices, MatrixOptimizer::kMuon);
  EXPECT_EQ(config.run.precision, TrainPrecision::kFloat32);
  EXPECT_FALSE(config.qat.start_step.has_value());
  EXPECT_EQ(config.micro_batch_rows(2), 4);
}

TEST(TrainConfig, TheCommittedOneLoads) {
  const TrainConfig config = load_train_config("configs/stories-cpu.toml");
  EXPECT_EQ(config.model.vocab_size, 4096);
  EXPECT_EQ(config.model.num_nextn_predict_layers, 1);
}

TEST(TrainConfig, FieldsOfTheModelReplaceThoseOfThePreset) {
  const TrainConfig config =
      parsed(with("preset = \"tiny-flash\"",
                  "preset = \"tiny-flash\"\nvocab_size = 4096\ndense_dtype = \"bf16\"\n"
                  "rope_scaling = {factor = 2.0}\ninitializer_range = 0.01"));
  EXPECT_EQ(config.model.vocab_size, 4096);
  EXPECT_EQ(config.model.dense_format, WeightFormat::kBF16);
  EXPECT_EQ(config.model.rope_scaling.factor, 2);
  EXPECT_EQ(config.model.rope_scaling.beta_fast, 32);
  EXPECT_EQ(config.initializer_range, 0.01);
}

TEST(TrainConfig, ErrorsNameKeyLineAndRange) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {with("steps = 100", "steps = 0"), "a.toml, line 3: run.steps: expected a whole number from 1 to "},
      {with("steps = 100", "steps = \"many\""), "found 'many'"},
      {with("steps = 100", "steps = 1e3"), "a.toml, line 3: run.steps: expected a whole number"},
      {with("steps = 100", ""), "a.toml: run.steps is missing; expected a whole number"},
      {with("batch_rows = 8", ""), "data.batch_rows is missing"},
      {kSmallest + "[rollout]\n", "rollout.prompts: expected the name of a file; found none"},
      {kSmallest + "[grpo]\n",
       "rollout.prompts: expected a section [rollout] beside [grpo], [distill] or [sft]"},
      {kSmallest + "[rollout]\nprompts = \"p\"\n",
       "run.from: expected the checkpoint whose policy is trained"},
      {kSmallest + "[tune]\ntensors = [\"layer.*\"]\n", "which matches none"},
      {with("steps = 100", "step = 100"), "a.toml, line 3: run.step: no such key; did you mean steps?"},
      {with("[data]", "[date]"), "a.toml, line 6: \"date\": no such section; did you mean data?"},
      {with("[data]", "data = 7\n[run2]"), "no such"},
      {with("steps = 100", "steps = 100\nseed = -1"), "a.toml, line 4: run.seed: expected a whole number"},
      {with("steps = 100", "steps = 100\nprecision = \"fp16\""), "expected \"float32\" or \"bf16\"; found"},
      {with("steps = 100", "steps = 100\nrecompute = 1"), "run.recompute: expected true or false; found 1"},
      {with("folder = \"runs/a\"", "folder = 7"),
       "a.toml, line 2: run.folder: expected the name of a folder"},
      {kSmallest + "[muon]\nmomentum = nan\n", "a.toml, line 11: muon.momentum: expected a number from 0 to"},
      {kSmallest + "[muon]\nmomentum = 1.0\n", "muon.momentum: expected"},
      {kSmallest + "[adamw]\nepsilon = 0\n", "adamw.epsilon: expected a number above 0"},
      {kSmallest + "[evaluation]\nprompts = [1]\n", "evaluation.prompts: expected a list of texts; found 1"},
      {kSmallest + "[schedule]\nwarmup_steps = 60\ndecay_steps = 50\n",
       "a.toml, line 12: schedule.decay_steps: expected warmup_steps + decay_steps within run.steps, 100; "
       "found 60 "
       "+ 50"},
      {kSmallest + "[schedule]\nfinal_learning_rate = 0.5\n", "at most learning_rate"},
      {with("batch_rows = 8", "batch_rows = 8\nmicro_batch_rows = 3"),
       "expected a divisor of batch_rows, 8; found 3"},
      {kSmallest + "[qat]\nstart_step = 101\n", "qat.start_step: expected at most run.steps"},
      {with("tiny-flash", "tiny-flahs"), "did you mean tiny-flash?"},
      {with("preset = \"tiny-flash\"", ""), "model.vocab_size is missing; expected it, or model.preset"},
      {with("[data]", "hidden_siez = 1\n[data]"),
       "model.hidden_siez: no such key; did you mean hidden_size?"},
      {with("[data]", "hidden_size = \"x\"\n[data]"),
       "a.toml, line 6: model.hidden_size: expected a whole number, found \"x\""},
      {with("[data]", "hidden_size = 0\n[data]"), "expected a number from 1 to 1048576, found 0"},
      {with("[data]", "hidden_size = 100\n[data]"),
       "a.toml: [model]: \"hidden_size\" must be a multiple of 128"},
      {with("[data]", "scoring_func = \"relu\"\n[data]"), "model.scoring_func: expected \"sqrtsoftplus\" or"},
      {with("[data]", "[data"), "a.toml, line 6, column"},
      {kSmallest + kSmallest, "a.toml, line 10, column"},
  };
  for (const auto& [text, expected] : cases) {
    const std::string error = error_of(text);
    EXPECT_NE(error.find(expected), std::string::npos) << "expected: " << expected << "\nfound: " << error;
  }
}

TEST(TrainConfig, StagesOfTheIndexersFitTheRunAndTheModel) {
  EXPECT_EQ(parsed(kSmallest + "[indexer]\ndense_steps = 60\nwarmup_steps = 40\n").indexer.warmup_steps, 40);
  EXPECT_NE(
      error_of(kSmallest + "[indexer]\ndense_steps = 60\nwarmup_steps = 41\n")
          .find("line 11: indexer.dense_steps: expected dense_steps + warmup_steps within run.steps, 100"),
      std::string::npos);
  EXPECT_NE(error_of(kSmallest + "[indexer]\nwarmup_steps = 4\n[loss]\nindexer_weight = 0\n")
                .find("line 13: loss.indexer_weight: expected above 0"),
            std::string::npos);
  const std::string without = with("preset = \"tiny-flash\"",
                                   "preset = \"tiny-flash\"\nnum_hidden_layers = 2\ncompress_ratios = [0, "
                                   "128, 0]");
  EXPECT_NE(error_of(without + "[indexer]\nwarmup_steps = 4\n").find("without indexers"), std::string::npos);
}

TEST(TrainConfig, PlainResidualsAreThoseOfANewModel) {
  const std::string plain = kSmallest + "[ablation]\nplain_residual = true\n";
  EXPECT_EQ(parsed(plain).model.hc_mult, 1);
  EXPECT_EQ(parsed(kSmallest).model.hc_mult, 4);
  EXPECT_NE(error_of(plain + "[lora]\nrank = 4\n")
                .find("line 11: ablation.plain_residual: expected false with [lora]"),
            std::string::npos);
}

TEST(TrainConfig, AnyBytesGiveASentence) {
  for (std::size_t size = 0; size < kSmallest.size(); ++size)
    EXPECT_NE(error_of(kSmallest.substr(0, size)), "");
  EXPECT_NE(error_of(std::string(100'000, '[')), "none");
  EXPECT_NE(error_of(std::string("\0\xFF", 2)), "none");
}

TEST(TrainConfig, AMicroBatchHasABound) {
  const std::string rows = with("batch_rows = 8", "batch_rows = 16777216");
  EXPECT_NE(error_of(rows).find("data.batch_rows: expected at most 67,108,864 tokens of a micro-batch"),
            std::string::npos)
      << error_of(rows);
  EXPECT_EQ(error_of(with("batch_rows = 8", "batch_rows = 16777216\nmicro_batch_rows = 8")), "none");
}

TEST(TrainConfig, NestingIsBoundedBeforeTheLibrarySeesIt) {
  const auto repeated = [](const std::string& piece, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += piece;
    return text;
  };
  for (const int count : {40, 100'000}) {
    for (const std::string& line :
         {"[" + repeated("a.", count) + "a]", "[[" + repeated("a . ", count) + "a]]",
          repeated("a.", count) + "a = 1", "[run]\nx = {" + repeated("\"a\".", count) + "a = 1}",
          "x = " + repeated("[", count) + repeated("]", count),
          "x = " + repeated("{a = ", count) + "1" + repeated("}", count), "x = " + repeated("[", count)}) {
      const std::string error = error_of(kSmallest + "y = \"\"\"\n'\n\"\"\"\n" + line);
      EXPECT_TRUE(error.starts_with("a.toml, line 1")) << line.substr(0, 40) << ": " << error;
      EXPECT_LT(error.size(), 300U);
    }
  }
  // Dots and brackets of strings, comments and numbers do not nest.
  std::string prompts;
  for (int i = 0; i < 200; ++i) prompts += "\"a.b[{'.\", '...[', ";
  EXPECT_EQ(error_of(with("steps = 100", "steps = 100 # " + repeated("[.", 200)) +
                     "[evaluation]\nprompts = [" + prompts + "\"\"\"" + repeated("[.", 200) + "\"\"\"]\n"),
            "none");
}

TEST(TrainConfig, CanonicalTextAndHashDependOnValuesAlone) {
  const TrainConfig config = parsed(kSmallest);
  const TrainConfig spelt = parsed("# the same\n" + kSmallest + "[muon]\nmomentum = 0.95\n");
  EXPECT_EQ(canonical_text(spelt), canonical_text(config));
  EXPECT_EQ(config_hash(spelt), config_hash(config));
  EXPECT_NE(canonical_text(config).find("schedule.learning_rate = 0.00027\n"), std::string::npos)
      << canonical_text(config);
  EXPECT_NE(canonical_text(config).find("qat.start_step = never\n"), std::string::npos);
  EXPECT_TRUE(config_differences(canonical_text(config), spelt).empty());
}

TEST(TrainConfig, DifferencesAreNamedWhereTheyMatter) {
  const TrainConfig before = parsed(kSmallest);
  TrainConfig now = parsed(kSmallest);
  now.run.folder = "/elsewhere";
  now.run.threads = 3;
  now.checkpoint.interval = 7;
  EXPECT_TRUE(config_differences(canonical_text(before), now).empty());
  EXPECT_EQ(config_hash(before), config_hash(now));
  now.muon.momentum = 0.9;
  now.qat.start_step = 50;
  now.model.vocab_size = 600;
  EXPECT_EQ(
      config_differences(canonical_text(before), now),
      (std::vector<std::string>{"muon.momentum: 0.95 before, 0.9 now", "qat.start_step: never before, 50 now",
                                "model.config.vocab_size: 512 before, 600 now"}));
  EXPECT_NE(config_hash(before), config_hash(now));
  EXPECT_EQ(config_differences(canonical_text(before) + "muon.gone = 1\n", before),
            (std::vector<std::string>{"muon.gone: 1 before, no such key now"}));
}

}  // namespace
}  // namespace baleen
