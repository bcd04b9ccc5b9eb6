/// Runs a program as a user would, without a shell.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace baleen::test {

struct ProgramInput {
  std::string in = {};                  ///< standard input
  std::filesystem::path out = {};       ///< where standard output goes; empty: into `ProgramResult`
  std::int64_t largest_file_bytes = 0;  ///< writes beyond it fail, as on a full disk; 0: no limit
  std::filesystem::path working_folder = {};
  unsigned seconds = 0;            ///< SIGALRM ends it after so long; 0: no limit
  std::int64_t address_bytes = 0;  ///< allocations beyond it fail; 0: no limit
};

struct ProgramResult {
  int status = -1;  ///< exit status; 128 + signal when one ended it
  std::string out;
  std::string err;
};

[[nodiscard]] inline ProgramResult run_program(const std::vector<std::string>& command,
                                               const ProgramInput& input = {}) {
  const TemporaryFolder folder;
  const std::filesystem::path in = folder / "in", out = input.out.empty() ? folder / "out" : input.out,
                              err = folder / "err";
  std::ofstream(in, std::ios::binary) << input.in;
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child == 0) {
    const auto redirect = [](const std::filesystem::path& path, int flags, int descriptor) {
      const int opened = ::open(path.c_str(), flags, 0600);
      if (opened < 0 || ::dup2(opened, descriptor) < 0) ::_exit(126);
    };
    redirect(in, O_RDONLY, STDIN_FILENO);
    redirect(out, O_WRONLY | O_CREAT, STDOUT_FILENO);
    redirect(err, O_WRONLY | O_CREAT, STDERR_FILENO);
    if (input.largest_file_bytes > 0) {
      const auto bytes = static_cast<rlim_t>(input.largest_file_bytes);
      const rlimit limit{bytes, bytes};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      ::signal(SIGXFSZ, SIG_IGN);
    }
    if (input.address_bytes > 0) {
      const auto bytes = static_cast<rlim_t>(input.address_bytes);
      const rlimit limit{bytes, bytes};
      ::setrlimit(RLIMIT_AS, &limit);
    }
    if (input.seconds > 0) ::alarm(input.seconds);
    if (!input.working_folder.empty() && ::chdir(input.working_folder.c_str()) != 0) ::_exit(126);
    std::vector<char*> arguments;
    for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  const auto text = [](const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          input.out.empty() ? text(out) : "", text(err)};
}

}  // namespace baleen::test
