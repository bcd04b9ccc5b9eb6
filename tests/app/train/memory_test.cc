// The memory that a run plans is what it takes; a run that cannot fit does not begin.

#include <gtest/gtest.h>

#include <cmath>

#include "train_command.h"

namespace baleen {
namespace {

using test::baleen;
using test::json;
using test::ProgramResult;
using test::TrainCommand;

constexpr double kTolerance = 0.1;

/// Of a size at which activations, gradients and states weigh more than the program: some 300 MB and more.
constexpr const char* kUsefulConfig = R"(
[run]
folder = "run"
steps = 1
RUN
[model]
preset = "tiny-flash"
vocab_size = 4096
[data]
folder = "long"
sequence_length = 512
batch_rows = 4
micro_batch_rows = 2
[evaluation]
rows = 2
)";

class TrainMemory : public TrainCommand {
 protected:
  void SetUp() override {
    TrainCommand::SetUp();
    std::ofstream corpus(folder_ / "long.jsonl");
    for (int i = 0; i < 40; ++i) {
      std::string text;
      for (int line = 0; line < 100; ++line)
        text += "The fox number " + std::to_string(i * line) + " ran and slept until the morning. ";
      corpus << json{{"text", text}} << "\n";
    }
    corpus.close();
    const ProgramResult packed =
        baleen({"data", "pack", folder_ / "long.jsonl", "--tokenizer", folder_ / "tokenizer", "--out",
                folder_ / "long", "--held-out", "0.2"});
    ASSERT_EQ(packed.status, 0) << packed.err;
  }

  /// `run`: lines of [run]; `rest`: more sections.
  void expect_as_planned(const std::string& run, const std::string& rest) {
    SCOPED_TRACE(run + rest);
    std::string config = kUsefulConfig + rest;
    config.replace(config.find("RUN"), 3, run);
    write_config(config);
    const ProgramResult trained = train("run" + std::to_string(num_runs_++), {"--threads", "2"});
    ASSERT_EQ(trained.status, 0) << trained.err;
    double measured = 0, planned = 0;
    const std::size_t line = trained.out.find("memory: ");
    ASSERT_NE(line, std::string::npos) << trained.out;
    ASSERT_EQ(std::sscanf(trained.out.c_str() + line, "memory: %lf MB resident at most, %lf MB planned",
                          &measured, &planned),
              2)
        << trained.out;
    EXPECT_GT(measured, 250);
    EXPECT_NEAR(planned / measured, 1, kTolerance) << trained.err;
  }

 private:
  int num_runs_ = 0;
};

TEST_F(TrainMemory, IsWithinATenthOfItsPlan) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers' own memory counts as resident";
#endif
  expect_as_planned("recompute = false\nconcurrent_micro_batches = 2", "");
  expect_as_planned("recompute = false", "[optimizer]\nmatrices = \"adamw\"\n");
  expect_as_planned("recompute = true", "");
  expect_as_planned("recompute = true\nconcurrent_micro_batches = 2", "[qat]\nstart_step = 0\n");
  expect_as_planned("recompute = false", "[loss]\nmtp_weight = 0.0\n[indexer]\ndense_steps = 1\n");
}

TEST_F(TrainMemory, ARunThatCannotFitIsRefusedBeforeItBegins) {
  std::string config = kUsefulConfig;
  config.replace(config.find("RUN"), 3, "");
  config.replace(config.find("tiny-flash"), 10, "pro");
  write_config(config);
  const ProgramResult refused = train("run");
  EXPECT_EQ(refused.status, 1);
  for (const char* words :
       {"this run needs", "weights", "optimiser states", "MB are available", "what helps most: "})
    EXPECT_NE(refused.err.find(words), std::string::npos) << refused.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run" / "log.jsonl"));
}

}  // namespace
}  // namespace baleen
