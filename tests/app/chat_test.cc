// `baleen chat` at a terminal: commands that cannot be done, windows of odd sizes, pasted lines.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "tests/support/baleen_program.h"
#include "tests/support/pseudo_terminal.h"
#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;

/// The program with a terminal of its own.
class ChatProgram {
 public:
  ChatProgram(test::PseudoTerminal& terminal, const fs::path& folder) : terminal_(terminal) {
    process_ = ::fork();
    if (process_ < 0) throw std::runtime_error("cannot fork");
    if (process_ == 0) {
      for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        ::dup2(terminal.slave(), descriptor);
      ::setenv("TERM", "dumb", 1);
      if (::chdir(folder.c_str()) != 0) ::_exit(126);
      ::execl(test::kBaleenProgram, test::kBaleenProgram, "chat", "-n", "4", "--context", "512", nullptr);
      ::_exit(127);
    }
    terminal.close_slave();
  }
  ChatProgram(const ChatProgram&) = delete;
  ChatProgram& operator=(const ChatProgram&) = delete;
  ~ChatProgram() {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      ::waitpid(process_, nullptr, 0);
    }
  }

  /// Reads on until `text` was shown; false when it ends before, or says nothing for two minutes.
  bool shows(const std::string& text) {
    std::string part;
    while (part.find(text) == std::string::npos) {
      pollfd descriptor{.fd = terminal_.master(), .events = POLLIN, .revents = 0};
      char letter = 0;
      if (::poll(&descriptor, 1, 120'000) != 1 || ::read(terminal_.master(), &letter, 1) != 1) return false;
      part += letter;
      seen += letter;
    }
    return true;
  }
  /// Types after the next prompt.
  bool type(const std::string& keys) {
    return shows("> ") && ::write(terminal_.master(), keys.data(), keys.size()) == std::ssize(keys);
  }
  /// The exit status, once it ends; 128 + the signal that ended it.
  int status() {
    while (shows("\n")) {
    }
    int status = 0;
    ::waitpid(std::exchange(process_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  std::string seen;

 private:
  test::PseudoTerminal& terminal_;
  pid_t process_ = -1;
};

TEST(Chat, NoFileEndsTheConversation) {
  test::PseudoTerminal terminal;
  if (!terminal.ok()) GTEST_SKIP() << terminal.why();
  const test::TemporaryFolder folder;
  std::ofstream(folder / "large.json") << R"({"messages": [], "note": 1e400})";
  std::ofstream(folder / "calls.json")
      << R"({"messages": [{"role": "assistant", "content": "a", "tool_calls": 3}]})";
  std::ofstream(folder / "notes.txt") << "no JSON";
  ChatProgram chat(terminal, folder.path());
  ASSERT_TRUE(chat.type("Hello there\n")) << chat.seen;
  for (const std::string file : {"large.json", "calls.json", "notes.txt", "absent.json", ".", "/dev/null"}) {
    ASSERT_TRUE(chat.type("/load " + file + "\n")) << chat.seen;
    ASSERT_TRUE(chat.shows("/load " + file)) << chat.seen;
  }
  ASSERT_TRUE(chat.type("/save kept.json\n")) << chat.seen;
  ASSERT_TRUE(chat.shows("2 messages saved to")) << "the message and its reply: " << chat.seen;
  ASSERT_TRUE(chat.type("/quit\n"));
  EXPECT_EQ(chat.status(), 0) << chat.seen;
}

TEST(Chat, PastedLinesAreNoFileName) {
  test::PseudoTerminal terminal;
  if (!terminal.ok()) GTEST_SKIP() << terminal.why();
  const test::TemporaryFolder folder;
  ChatProgram chat(terminal, folder.path());
  ASSERT_TRUE(chat.type("\x1B[200~/save here\rand this line\x1B[201~\n")) << chat.seen;
  ASSERT_TRUE(chat.shows("a command is one line")) << chat.seen;
  EXPECT_TRUE(fs::is_empty(folder.path()));
  ASSERT_TRUE(chat.type("/quit\n"));
  EXPECT_EQ(chat.status(), 0) << chat.seen;
}

TEST(Chat, WorksInWindowsOfAnySize) {
  constexpr std::pair<unsigned short, unsigned short> kSizes[] = {{2, 1}, {1, 2}, {65535, 65535}};
  for (const auto& [rows, columns] : kSizes) {
    test::PseudoTerminal terminal(rows, columns);
    if (!terminal.ok()) GTEST_SKIP() << terminal.why();
    const test::TemporaryFolder folder;
    ChatProgram chat(terminal, folder.path());
    ASSERT_TRUE(chat.type("/think high\n")) << chat.seen;
    ASSERT_TRUE(chat.shows("thinking high")) << chat.seen;
    ASSERT_TRUE(chat.type("/quit\n"));
    EXPECT_EQ(chat.status(), 0) << rows << " x " << columns << ": " << chat.seen;
  }
}

TEST(Chat, CtrlCInASmallWindowDropsTheLine) {
  test::PseudoTerminal terminal;
  if (!terminal.ok()) GTEST_SKIP() << terminal.why();
  const test::TemporaryFolder folder;
  ChatProgram chat(terminal, folder.path());
  ASSERT_TRUE(chat.shows("> ")) << chat.seen;
  // The editor shows its prompt a moment before it takes over the keys; until then Ctrl-C is the terminal's
  // own.
  termios settings{};
  do {
    ASSERT_EQ(::tcgetattr(terminal.master(), &settings), 0);
  } while ((settings.c_lflag & ICANON) != 0);
  terminal.resize(1, 2);
  const std::string keys = "not this\x03";
  ASSERT_EQ(::write(terminal.master(), keys.data(), keys.size()), std::ssize(keys));
  ASSERT_TRUE(chat.type("/quit\n")) << chat.seen;
  EXPECT_EQ(chat.status(), 0) << chat.seen;
}

}  // namespace
}  // namespace baleen
