#include "terminal/line_reader.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "terminal/reply_printer.h"
#include "terminal/terminal_keys.h"
#include "tests/support/pseudo_terminal.h"

namespace baleen {
namespace {

// A terminal, and a thread that types into it.
class OnATerminal : public testing::Test {
 protected:
  void SetUp() override {
    if (!terminal_.ok()) GTEST_SKIP() << terminal_.why();
    in_ = ::fdopen(::dup(terminal_.slave()), "r");
    out_ = ::fdopen(::dup(terminal_.slave()), "w");
    ASSERT_TRUE(in_ != nullptr && out_ != nullptr) << std::strerror(errno);
    ::setenv("TERM", "dumb", 1);
  }
  void TearDown() override {
    if (in_ != nullptr) std::fclose(in_);
    if (out_ != nullptr) std::fclose(out_);
  }

  // What `reader` returns when these are typed, each after its prompt has appeared. Keys that come earlier
  // would meet the terminal's own line editing instead.
  [[nodiscard]] std::optional<std::string> read(LineReader& reader, std::vector<std::string> keys) const {
    std::thread typist([&] {
      for (const std::string& some : keys) {
        wait_for_prompt();
        EXPECT_EQ(::write(terminal_.master(), some.data(), some.size()), static_cast<ssize_t>(some.size()));
      }
    });
    auto line = reader.read();
    typist.join();
    return line;
  }

  static constexpr const char* kPrompt = "say> ";
  const test::PseudoTerminal terminal_;
  std::FILE* in_ = nullptr;
  std::FILE* out_ = nullptr;

  void wait_for_prompt() const {
    std::string seen;
    char byte;
    while (!seen.ends_with(kPrompt) && ::read(terminal_.master(), &byte, 1) == 1) seen += byte;
    // The editor shows its prompt a moment before it takes over the keys.
    termios settings{};
    do {
      std::this_thread::yield();
      ASSERT_EQ(::tcgetattr(terminal_.master(), &settings), 0);
    } while ((settings.c_lflag & ICANON) != 0);
  }
};

std::vector<std::string> all_lines(LineReader& reader) {
  std::vector<std::string> lines;
  while (auto line = reader.read()) lines.push_back(*line);
  return lines;
}

TEST(LineReader, DropsLinesOfAFileThatAreTooLong) {
  const std::string text = std::string(LineReader::kLongestTextBytes + 1, 'x') + "\nshort\n";
  std::FILE* in = ::fmemopen(const_cast<char*>(text.data()), text.size(), "r");
  std::FILE* out = std::tmpfile();
  ASSERT_TRUE(in != nullptr && out != nullptr) << std::strerror(errno);
  LineReader reader("> ", in, out);
  EXPECT_EQ(all_lines(reader), std::vector<std::string>{"short"});
  EXPECT_GT(std::ftell(out), 20) << "a sentence says so";
  std::fclose(in);
  std::fclose(out);
}

TEST(LineReader, ReadsAFileLineByLine) {
  char text[] = "one\ntwo\r\n\n with blanks \nlast without end";
  std::FILE* in = ::fmemopen(text, sizeof(text) - 1, "r");
  std::FILE* nowhere = std::tmpfile();
  ASSERT_TRUE(in != nullptr && nowhere != nullptr) << std::strerror(errno);
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

TEST_F(OnATerminal, ReadsAndEditsALineOnATerminal) {
  LineReader reader(kPrompt, in_, out_);
  EXPECT_EQ(read(reader, {"a foy\x7Fx\n"}), "a fox");
  EXPECT_EQ(read(reader, {"Grüßé\x7F\n"}), "Grüß");
  EXPECT_EQ(read(reader, {"\n"}), "");
}

TEST_F(OnATerminal, RecallsEarlierLines) {
  LineReader reader(kPrompt, in_, out_);
  EXPECT_EQ(read(reader, {"first\n"}), "first");
  EXPECT_EQ(read(reader, {"\x10 again\n"}), "first again");  // Ctrl-P
}

TEST_F(OnATerminal, PastedLinesAreOneText) {
  LineReader reader(kPrompt, in_, out_);
  EXPECT_EQ(read(reader, {"line one\nline two\n\nline four\n"}), "line one\nline two\n\nline four");
}

TEST_F(OnATerminal, MarkedPastesAreTextUntilReturnIsTyped) {
  LineReader reader(kPrompt, in_, out_);
  EXPECT_EQ(read(reader, {"see: \x1B[200~one\r\ttwo\x03\r\n\x1B[201~ end\n"}), "see: one\n\ttwo end");
  EXPECT_EQ(read(reader, {"\x1B[200~/save a\rand this\r\x1B[201~\n"}), "/save a\nand this");
  EXPECT_EQ(read(reader, {"\x1B[200~Grüße 🦊\x1B[201~\n"}), "Grüße 🦊");
  EXPECT_EQ(read(reader, {"ab\x1B[D-\n"}), "a-b") << "other sequences are keys";
}

TEST_F(OnATerminal, LinesTypedAheadOfACommandStayApart) {
  LineReader reader(kPrompt, in_, out_);
  EXPECT_EQ(read(reader, {"/save a.json\nhello\n"}), "/save a.json");
  EXPECT_EQ(reader.read(), "hello");
}

TEST_F(OnATerminal, TextsThatAreTooLongAreDroppedWithASentence) {
  const std::string huge = "\x1B[200~" + std::string(TerminalKeys::kMaxPastedBytes + 100, 'x') + "\x1B[201~";
  LineReader reader(kPrompt, in_, out_);
  EXPECT_EQ(read(reader, {huge, "short\n"}), "short");
}

TEST_F(OnATerminal, WindowsOfAnySize) {
  constexpr std::pair<unsigned short, unsigned short> kSizes[] = {
      {1, 2}, {1, 1}, {0, 0}, {24, 8}, {2, 65535}, {65535, 2}, {65535, 65535}};
  for (const auto& [rows, columns] : kSizes) {
    terminal_.resize(rows, columns);
    LineReader reader(kPrompt, in_, out_);
    std::thread typist([&] {
      const std::string keys = "a line that is wider than some of them\n";
      EXPECT_EQ(::write(terminal_.master(), keys.data(), keys.size()), std::ssize(keys));
    });
    EXPECT_EQ(reader.read(), "a line that is wider than some of them") << rows << " x " << columns;
    typist.join();
  }
}

TEST_F(OnATerminal, WindowsThatChangeBetweenLines) {
  LineReader reader(kPrompt, in_, out_);
  for (const unsigned short size : std::initializer_list<unsigned short>{1, 2, 65535, 80, 1}) {
    terminal_.resize(size, size);
    const std::string keys = "a line\n";
    EXPECT_EQ(::write(terminal_.master(), keys.data(), keys.size()), std::ssize(keys));
    EXPECT_EQ(reader.read(), "a line") << size;
  }
}

TEST_F(OnATerminal, ControlCDropsTheLineAndControlDEndsTheInput) {
  LineReader reader(kPrompt, in_, out_);
  EXPECT_EQ(read(reader, {"not this\x03", "but this\n"}), "but this");
  EXPECT_EQ(read(reader, {"\x04"}), std::nullopt);
  ASSERT_EQ(std::fputs("next> ", out_), 1);
  ASSERT_EQ(std::fflush(out_), 0);
  std::string seen;
  char byte;
  while (!seen.ends_with("next> ") && ::read(terminal_.master(), &byte, 1) == 1) seen += byte;
  EXPECT_TRUE(seen.ends_with("\nnext> ")) << "the shell's prompt begins a line: " << seen;
}

TEST_F(OnATerminal, TextStyleIsPlainUnlessATerminalWantsIt) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr) << std::strerror(errno);
  ::setenv("TERM", "xterm", 1);
  ::unsetenv("NO_COLOR");
  EXPECT_EQ(text_style(out_).dim, "\033[2m");
  EXPECT_EQ(text_style(file).dim, "");
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_EQ(text_style(out_).dim, "");
  ::setenv("NO_COLOR", "", 1);
  EXPECT_EQ(text_style(out_).plain, "\033[0m");
  ::setenv("TERM", "dumb", 1);
  EXPECT_EQ(text_style(out_).bold, "");
  std::fclose(file);
}

TEST_F(OnATerminal, ARepliesControlCharactersAreShownAndNotObeyed) {
  ReplyPrinter printer(ThinkingMode::kChat, out_);
  printer.feed("red \x1B[31m and \x1B]0;title\x07");
  printer.finish();
  std::string seen;
  char byte;
  while (!seen.ends_with("\n") && ::read(terminal_.master(), &byte, 1) == 1) seen += byte;
  EXPECT_EQ(seen, "red \\x1B[31m and \\x1B]0;title\\x07\r\n");

  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr) << std::strerror(errno);
  ReplyPrinter to_file(ThinkingMode::kChat, file);
  to_file.feed("red \x1B[31m\n");
  to_file.finish();
  std::rewind(file);
  char written[32] = {};
  EXPECT_EQ(std::string_view(written, std::fread(written, 1, sizeof written, file)), "red \x1B[31m\n");
  std::fclose(file);
}

}  // namespace
}  // namespace baleen
