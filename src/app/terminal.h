/// The person at the terminal: lines they type, Ctrl-C, and text that looks different from other text.
#pragma once

#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace baleen {

/// Reads what a person types, with line editing and the history of this run; plain lines where `in` or `out`
/// is not a terminal, so that a conversation can be piped in. Sets the process's character type locale to one
/// with UTF-8.
class LineReader {
 public:
  /// `prompt` is shown before each line on a terminal.
  explicit LineReader(std::string prompt, std::FILE* in = stdin, std::FILE* out = stdout);
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;
  ~LineReader();

  /// The next line without its end; none at the end of the input (Ctrl-D on an empty line). Lines that are
  /// pasted together come as one text with newlines inside. Ctrl-C drops what was typed and asks again.
  [[nodiscard]] std::optional<std::string> read();

 private:
  struct Editor;

  [[nodiscard]] std::optional<std::string> read_plain();

  std::FILE* in_;
  std::unique_ptr<Editor> editor_;  // none when not on a terminal
};

/// While it lives, SIGINT (Ctrl-C) raises a flag instead of ending the process. One at a time.
class InterruptFlag {
 public:
  InterruptFlag();
  InterruptFlag(const InterruptFlag&) = delete;
  InterruptFlag& operator=(const InterruptFlag&) = delete;
  /// Restores what SIGINT did before.
  ~InterruptFlag();

  [[nodiscard]] bool raised() const;
  void lower();

 private:
  struct Previous;
  std::unique_ptr<Previous> previous_;
};

/// Escape sequences to print before and after text; empty where they would not be understood or are not
/// wanted.
struct TextStyle {
  std::string_view dim, bold, plain;
};

/// Sequences if `out` is a terminal that knows them (TERM is not "dumb") and NO_COLOR is unset or empty.
[[nodiscard]] TextStyle text_style(std::FILE* out);

}  // namespace baleen
