// What can be trained: rounded weights, indexers, plain residuals, adapters, replies.
#include <gtest/gtest.h>

#include "train_command.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;
using test::baleen;
using test::json;
using test::kConfig;
using test::ProgramResult;
using test::read;
using test::TrainCommand;

TEST_F(TrainCommand, QuantisationAwareTrainingServesTheLossThatItTrained) {
  write_config(std::string(kConfig) + "[qat]\nstart_step = 10\n");
  const ProgramResult trained = train("run");
  ASSERT_EQ(trained.status, 0) << trained.err;
  const double held_out = log_of("run").back()["held_out_nats_per_token"];
  const ProgramResult measured = train("run", {"--drift"});
  ASSERT_EQ(measured.status, 0) << measured.err;
  long long steps = 0, targets = 0;
  double mean = 1, largest = 1, trainer = 0, engine = 0;
  ASSERT_EQ(
      std::sscanf(measured.out.substr(measured.out.find(": after ")).c_str(),
                  ": after %lld steps, %lld held-out targets: mean difference of token probabilities %lf, "
                  "largest %lf; nats a token: trainer %lf, engine %lf",
                  &steps, &targets, &mean, &largest, &trainer, &engine),
      6)
      << measured.out;
  EXPECT_EQ(steps, 20);
  EXPECT_EQ(targets, log_of("run").back()["held_out_targets"].get<long long>());
  EXPECT_LE(mean, 0.005);
  EXPECT_LE(mean, largest);
  EXPECT_NEAR(trainer, held_out, 2e-6);
  EXPECT_NEAR(engine, held_out, 1e-3 * held_out);
}

TEST_F(TrainCommand, ThePerplexityOfAnExportIsTheLossOfQuantisationAwareTraining) {
  // One document, so that both see the same tokens: the end of the text is a target of training.
  const std::string text = "The fox number 7 slept until number 12 ran, and slept until the morning.";
  std::ofstream(folder_ / "held_out.jsonl") << json{{"text", text}} << "\n";
  std::ofstream(folder_ / "held_out.txt") << text << "<｜end▁of▁sentence｜>";
  const ProgramResult packed =
      baleen({"data", "pack", folder_ / "corpus.jsonl", "--tokenizer", folder_ / "tokenizer", "--out",
              folder_ / "data", "--held-out-file", folder_ / "held_out.jsonl", "--force"});
  ASSERT_EQ(packed.status, 0) << packed.err;
  write_config(std::string(kConfig) + "[qat]\nstart_step = 10\n");
  const ProgramResult trained = train("run");
  ASSERT_EQ(trained.status, 0) << trained.err;
  const json evaluation = log_of("run").back();
  const ProgramResult measured = baleen({"perplexity", "--model", folder_ / "run" / "model", "--text",
                                         folder_ / "held_out.txt", "--precision", "released", "--json"});
  ASSERT_EQ(measured.status, 0) << measured.err;
  const json perplexity = json::parse(measured.out);
  EXPECT_EQ(perplexity["tokens"], evaluation["held_out_targets"]);
  const double held_out = evaluation["held_out_nats_per_token"];
  EXPECT_NEAR(perplexity["nats_per_token"].get<double>(), held_out, 1e-3 * held_out);
}

TEST_F(TrainCommand, QuantisationAwareTrainingBeginsAtItsStepAndResumesToTheBit) {
  ASSERT_EQ(train("plain", {"--steps", "4"}).status, 0);
  write_config(std::string(kConfig) + "[qat]\nstart_step = 2\n");
  ASSERT_EQ(train("whole", {"--steps", "4", "--threads", "1"}).status, 0);
  EXPECT_EQ(state("whole", 2), state("plain", 2));
  EXPECT_NE(state("whole", 4), state("plain", 4));
  for (const char* steps : {"1", "3", "4"}) {
    std::vector<std::string> flags{"--steps", steps, "--threads", "2"};
    if (steps[0] != '1') flags.push_back("--resume");
    ASSERT_EQ(train("parts", flags).status, 0);
  }
  EXPECT_EQ(state("parts", 4), state("whole", 4));
}

/// The arrays of a checkpoint's state by their names.
std::map<std::string, std::string> arrays_of(const std::string& state) {
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, state.data(), sizeof header_bytes);
  std::map<std::string, std::string> arrays;
  const json header = json::parse(state.substr(8, header_bytes));
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    const std::size_t begin = tensor["data_offsets"][0], end = tensor["data_offsets"][1];
    arrays[name] = state.substr(8 + header_bytes + begin, end - begin);
  }
  return arrays;
}

/// Names of weights that differ, those of indexers and those of all else.
struct Differences {
  std::vector<std::string> indexers, others;

  Differences(const std::string& before, const std::string& after) {
    const auto now = arrays_of(after);
    for (const auto& [name, values] : arrays_of(before)) {
      if (values != now.at(name))
        (name.find(".indexer.") != std::string::npos ? indexers : others).push_back(name);
    }
  }
};

TEST_F(TrainCommand, IndexersAreIdleThenLearnAloneThenBesideTheRest) {
  // Longer documents than the default ones, and few entries a query: a choice.
  std::string config = kConfig;
  config.replace(config.find("[data]"), 6, "index_topk = 4\n[data]");
  config.replace(config.find("interval = 2"), 12, "interval = 1\nkeep = 20");
  write_config(config + "[indexer]\ndense_steps = 2\nwarmup_steps = 10\n");
  const ProgramResult trained = train("run", {"--steps", "14", "--threads", "1"});
  ASSERT_EQ(trained.status, 0) << trained.err;

  const Differences idle(state("run", 1), state("run", 2));
  EXPECT_TRUE(idle.indexers.empty()) << idle.indexers.front();
  EXPECT_FALSE(idle.others.empty());
  const Differences alone(state("run", 2), state("run", 12));
  EXPECT_FALSE(alone.indexers.empty());
  EXPECT_TRUE(alone.others.empty()) << alone.others.front();
  const Differences sparse(state("run", 12), state("run", 13));
  EXPECT_FALSE(sparse.indexers.empty());
  EXPECT_FALSE(sparse.others.empty());

  const std::vector<json> log = log_of("run");
  for (const json& line : log) {
    if (!line.contains("loss")) continue;
    const int step = line["step"];
    EXPECT_EQ(line.contains("indexer_loss"), step > 2) << step;
    EXPECT_EQ(line.contains("indexer_gradient_norm"), step > 2) << step;
    EXPECT_GT(line["balance_loss"].get<double>(), 0) << step;
    EXPECT_EQ(line["gradient_norm"] == 0, step > 2 && step <= 12) << step;
  }
  EXPECT_LT(log[12]["indexer_loss"].get<double>(), 0.8 * log[2]["indexer_loss"].get<double>());

  for (const char* steps : {"1", "6", "13", "14"}) {
    std::vector<std::string> flags{"--steps", steps, "--threads", "2", "--concurrent", "2"};
    if (std::string(steps) != "1") flags.push_back("--resume");
    ASSERT_EQ(train("parts", flags).status, 0) << steps;
  }
  EXPECT_EQ(state("parts", 14), state("run", 14));

  const ProgramResult report =
      baleen({"train", "--report", folder_ / "run", "--out", folder_ / "report.html"});
  ASSERT_EQ(report.status, 0) << report.err;
  const std::string page = read(folder_ / "report.html");
  EXPECT_NE(page.find("Loss of the indexers"), std::string::npos);
  EXPECT_NE(page.find("Balance loss"), std::string::npos);
}

TEST_F(TrainCommand, LossesOfWeightZeroAreLeftOut) {
  write_config(std::string(kConfig) + "[loss]\nindexer_weight = 0\n[balance]\nsequence_loss_weight = 0\n");
  ASSERT_EQ(train("run", {"--steps", "2"}).status, 0);
  const json line = log_of("run")[1];
  EXPECT_FALSE(line.contains("indexer_loss"));
  EXPECT_FALSE(line.contains("balance_loss"));
  write_config(std::string(kConfig) + "[balance]\nsequence_loss_weight = 0.5\n");
  ASSERT_EQ(train("balanced", {"--steps", "2"}).status, 0);
  const Differences both(state("run", 2), state("balanced", 2));
  EXPECT_NE(std::ranges::find(both.others, "weight.layers.1.ffn.gate.weight"), both.others.end());
}

TEST_F(TrainCommand, PlainResidualsAreTrainedEvaluatedAndNotExported) {
  write_config(std::string(kConfig) + "[ablation]\nplain_residual = true\n");
  ASSERT_EQ(train("run", {"--steps", "4"}).status, 0);
  const ProgramResult trained = train("run", {"--resume"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_NE(trained.err.find("one residual stream"), std::string::npos) << trained.err;
  EXPECT_FALSE(fs::exists(folder_ / "run" / "model"));
  const std::vector<json> log = log_of("run");
  EXPECT_LT(log[log.size() - 2]["loss"].get<double>(), log[0]["loss"].get<double>() / 4);
  EXPECT_GT(log.back()["held_out_bits_per_byte"].get<double>(), 0);
  for (const auto& [name, values] : arrays_of(state("run", 20)))
    EXPECT_EQ(name.find("hc_"), std::string::npos) << name;
  ASSERT_EQ(train("whole", {"--threads", "1"}).status, 0);
  EXPECT_EQ(state("whole", 20), state("run", 20));
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--export", folder_ / "model"}, {"--drift"}}) {
    const ProgramResult refused = train("run", flags);
    EXPECT_EQ(refused.status, 1);
    EXPECT_NE(refused.err.find("no released layout"), std::string::npos) << refused.err;
  }
  EXPECT_FALSE(fs::exists(folder_ / "model"));
  const ProgramResult adapters = train("adapters", {"--lora", "2"});
  EXPECT_NE(adapters.err.find("ablation.plain_residual = true"), std::string::npos) << adapters.err;
}

TEST_F(TrainCommand, AdaptersOfACheckpointAreTrainedResumedAndMerged) {
  ASSERT_EQ(train("first", {"--steps", "20"}).status, 0);
  const std::string config = kConfig;
  const std::size_t model = config.find("[model]"), data = config.find("[data]");
  write_config(config.substr(0, model) + config.substr(data) + "[tune]\ntensors = [\"layers.1.*\"]\n");
  const std::string from = folder_ / "first" / "model";
  const auto tune = [&](std::vector<std::string> flags, const std::string& out = "tuned") {
    flags.insert(flags.begin(), {"--from", from, "--lora", "2", "--threads", "1"});
    return train(out, std::move(flags));
  };
  const ProgramResult stopped = tune({"--steps", "2"});
  ASSERT_EQ(stopped.status, 0) << stopped.err;
  const std::string state_text = state("tuned", 2);
  EXPECT_NE(state_text.find("weight.layers.1.attn.wq_a.lora_b"), std::string::npos);
  EXPECT_EQ(state_text.find("layers.0.attn.wq_a.lora_b"), std::string::npos);
  const ProgramResult without = train("tuned", {"--from", from, "--resume"});
  EXPECT_NE(without.err.find("lora.rank: 2 before, 0 now"), std::string::npos) << without.err;
  ASSERT_EQ(tune({"--resume", "--steps", "4"}).status, 0);
  ASSERT_EQ(tune({"--steps", "4"}, "whole").status, 0);
  EXPECT_EQ(state("tuned", 4), state("whole", 4));
  const ProgramResult resumed = tune({"--resume"});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  const ProgramResult reply = baleen(
      {"run", "--model", folder_ / "tuned" / "model", "The fox", "--max-tokens", "4", "--temperature", "0"});
  EXPECT_EQ(reply.status, 0) << reply.err;
  EXPECT_NE(read(folder_ / "tuned" / "model" / "model.safetensors"),
            read(fs::path(from) / "model.safetensors"));
}

TEST_F(TrainCommand, ConversationsTuneTheBundledModel) {
  std::ofstream chats(folder_ / "chats.jsonl");
  for (int i = 0; i < 12; ++i)
    chats << json{{"messages",
                   {{{"role", "user"}, {"content", "Number " + std::to_string(i)}},
                    {{"role", "assistant"}, {"content", "The fox slept until the morning."}}}}}
          << "\n";
  chats.close();
  const ProgramResult packed =
      baleen({"data", "pack", folder_ / "chats.jsonl", "--tokenizer", "models/stories", "--out",
              folder_ / "data", "--held-out", "0", "--force"});
  ASSERT_EQ(packed.status, 0) << packed.err;
  write_config(R"(
[run]
folder = "run"
from = ")" + fs::absolute("models/stories").string() +
               R"("
steps = 4
[data]
folder = "data"
sequence_length = 64
batch_rows = 2
[schedule]
learning_rate = 0.001
[optimizer]
matrices = "adamw"
)");
  const ProgramResult trained = train("run");
  ASSERT_EQ(trained.status, 0) << trained.err;
  std::ifstream log(folder_ / "run" / "log.jsonl");
  std::vector<double> losses;
  for (std::string line; std::getline(log, line);) losses.push_back(json::parse(line)["loss"]);
  ASSERT_EQ(losses.size(), 4U);
  EXPECT_LT(losses.back(), losses.front() / 2);
}

/// Names of what is in a folder.

}  // namespace
}  // namespace baleen
