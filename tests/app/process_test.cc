// Standard streams and signals as every command finds them: closed, full, broken; files that may not grow.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/baleen_program.h"
#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

/// The exit status, or 128 + the signal that ended it. `prepare` runs in the new process.
int run(std::vector<std::string> arguments, const std::function<void()>& prepare) {
  arguments.insert(arguments.begin(), test::kBaleenProgram);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    prepare();
    ::execv(pointers[0], pointers.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void lead_to(const char* path, int descriptor) { ::dup2(::open(path, O_RDWR | O_CREAT, 0600), descriptor); }

/// A pipe without a reader.
void break_pipe(int descriptor) {
  int ends[2];
  if (::pipe(ends) != 0) ::_exit(126);
  ::dup2(ends[1], descriptor);
  ::close(ends[0]), ::close(ends[1]);
}

const std::vector<std::string> kPrints{"plan", "flash", "--device", "h200"};
const std::vector<std::string> kFails{"inspect", "--model", "/nonexistent"};

TEST(Process, AReaderThatLeavesEndsItQuietly) {
  const test::TemporaryFolder folder;
  const std::string err = folder / "err";
  EXPECT_EQ(run(kPrints,
                [&] {
                  break_pipe(STDOUT_FILENO);
                  lead_to(err.c_str(), STDERR_FILENO);
                }),
            128 + SIGPIPE);
  EXPECT_EQ(std::filesystem::file_size(err), 0U);
}

TEST(Process, AFilterEndsWithItsReaderThoughItsInputGoesOn) {
  EXPECT_EQ(run({"encode-chat"},
                [] {
                  // Endless input: a process that writes lines until it is killed by the pipe's end.
                  int ends[2];
                  if (::pipe(ends) != 0) ::_exit(126);
                  if (::fork() == 0) {
                    ::close(ends[0]);
                    ::signal(SIGPIPE, SIG_DFL);
                    static constexpr std::string_view kLine =
                        "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}\n";
                    while (::write(ends[1], kLine.data(), kLine.size()) > 0) continue;
                    ::_exit(0);
                  }
                  ::dup2(ends[0], STDIN_FILENO);
                  ::close(ends[0]), ::close(ends[1]);
                  break_pipe(STDOUT_FILENO);
                  lead_to("/dev/null", STDERR_FILENO);
                }),
            128 + SIGPIPE);
}

TEST(Process, StandardErrorNeverEndsIt) {
  EXPECT_EQ(run(kFails, [] { lead_to("/dev/full", STDERR_FILENO); }), 1);
  EXPECT_EQ(run(kFails, [] { break_pipe(STDERR_FILENO); }), 1);
  EXPECT_EQ(run(kFails, [] { ::close(STDERR_FILENO); }), 1);
  EXPECT_EQ(run(kFails, [] { ::close(0), ::close(1), ::close(2); }), 1);
}

TEST(Process, AFullOrClosedStandardOutputIsAFailureWithASentence) {
  const test::TemporaryFolder folder;
  const std::string err = folder / "err";
  for (const bool full : {true, false}) {
    EXPECT_EQ(run(kPrints,
                  [&] {
                    lead_to(err.c_str(), STDERR_FILENO);  // first: it must not get the closed stream's number
                    if (full) {
                      lead_to("/dev/full", STDOUT_FILENO);
                    } else {
                      ::close(STDOUT_FILENO);
                    }
                  }),
              1);
    EXPECT_GT(std::filesystem::file_size(err), 20U);
  }
}

TEST(Process, AFileThatMayNotGrowIsAFailureAndNotASignal) {
  const test::TemporaryFolder folder;
  const std::string out = folder / "model", err = folder / "err";
  EXPECT_EQ(run({"init", out},
                [&] {
                  lead_to(err.c_str(), STDERR_FILENO);
                  const rlimit limit{.rlim_cur = 65536, .rlim_max = 65536};
                  ::setrlimit(RLIMIT_FSIZE, &limit);
                }),
            1);
  EXPECT_GT(std::filesystem::file_size(err), 20U);
}

}  // namespace
}  // namespace baleen
