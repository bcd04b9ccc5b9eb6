#include "app/terminal.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>
#include <vector>

namespace baleen {
namespace {

// A terminal of our own and the person at it, who types when asked.
class Terminal {
 public:
  Terminal() {
    int slave = -1;
    EXPECT_EQ(::openpty(&master_, &slave, nullptr, nullptr, nullptr), 0);
    in = ::fdopen(slave, "r");
    out = ::fdopen(::dup(slave), "w");
    ::setenv("TERM", "dumb", 1);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal() {
    std::fclose(in);
    std::fclose(out);
    ::close(master_);
  }

  // What `reader` returns to a person who waits for its prompt, each time, before the next of these is typed.
  // Keys that came earlier would meet the terminal's own line editing instead.
  std::optional<std::string> read(LineReader& reader, std::vector<std::string> keys) const {
    std::thread person([&] {
      for (const std::string& some : keys) {
        wait_for_prompt();
        EXPECT_EQ(::write(master_, some.data(), some.size()), static_cast<ssize_t>(some.size()));
      }
    });
    auto line = reader.read();
    person.join();
    return line;
  }

  static constexpr const char* kPrompt = "say> ";
  std::FILE* in = nullptr;
  std::FILE* out = nullptr;

 private:
  void wait_for_prompt() const {
    std::string seen;
    char byte;
    while (!seen.ends_with(kPrompt) && ::read(master_, &byte, 1) == 1) seen += byte;
    // The editor shows its prompt a moment before it takes over the keys.
    termios settings{};
    do {
      std::this_thread::yield();
      ASSERT_EQ(::tcgetattr(master_, &settings), 0);
    } while ((settings.c_lflag & ICANON) != 0);
  }

  int master_ = -1;
};

std::vector<std::string> all_lines(LineReader& reader) {
  std::vector<std::string> lines;
  while (auto line = reader.read()) lines.push_back(*line);
  return lines;
}

TEST(LineReader, ReadsAFileLineByLine) {
  char text[] = "one\ntwo\r\n\n with blanks \nlast without end";
  std::FILE* in = ::fmemopen(text, sizeof(text) - 1, "r");
  std::FILE* nowhere = std::tmpfile();
  {
    LineReader reader("> ", in, nowhere);
    EXPECT_EQ(all_lines(reader),
              (std::vector<std::string>{"one", "two", "", " with blanks ", "last without end"}));
    EXPECT_FALSE(reader.read().has_value());
  }
  EXPECT_EQ(std::ftell(nowhere), 0);  // no prompt in what may be a file
  std::fclose(in);
  std::fclose(nowhere);
}

TEST(LineReader, ReadsAndEditsALineOnATerminal) {
  const Terminal terminal;
  LineReader reader(Terminal::kPrompt, terminal.in, terminal.out);
  EXPECT_EQ(terminal.read(reader, {"a foy\x7Fx\n"}), "a fox");
  EXPECT_EQ(terminal.read(reader, {"Grüßé\x7F\n"}), "Grüß");
  EXPECT_EQ(terminal.read(reader, {"\n"}), "");
}

TEST(LineReader, RecallsEarlierLines) {
  const Terminal terminal;
  LineReader reader(Terminal::kPrompt, terminal.in, terminal.out);
  EXPECT_EQ(terminal.read(reader, {"first\n"}), "first");
  EXPECT_EQ(terminal.read(reader, {"\x10 again\n"}), "first again");  // Ctrl-P
}

TEST(LineReader, PastedLinesAreOneText) {
  const Terminal terminal;
  LineReader reader(Terminal::kPrompt, terminal.in, terminal.out);
  EXPECT_EQ(terminal.read(reader, {"line one\nline two\n\nline four\n"}), "line one\nline two\n\nline four");
}

TEST(LineReader, ControlCDropsTheLineAndControlDEndsTheInput) {
  const Terminal terminal;
  LineReader reader(Terminal::kPrompt, terminal.in, terminal.out);
  EXPECT_EQ(terminal.read(reader, {"not this\x03", "but this\n"}), "but this");
  EXPECT_EQ(terminal.read(reader, {"\x04"}), std::nullopt);
}

TEST(InterruptFlag, CatchesTheSignalWhileItLives) {
  struct sigaction before {
  }, after{};
  ::sigaction(SIGINT, nullptr, &before);
  {
    InterruptFlag flag;
    EXPECT_FALSE(flag.raised());
    ::raise(SIGINT);
    EXPECT_TRUE(flag.raised());
    flag.lower();
    EXPECT_FALSE(flag.raised());
    ::raise(SIGINT);
  }
  ::sigaction(SIGINT, nullptr, &after);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
  const InterruptFlag fresh;
  EXPECT_FALSE(fresh.raised());
}

TEST(TextStyle, IsPlainUnlessATerminalWantsIt) {
  const Terminal terminal;
  std::FILE* file = std::tmpfile();
  ::setenv("TERM", "xterm", 1);
  ::unsetenv("NO_COLOR");
  EXPECT_EQ(text_style(terminal.out).dim, "\033[2m");
  EXPECT_EQ(text_style(file).dim, "");
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_EQ(text_style(terminal.out).dim, "");
  ::setenv("NO_COLOR", "", 1);
  EXPECT_EQ(text_style(terminal.out).plain, "\033[0m");
  ::setenv("TERM", "dumb", 1);
  EXPECT_EQ(text_style(terminal.out).bold, "");
  std::fclose(file);
}

}  // namespace
}  // namespace baleen
