/// `baleen train` as a user runs it, on a model and a corpus that are small enough for a test.
#pragma once

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

#include "tests/support/baleen_program.h"
#include "tests/support/run_program.h"

namespace baleen::test {

namespace fs = std::filesystem;
using nlohmann::json;

inline constexpr unsigned kSeconds = 500;  // a hang is endless

inline constexpr const char* kConfig = R"(
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

inline std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline ProgramResult baleen(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), kBaleenProgram);
  return run_program(arguments, {.seconds = kSeconds});
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
      ::execl(kBaleenProgram, "baleen", "train", config.c_str(), "--out", run.c_str(), "--threads", "1",
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

}  // namespace baleen::test
