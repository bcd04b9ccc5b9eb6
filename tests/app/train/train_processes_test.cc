// A run of several processes, which mpirun starts.
#include <gtest/gtest.h>

#include "tests/support/baleen_program.h"
#include "train_command.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::kConfig;
using test::kSeconds;
using test::ProgramResult;
using test::TrainCommand;

using Words = std::vector<std::string>;

class TrainProcesses : public TrainCommand {
 protected:
  ProgramResult mpirun(int count, const std::string& out, const Words& flags = {}) const {
    return mpirun(count, out, flags, "run.toml");
  }

  ProgramResult mpirun(int count, const std::string& out, const Words& flags, const std::string& file) const {
    Words command{BALEEN_MPIRUN, "--allow-run-as-root", "--oversubscribe",    "--bind-to", "none",
                  "-n",          std::to_string(count), test::kBaleenProgram, "train",     folder_ / file,
                  "--out",       folder_ / out,         "--threads",          "1"};
    command.insert(command.end(), flags.begin(), flags.end());
    return test::run_program(command, {.seconds = kSeconds});
  }

  /// Without what a clock says.
  std::vector<json> timeless_log(const std::string& out) const {
    std::vector<json> lines = log_of(out);
    for (json& line : lines)
      for (const char* key : {"seconds", "predicted_seconds", "tokens_per_second", "share_of_fma_peak"})
        line.erase(key);
    return lines;
  }

  static void expect_in(const std::string& text, const std::string& words) {
    EXPECT_NE(text.find(words), std::string::npos) << text;
  }
};

/// kConfig with one row a micro-batch, four of them, and eight steps.
std::string four_parts() {
  std::string text = kConfig;
  const std::string rows = "micro_batch_rows = 2", steps = "steps = 20";
  text.replace(text.find(rows), rows.size(), "micro_batch_rows = 1");
  return text.replace(text.find(steps), steps.size(), "steps = 8");
}

TEST_F(TrainProcesses, TrainAsOneDoesToTheBit) {
  write_config(four_parts() + "prompts = [\"The fox\"]\nprompt_tokens = 2\n[qat]\nstart_step = 2\n");
  const ProgramResult alone = train("alone", {"--steps", "4"});
  ASSERT_EQ(alone.status, 0) << alone.err;
  for (const int count : {2, 4}) {
    const std::string out = "of" + std::to_string(count);
    const ProgramResult got = mpirun(count, out, {"--steps", "4"});
    ASSERT_EQ(got.status, 0) << got.err;
    EXPECT_EQ(state(out, 4), state("alone", 4)) << count;
    EXPECT_EQ(timeless_log(out), timeless_log("alone")) << count;
    expect_in(got.out, "4 of 8 steps");
  }
}

TEST_F(TrainProcesses, AnyNumberOfThemContinuesARun) {
  write_config(four_parts());
  ASSERT_EQ(train("alone").status, 0);
  ASSERT_EQ(mpirun(4, "some", {"--steps", "2"}).status, 0);
  ASSERT_EQ(train("some", {"--resume", "--steps", "5"}).status, 0);
  const ProgramResult last = mpirun(2, "some", {"--resume"});
  ASSERT_EQ(last.status, 0) << last.err;
  EXPECT_EQ(state("some", 8), state("alone", 8));
  EXPECT_EQ(test::read(folder_ / "some/model/model.safetensors"),
            test::read(folder_ / "alone/model/model.safetensors"));
}

TEST_F(TrainProcesses, UnequalSharesTrainToRounding) {
  write_config(four_parts());
  ASSERT_EQ(train("alone", {"--steps", "4"}).status, 0);
  const ProgramResult got = mpirun(3, "of3", {"--steps", "4"});
  ASSERT_EQ(got.status, 0) << got.err;
  const std::vector<json> want = log_of("alone"), lines = log_of("of3");
  ASSERT_EQ(lines.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(lines[i]["loss"].get<double>(), want[i]["loss"].get<double>(), 1e-4);
}

TEST_F(TrainProcesses, WhatTheyRefuse) {
  const ProgramResult too_many = mpirun(5, "a");
  EXPECT_NE(too_many.status, 0);
  expect_in(too_many.err, "2 micro-batches; expected one at least for each of 5 processes");
  const ProgramResult adapters = mpirun(2, "b", {"--from", "models/stories", "--lora", "4"});
  EXPECT_NE(adapters.status, 0);
  Words different{
      BALEEN_MPIRUN, "--allow-run-as-root", "--oversubscribe", "--bind-to",          "none",      "-n",
      "1",           test::kBaleenProgram,  "train",           folder_ / "run.toml", "--threads", "1"};
  Words other = different;
  different.insert(different.end(), {"--out", folder_ / "c", ":", "-n", "1"});
  different.insert(different.end(), other.begin() + 7, other.end());
  different.insert(different.end(), {"--out", folder_ / "d"});
  const ProgramResult differ = test::run_program(different, {.seconds = kSeconds});
  EXPECT_NE(differ.status, 0);
  expect_in(differ.err, "process 1 has another configuration than process 0");
}

}  // namespace
}  // namespace baleen
