/// `baleen serve` as a process of its own, ended at the latest with its owner.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace baleen::test {

class ServerProcess {
 public:
  /// Waits until it listens. `command`: the program and its arguments, `--port 0` among them. `prepare` runs
  /// in the new process before the program: it may call async-signal-safe functions only.
  explicit ServerProcess(
      const std::vector<std::string>& command, const std::function<void()>& prepare = [] {}) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("cannot make a pipe");
    std::vector<char*> arguments;
    for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    process_ = ::fork();
    if (process_ < 0) throw std::runtime_error("cannot fork");
    if (process_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      prepare();
      ::execv(arguments[0], arguments.data());
      ::_exit(127);
    }
    ::close(ends[1]);
    std::string line;
    char letter = 0;
    while (::read(ends[0], &letter, 1) == 1 && letter != '\n') line += letter;
    ::close(ends[0]);
    const std::size_t colon = line.rfind(':');
    if (!line.starts_with("listening on ") || colon == std::string::npos) {
      end(SIGKILL);
      throw std::runtime_error("the server did not start: " + line);
    }
    port_ = static_cast<std::uint16_t>(std::stoi(line.substr(colon + 1)));
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess() {
    if (process_ > 0) end(SIGKILL);
  }

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] pid_t id() const { return process_; }
  void signal(int number) const { ::kill(process_, number); }
  /// Sends the signal and waits; the exit status, or 128 + the signal that ended it.
  int end(int number) {
    signal(number);
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t process_ = -1;
  std::uint16_t port_ = 0;
};

}  // namespace baleen::test
