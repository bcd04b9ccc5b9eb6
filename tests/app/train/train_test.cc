// Runs: what they write, how they end and continue, what they refuse.
#include <gtest/gtest.h>

#include "tests/support/baleen_program.h"
#include "train_command.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;
using test::baleen;
using test::json;
using test::kConfig;
using test::kSeconds;
using test::ProgramResult;
using test::read;
using test::TrainCommand;

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
  const ProgramResult again = train("run", {"--export", folder_ / "exported"});
  EXPECT_NE(again.err.find("pass --force to replace the checkpoint in it"), std::string::npos) << again.err;
  EXPECT_EQ(train("run", {"--export", folder_ / "exported", "--force"}).status, 0);
  for (const char* words : {"steps: ", " s predicted", "memory: ", " MB planned"})
    EXPECT_NE(trained.out.find(words), std::string::npos) << trained.out;
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
    EXPECT_GT(line["predicted_seconds"].get<double>(), 0);
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
    EXPECT_GT(part["predicted_seconds"].get<double>(), 0) << part["part"];
    EXPECT_EQ(part["flops"].get<double>() > 0,
              part["part"].get<std::string>().find(", ") != std::string::npos);
  }
  for (const char* part :
       {"attention, forward", "experts, backward", "mixing, forward", "head, backward", "Muon"})
    EXPECT_TRUE(parts.contains(part)) << part;
}

TEST_F(TrainCommand, SimulateTrainPricesAFileOfARun) {
  const auto simulate = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"simulate", "train", "--config", folder_ / "run.toml", "--device",
                                 "zen5-2-cores", "--num-devices", "1"});
    return baleen(flags);
  };
  const ProgramResult priced = simulate({"--json"});
  ASSERT_EQ(priced.status, 0) << priced.err;
  const json line = json::parse(priced.out);
  double seconds = 0;
  for (const json& part : line["parts"]) seconds += part["seconds"].get<double>();
  EXPECT_NEAR(line["step_seconds"].get<double>(), seconds, 1e-9 * seconds);
  EXPECT_GT(line["memory"]["kept activations"].get<std::int64_t>(), 0);
  const ProgramResult table = simulate({});
  EXPECT_NE(table.out.find("attention, backward"), std::string::npos) << table.out;
  for (const std::vector<std::string>& flags : {std::vector<std::string>{"--model", "flash"},
                                                {"--layers", "2"},
                                                {"--tp", "1"},
                                                {"--dp", "1"},
                                                {"--pp", "2"},
                                                {"--expert-placement", "linear"},
                                                {"--dbo"},
                                                {"--reserved-memory-gb", "1"},
                                                {"--sequence-length", "64"},
                                                {"--html", folder_ / "page.html"}}) {
    const ProgramResult refused = simulate(flags);
    EXPECT_EQ(refused.status, 2) << flags.front();
    EXPECT_EQ(refused.out, "");
    EXPECT_NE(refused.err.find("--config and " + flags.front() + ": "), std::string::npos) << refused.err;
    EXPECT_NE(refused.err.find("leave out " + flags.front()), std::string::npos) << refused.err;
  }
  EXPECT_FALSE(fs::exists(folder_ / "page.html"));
  EXPECT_EQ(baleen({"simulate", "train", "--step", "1"}).status, 2) << "a step is a run's";
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
  const ProgramResult full = test::run_program(
      {test::kBaleenProgram, "train", folder_ / "run.toml", "--out", folder_ / "run", "--resume"},
      {.largest_file_bytes = 1 << 20, .seconds = kSeconds});
  EXPECT_EQ(full.status, 1);
  EXPECT_NE(full.err.find("writing failed: File too large; nothing was left"), std::string::npos) << full.err;
  EXPECT_EQ(names_in(folder_ / "run"), (std::set<std::string>{"lock", "log.jsonl", "step-000000002"}));
  EXPECT_EQ(state("run", 2), before);
  EXPECT_EQ(train("run", {"--steps", "4", "--resume"}).status, 0);
  EXPECT_FALSE(state("run", 4).empty());
}

TEST_F(TrainCommand, WeightsThatAreNoNumbersAreRefusedByName) {
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
  EXPECT_NE(ended.err.find("embed.weight"), std::string::npos) << ended.err;
  EXPECT_EQ(state("run", 2), bytes);
  EXPECT_EQ(log_of("run").back()["step"], 2);
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

TEST_F(TrainCommand, WhatARunTakesIsSaidBeforeItBegins) {
  const ProgramResult usual = train("run", {"--steps", "1"});
  EXPECT_EQ(usual.status, 0) << usual.err;
  EXPECT_NE(usual.err.find("work: about "), std::string::npos) << usual.err;
  EXPECT_EQ(usual.err.find("the first step ends after about"), std::string::npos) << usual.err;
  std::string config = kConfig;
  config.replace(config.find("batch_rows = 4"), 14, "batch_rows = 10000000");
  write_config(config);
  const ProgramResult long_one = train("long");
  EXPECT_EQ(long_one.status, 1) << "the data has no such batch";
  EXPECT_NE(long_one.err.find("the first step ends after about"), std::string::npos) << long_one.err;
}

TEST_F(TrainCommand, ATableHeaderOfManyDotsIsASentence) {
  std::string dots;
  for (int i = 0; i < 500'000; ++i) dots += "a.";
  for (const std::string& text : {"[" + dots + "a]\n", dots + "a = 1\n"}) {
    write_config(kConfig + text);
    const ProgramResult refused = train("run");
    EXPECT_EQ(refused.status, 1) << refused.err.substr(0, 300);
    EXPECT_NE(refused.err.find("a key of more than 32 parts"), std::string::npos)
        << refused.err.substr(0, 300);
  }
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
