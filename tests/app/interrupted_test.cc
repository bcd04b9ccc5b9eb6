// `convert --force` and `init --force` ended by a signal: the checkpoint that was there stays, and nothing
// else is left.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "base/file.h"
#include "tests/support/baleen_program.h"
#include "tests/support/run_program.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

bool has_partial(const fs::path& folder) {
  for (const std::string& name : names_in(folder))
    if (name.find(".partial-") != std::string::npos) return true;
  return false;
}

/// Starts the command in `folder`, sends the signal once it has begun to write, and returns how it ended: 128
/// + the signal, or its exit status where it was done first.
int interrupted(const std::vector<std::string>& command, const fs::path& folder, int number) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  int status = 0;
  bool ended = false;
  while (!ended && !has_partial(folder)) ended = ::waitpid(child, &status, WNOHANG) != 0;
  if (!ended) {
    ::kill(child, number);
    ::waitpid(child, &status, 0);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

class Interrupted : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(test::run_program({test::kBaleenProgram, "init", folder_ / "in"}).status, 0);
    ASSERT_EQ(test::run_program({test::kBaleenProgram, "init", folder_ / "out", "--seed", "2"}).status, 0);
    config_ = read_text_file(folder_ / "out" / "config.json");
    weights_ = read_text_file(folder_ / "out" / "model.safetensors");
  }
  void expect_as_it_was(int status, int number) const {
    if (status == 0) return;  // it was done before the signal came
    EXPECT_EQ(status, 128 + number);
    EXPECT_EQ(read_text_file(folder_ / "out" / "config.json"), config_);
    EXPECT_EQ(read_text_file(folder_ / "out" / "model.safetensors"), weights_);
  }
  const test::TemporaryFolder folder_;
  std::string config_, weights_;
};

TEST_F(Interrupted, SignalsLeaveTheCheckpointThatWasThere) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    const int status = interrupted(
        {test::kBaleenProgram, "convert", folder_ / "in", folder_ / "out", "--experts", "bf16", "--force"},
        folder_.path(), number);
    expect_as_it_was(status, number);
    EXPECT_EQ(names_in(folder_.path()), (std::set<std::string>{"in", "out"}));
    if (status == 0) return;
  }
  const int status =
      interrupted({test::kBaleenProgram, "init", folder_ / "out", "--force"}, folder_.path(), SIGTERM);
  expect_as_it_was(status, SIGTERM);
  EXPECT_EQ(names_in(folder_.path()), (std::set<std::string>{"in", "out"}));
}

TEST_F(Interrupted, WhatAKillLeftIsRemovedByTheNextRun) {
  const std::vector<std::string> command{test::kBaleenProgram, "convert", folder_ / "in", folder_ / "out",
                                         "--force"};
  expect_as_it_was(interrupted(command, folder_.path(), SIGKILL), SIGKILL);
  ASSERT_EQ(test::run_program(command).status, 0);
  EXPECT_EQ(names_in(folder_.path()), (std::set<std::string>{"in", "out"}));
}

}  // namespace
}  // namespace baleen
