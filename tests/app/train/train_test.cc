// `baleen train` as a user runs it, on a model and a corpus that are small enough for a test.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "tests/support/run_program.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::ProgramResult;
using test::TemporaryFolder;

constexpr unsigned kSeconds = 500;  // a hang is endless

constexpr const char* kConfig = R"(
[run]
folder = "run"
steps = 20
[model]
preset = "tiny-flash"
vocab_size = 300
hidden_size = 128
num_hidden_layers = 2
num_hash_layers = 1
compress_ratios = [0, 4, 0]
num_attention_heads = 2
q_lora_rank = 128
o_groups = 1
o_lora_rank = 128
n_routed_experts = 4
num_experts_per_tok = 2
moe_intermediate_size = 128
[data]
folder = "data"
sequence_length = 64
batch_rows = 4
micro_batch_rows = 2
[schedule]
learning_rate = 0.01
warmup_steps = 2
[checkpoint]
interval = 2
[evaluation]
interval = 10
rows = 4
)";

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

ProgramResult baleen(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), BALEEN_PROGRAM);
  return test::run_program(arguments, {.seconds = kSeconds});
}

class TrainCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream corpus(folder_ / "corpus.jsonl");
    for (int i = 0; i < 80; ++i)
      corpus << json{{"text", "The fox number " + std::to_string(i) + " ran and slept until the morning."}}
             << "\n";
    corpus.close();
    write_config(kConfig);
    ASSERT_EQ(baleen({"tokenizer", "train", folder_ / "corpus.jsonl", "--vocab-size", "300", "--out",
                      folder_ / "tokenizer"})
                  .status,
              0);
    const ProgramResult packed =
        baleen({"data", "pack", folder_ / "corpus.jsonl", "--tokenizer", folder_ / "tokenizer", "--out",
                folder_ / "data", "--held-out", "0.2"});
    ASSERT_EQ(packed.status, 0) << packed.err;
  }

  void write_config(const std::string& text) const { std::ofstream(folder_ / "run.toml") << text; }

  ProgramResult train(const std::string& out, std::vector<std::string> flags = {}) const {
    std::vector<std::string> arguments{"train", folder_ / "run.toml", "--out", folder_ / out};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return baleen(arguments);
  }

  std::vector<json> log_of(const std::string& out) const {
    std::ifstream log(folder_ / out / "log.jsonl");
    std::vector<json> lines;
    for (std::string line; std::getline(log, line);) lines.push_back(json::parse(line));
    return lines;
  }

  /// Weights and optimiser states after so many steps.
  std::string state(const std::string& out, int step) const {
    char name[32];
    std::snprintf(name, sizeof name, "step-%09d", step);
    return read(folder_ / out / name / "state.safetensors");
  }

  /// Starts a run, sends `signal` once its first checkpoint is there, and returns how it ended.
  int signalled(const std::string& out, int signal) const {
    const std::string config = folder_ / "run.toml", run = folder_ / out;
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(kSeconds);
      ::execl(BALEEN_PROGRAM, "baleen", "train", config.c_str(), "--out", run.c_str(), "--threads", "1",
              nullptr);
      ::_exit(126);
    }
    int status = 0;
    while (!fs::exists(fs::path(run) / "step-000000002")) {
      if (::waitpid(child, &status, WNOHANG) == child) return status;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ::kill(child, signal);
    ::waitpid(child, &status, 0);
    return status;
  }

  TemporaryFolder folder_;
};

TEST_F(TrainCommand, LowersTheLossAndLeavesAModelToServe) {
  const ProgramResult trained = train("run");
  ASSERT_EQ(trained.status, 0) << trained.err;
  std::ifstream log(folder_ / "run" / "log.jsonl");
  std::vector<double> losses;
  for (std::string line; std::getline(log, line);) {
    const json fields = json::parse(line);
    if (fields.contains("loss")) losses.push_back(fields["loss"]);
  }
  ASSERT_EQ(losses.size(), 20U);
  EXPECT_LT(losses.back(), losses.front() / 4);
  const ProgramResult reply = baleen(
      {"run", "--model", folder_ / "run" / "model", "The fox", "--max-tokens", "4", "--temperature", "0"});
  EXPECT_EQ(reply.status, 0) << reply.err;
  const ProgramResult exported = train("run", {"--export", folder_ / "exported"});
  EXPECT_EQ(exported.status, 0) << exported.err;
  EXPECT_EQ(read(folder_ / "exported" / "model.safetensors"),
            read(folder_ / "run" / "model" / "model.safetensors"));
}

TEST_F(TrainCommand, TheLogHasSpeedShareLoadsAndContinuations) {
  write_config(std::string(kConfig) + "prompts = [\"The fox\", \"\"]\nprompt_tokens = 5\n");
  const ProgramResult trained = train("run");
  ASSERT_EQ(trained.status, 0) << trained.err;
  std::vector<json> continuations;
  for (const json& line : log_of("run")) {
    if (line.contains("continuations")) continuations.push_back(line["continuations"]);
    if (!line.contains("loss")) continue;
    EXPECT_GT(line["tokens_per_second"].get<double>(), 0);
    EXPECT_GT(line["share_of_fma_peak"].get<double>(), 0);
    ASSERT_EQ(line["expert_load"].size(), 3U);  // two layers, and the MTP block with a token less a document
    for (std::size_t layer = 0; layer < 2; ++layer) {
      std::int64_t tokens = 0;
      for (const json& load : line["expert_load"][layer]) tokens += load.get<std::int64_t>();
      EXPECT_EQ(tokens, 2 * line["tokens"].get<std::int64_t>());
    }
  }
  ASSERT_EQ(continuations.size(), 2U);
  EXPECT_EQ(continuations[1][0]["prompt"], "The fox");
  EXPECT_FALSE(continuations[1][0]["text"].get<std::string>().empty());
  EXPECT_EQ(continuations[1].size(), 2U);
}

TEST_F(TrainCommand, AReportShowsTheSeriesOfSeveralRuns) {
  write_config(std::string(kConfig) + "prompts = [\"The <fox>\"]\nprompt_tokens = 2\n");
  ASSERT_EQ(train("a", {"--steps", "3"}).status, 0);
  ASSERT_EQ(train("b", {"--steps", "10"}).status, 0);
  const std::string a = folder_ / "a", b = folder_ / "b", page = folder_ / "report.html";
  const ProgramResult made = baleen({"train", "--report", a, b, "-o", page});
  ASSERT_EQ(made.status, 0) << made.err;
  const std::string html = read(page);
  const auto expect_in_page = [&html](const std::string& words) {
    EXPECT_NE(html.find(words), std::string::npos) << words;
  };
  for (const std::string& run : {a, b}) {
    for (const json& line : log_of(run)) {
      if (!line.contains("loss")) continue;
      for (const char* key : {"loss", "gradient_norm", "learning_rate"}) {
        char point[64];
        std::snprintf(point, sizeof point, ", step %d: %.4g<", line["step"].get<int>(),
                      line[key].get<double>());
        expect_in_page(fs::path(run).filename().string() + point);
      }
    }
  }
  for (const char* id :
       {"loss", "held-out", "gradient-norm", "learning-rate", "speed", "experts-0", "experts-1"})
    expect_in_page("<figure id=\"" + std::string(id) + "\">");
  char held_out[64];
  std::snprintf(held_out, sizeof held_out, ", step 10: %.4g<",
                log_of("b").back()["held_out_bits_per_byte"].get<double>());
  expect_in_page(std::string("b") + held_out);
  expect_in_page("The &lt;fox&gt;");
}

TEST_F(TrainCommand, AReportReadsDamagedLogsAndRefusesOthers) {
  const std::string run = folder_ / "run", page = folder_ / "report.html";
  const auto report = [&] { return baleen({"train", "--report", run, "-o", page}); };
  const auto write_log = [&](const std::string& text) {
    fs::create_directories(run);
    std::ofstream(fs::path(run) / "log.jsonl") << text;
  };
  const auto expect_refused = [&](int status, const ProgramResult& result, const std::string& words) {
    EXPECT_EQ(result.status, status);
    EXPECT_NE(result.err.find(words), std::string::npos) << result.err;
    EXPECT_FALSE(fs::exists(page));
  };
  expect_refused(1, report(), "no log");
  write_log("");
  expect_refused(1, report(), "no step with a loss");
  expect_refused(2, baleen({"train", "--report", run}), "--out FILE");
  write_log(R"({"step": 1, "loss": 2, "expert_load": [[1, 1], "x", 5, [-9223372036854775808, 1]]})"
            "\n"
            R"({"step": 2, "loss": null, "gradient_norm": 1e400, "continuations": [3]})"
            "\n"
            R"({"step": -2, "loss": 1})"
            "\n"
            R"({"step": 3, "loss": 1.5)");
  const ProgramResult damaged = report();
  EXPECT_EQ(damaged.status, 0) << damaged.err;
  EXPECT_NE(read(page).find("lines of the log are damaged"), std::string::npos);
}

TEST_F(TrainCommand, SeveralFilesOfACorpusArePackedTogether) {
  const ProgramResult packed = baleen({"data", "pack", folder_ / "corpus.jsonl", folder_ / "corpus.jsonl",
                                       "--tokenizer", folder_ / "tokenizer", "--out", folder_ / "twice"});
  EXPECT_EQ(packed.status, 0) << packed.err;
}

TEST_F(TrainCommand, BenchTrainTimesEachPartOfAStep) {
  const ProgramResult measured = baleen({"bench", "train", folder_ / "run.toml", "--json", "--threads", "1"});
  ASSERT_EQ(measured.status, 0) << measured.err;
  const json line = json::parse(measured.out);
  EXPECT_EQ(line["tokens"], 256);
  std::set<std::string> parts;
  for (const json& part : line["parts"]) {
    parts.insert(part["part"]);
    EXPECT_GE(part["seconds"].get<double>(), 0);
    EXPECT_EQ(part["flops"].get<double>() > 0,
              part["part"].get<std::string>().find(", ") != std::string::npos);
  }
  for (const char* part :
       {"attention, forward", "experts, backward", "mixing, forward", "head, backward", "Muon"})
    EXPECT_TRUE(parts.contains(part)) << part;
}

TEST_F(TrainCommand, StoppedKilledAndOtherThreadsGiveTheSameBits) {
  const ProgramResult whole = train("whole", {"--steps", "8", "--threads", "1"});
  ASSERT_EQ(whole.status, 0) << whole.err;
  EXPECT_NE(whole.out.find("8 of 20 steps"), std::string::npos) << whole.out;
  ASSERT_FALSE(state("whole", 8).empty());

  ASSERT_EQ(train("parts", {"--steps", "3", "--threads", "2"}).status, 0);
  ASSERT_EQ(train("parts", {"--steps", "8", "--threads", "2", "--concurrent", "2", "--resume"}).status, 0);
  EXPECT_EQ(state("parts", 8), state("whole", 8));

  const int killed = signalled("killed", SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(killed));
  const ProgramResult resumed = train("killed", {"--steps", "8", "--resume"});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  // Where the machine was slow to send the signal, the killed run had gone beyond step 8 already.
  if (!fs::exists(folder_ / "killed" / "step-000000008")) GTEST_SKIP() << "killed after step 8";
  EXPECT_EQ(state("killed", 8), state("whole", 8));
}

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

TEST_F(TrainCommand, ASignalEndsItWithACheckpoint) {
  const int status = signalled("run", SIGTERM);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
  EXPECT_FALSE(fs::exists(folder_ / "run" / "model"));
  std::ifstream log(folder_ / "run" / "log.jsonl");
  int last = 0;
  for (std::string line; std::getline(log, line);) last = json::parse(line)["step"];
  EXPECT_FALSE(state("run", last).empty()) << last;
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
std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    names.insert(entry.path().filename());
  return names;
}

TEST_F(TrainCommand, AFullDiskEndsItAndTheLastCheckpointContinues) {
  ASSERT_EQ(train("run", {"--steps", "2"}).status, 0);
  const std::string before = state("run", 2);
  ASSERT_GT(before.size(), 1U << 20);
  const ProgramResult full =
      test::run_program({BALEEN_PROGRAM, "train", folder_ / "run.toml", "--out", folder_ / "run", "--resume"},
                        {.largest_file_bytes = 1 << 20, .seconds = kSeconds});
  EXPECT_EQ(full.status, 1);
  EXPECT_NE(full.err.find("writing failed: File too large; nothing was left"), std::string::npos) << full.err;
  EXPECT_EQ(names_in(folder_ / "run"), (std::set<std::string>{"lock", "log.jsonl", "step-000000002"}));
  EXPECT_EQ(state("run", 2), before);
  EXPECT_EQ(train("run", {"--steps", "4", "--resume"}).status, 0);
  EXPECT_FALSE(state("run", 4).empty());
}

TEST_F(TrainCommand, ThreeLossesInARowThatAreNoNumbersEndItAndChangeNoWeights) {
  ASSERT_EQ(train("run", {"--steps", "2"}).status, 0);
  // NaNs for the embedding.
  std::string bytes = state("run", 2);
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
  const json header = json::parse(bytes.substr(8, header_bytes));
  for (const auto& [name, tensor] : header.items()) {
    if (!name.ends_with("embed.weight")) continue;
    const std::size_t begin = tensor["data_offsets"][0], end = tensor["data_offsets"][1];
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(8 + header_bytes + begin), end - begin, '\xff');
  }
  const fs::path checkpoint = folder_ / "run" / "step-000000002" / "state.safetensors";
  std::ofstream(checkpoint, std::ios::binary) << bytes;
  const ProgramResult ended = train("run", {"--resume"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_NE(ended.err.find("third step in a row"), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("is intact"), std::string::npos) << ended.err;
  EXPECT_EQ(state("run", 2), bytes);
  EXPECT_EQ(log_of("run").back()["step"], 5);
  EXPECT_TRUE(log_of("run").back().contains("skipped"));
  EXPECT_FALSE(fs::exists(folder_ / "run" / "model"));
}

TEST_F(TrainCommand, ACheckpointOfAnotherShapeIsRefused) {
  ASSERT_EQ(train("run", {"--steps", "1"}).status, 0);
  std::string other = kConfig;
  const std::string width = "moe_intermediate_size = 128";
  other.replace(other.find(width), width.size(), "moe_intermediate_size = 256");
  write_config(other);
  ASSERT_EQ(train("other", {"--steps", "1"}).status, 0);
  const fs::path name = fs::path("step-000000001") / "state.safetensors";
  fs::copy_file(folder_ / "other" / name, folder_ / "run" / name, fs::copy_options::overwrite_existing);
  write_config(kConfig);
  const ProgramResult refused = train("run", {"--resume"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find("state.safetensors"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("256"), std::string::npos) << refused.err;
}

TEST_F(TrainCommand, TooLittleDataIsRefused) {
  const std::string config = kConfig;
  const auto with_data = [&config](const std::string& key, const std::string& value) {
    const std::size_t at = config.find(key);
    return config.substr(0, at) + key + " = " + value + config.substr(config.find('\n', at));
  };
  const auto expect_refused = [this](const std::string& words) {
    const ProgramResult result = train("little");
    EXPECT_EQ(result.status, 1);
    EXPECT_NE(result.err.find(words), std::string::npos) << result.err;
  };
  write_config(with_data("batch_rows", "1000"));
  expect_refused("1,000");
  std::ofstream(folder_ / "empty.jsonl").close();
  const ProgramResult packed = baleen({"data", "pack", folder_ / "empty.jsonl", "--tokenizer",
                                       folder_ / "tokenizer", "--out", folder_ / "empty"});
  EXPECT_EQ(packed.status, 1) << packed.out;
  EXPECT_FALSE(packed.err.empty());
  fs::create_directories(folder_ / "empty");
  std::string empty = config;
  empty.replace(empty.find("\"data\""), 6, "\"empty\"");
  write_config(empty);
  expect_refused("empty");
}

TEST_F(TrainCommand, AFolderInUseIsRefused) {
  fs::create_directories(folder_ / "run");
  const int lock = ::open((folder_ / "run" / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  ASSERT_EQ(::flock(lock, LOCK_EX | LOCK_NB), 0);
  const ProgramResult second = train("run");
  ::close(lock);
  EXPECT_EQ(second.status, 1);
  EXPECT_NE(second.err.find("another process trains in this folder"), std::string::npos) << second.err;
  EXPECT_EQ(names_in(folder_ / "run"), std::set<std::string>{"lock"});
}

TEST_F(TrainCommand, WhatItRefuses) {
  ASSERT_EQ(train("run", {"--steps", "1"}).status, 0);
  const auto expect_refused = [](const ProgramResult& result, const std::string& words) {
    EXPECT_EQ(result.status, 1);
    EXPECT_NE(result.err.find(words), std::string::npos) << result.err;
  };
  expect_refused(train("run"), "--resume continues it");
  expect_refused(train("other", {"--resume"}), "no checkpoint to continue from");
  expect_refused(train("other", {"--export", folder_ / "model"}), "no checkpoint to export");
  expect_refused(train("other", {"--drift"}), "no checkpoint to measure");
  const std::string config = kConfig;
  write_config(config + "[muon]\nmomentum = 0.5\n");
  expect_refused(train("run", {"--resume"}), "muon.momentum: 0.95 before, 0.5 now");
  write_config(config + "[qat]\nstart_step = 21\n");
  expect_refused(train("third"), "qat.start_step: expected at most run.steps, 20");
  write_config(config + "[qat]\nstart_step = -1\n");
  expect_refused(train("third"), "qat.start_step");
  write_config(config + "[balanc]\nbias_speed = 0\n");
  expect_refused(train("third"), "no such section");
  EXPECT_FALSE(fs::exists(folder_ / "third"));
}

}  // namespace
}  // namespace baleen
