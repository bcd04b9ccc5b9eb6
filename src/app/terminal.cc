#include "app/terminal.h"

#include <histedit.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <clocale>
#include <cstdlib>
#include <utility>

#include "base/check.h"

namespace baleen {
namespace {

constexpr int kHistoryLines = 1000;
// The rest of a paste is in the terminal's queue by now, or at most a few scheduler ticks behind.
constexpr int kPasteGapMs = 20;

bool is_terminal(std::FILE* file) { return ::isatty(::fileno(file)) == 1; }

bool more_is_waiting(std::FILE* in) {
  pollfd descriptor{::fileno(in), POLLIN, 0};
  return ::poll(&descriptor, 1, kPasteGapMs) == 1 && (descriptor.revents & POLLIN) != 0;
}

}  // namespace

struct LineReader::Editor {
  std::FILE* in;
  std::FILE* out;
  std::string prompt;
  EditLine* edit = nullptr;
  History* history = nullptr;
  bool dropped = false;  // Ctrl-C ended the line
  bool goes_on = false;  // the line continues a paste

  Editor(std::string prompt_text, std::FILE* input, std::FILE* output)
      : in(input), out(output), prompt(std::move(prompt_text)) {
    edit = ::el_init("baleen", in, out, stderr);
    history = ::history_init();
    BALEEN_CHECK(edit != nullptr && history != nullptr);
    HistEvent event;
    ::history(history, &event, H_SETSIZE, kHistoryLines);
    ::history(history, &event, H_SETUNIQUE, 1);
    ::el_set(edit, EL_CLIENTDATA, this);
    ::el_set(edit, EL_PROMPT, &Editor::show_prompt);
    ::el_set(edit, EL_EDITOR, "emacs");
    ::el_set(edit, EL_HIST, ::history, history);
    ::el_set(edit, EL_SIGNAL, 1);  // follows changes of the window's size
    // Ctrl-C is a key while a line is edited, so that it drops the line and not the program.
    ::el_set(edit, EL_SETTY, "-d", "-isig", nullptr);
    ::el_set(edit, EL_ADDFN, "baleen-drop-line", "Drop what was typed", &Editor::drop_line);
    ::el_set(edit, EL_BIND, "^C", "baleen-drop-line", nullptr);
    ::el_set(edit, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  }
  ~Editor() {
    ::history_end(history);
    ::el_end(edit);
  }

  static Editor& of(EditLine* edit) {
    void* self = nullptr;
    ::el_get(edit, EL_CLIENTDATA, &self);
    return *static_cast<Editor*>(self);
  }
  static char* show_prompt(EditLine* edit) {
    static char nothing[] = "";
    return of(edit).goes_on ? nothing : of(edit).prompt.data();
  }
  static unsigned char drop_line(EditLine* edit, int) {
    of(edit).dropped = true;
    return CC_EOF;
  }

  // One line with its newline; none at the end of the input, or after Ctrl-C, which sets `dropped`.
  std::optional<std::string> line() {
    dropped = false;
    int count = 0;
    const char* text = ::el_gets(edit, &count);
    if (text == nullptr || count <= 0) return std::nullopt;
    return std::string(text, static_cast<std::size_t>(count));
  }

  void remember(const std::string& text) {
    HistEvent event;
    ::history(history, &event, H_ENTER, text.c_str());
  }
};

LineReader::LineReader(std::string prompt, std::FILE* in, std::FILE* out) : in_(in) {
  if (!is_terminal(in) || !is_terminal(out)) return;
  // The line editor counts columns and deletes characters by the locale; without UTF-8 in it, it would split
  // them.
  std::setlocale(LC_CTYPE, "C.UTF-8");
  editor_ = std::make_unique<Editor>(std::move(prompt), in, out);
}

LineReader::~LineReader() = default;

std::optional<std::string> LineReader::read() {
  if (!editor_) return read_plain();
  std::string text;
  editor_->goes_on = false;
  for (;;) {
    const auto line = editor_->line();
    if (editor_->dropped) {
      std::fputs("^C\n", editor_->out);
      text.clear();
      editor_->goes_on = false;
      continue;
    }
    if (!line && text.empty()) return std::nullopt;
    if (line) text += *line;
    if (line && more_is_waiting(in_)) {
      editor_->goes_on = true;
      continue;
    }
    if (text.ends_with('\n')) text.pop_back();
    if (!text.empty()) editor_->remember(text);
    return text;
  }
}

std::optional<std::string> LineReader::read_plain() {
  std::string line;
  for (int byte = std::fgetc(in_); byte != '\n'; byte = std::fgetc(in_)) {
    if (byte == EOF) {
      if (line.empty()) return std::nullopt;
      break;
    }
    line += static_cast<char>(byte);
  }
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

namespace {

std::atomic<bool> interrupt_raised{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may only touch a lock-free flag");
std::atomic<bool> interrupt_flag_lives{false};

}  // namespace

struct InterruptFlag::Previous {
  struct sigaction action {};
};

InterruptFlag::InterruptFlag() : previous_(std::make_unique<Previous>()) {
  BALEEN_CHECK(!interrupt_flag_lives.exchange(true));
  interrupt_raised = false;
  struct sigaction action {};
  action.sa_handler = [](int) { interrupt_raised.store(true, std::memory_order_relaxed); };
  // Without SA_RESTART: a read that waits for a person should notice.
  BALEEN_CHECK_EQ(::sigaction(SIGINT, &action, &previous_->action), 0);
}

InterruptFlag::~InterruptFlag() {
  ::sigaction(SIGINT, &previous_->action, nullptr);
  interrupt_flag_lives = false;
}

bool InterruptFlag::raised() const { return interrupt_raised.load(std::memory_order_relaxed); }

void InterruptFlag::lower() { interrupt_raised.store(false, std::memory_order_relaxed); }

TextStyle text_style(std::FILE* out) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  const bool wanted = no_color == nullptr || *no_color == '\0';
  const bool understood = terminal != nullptr && std::string_view(terminal) != "dumb";
  if (!wanted || !understood || !is_terminal(out)) return {};
  return {.dim = "\033[2m", .bold = "\033[1m", .plain = "\033[0m"};
}

}  // namespace baleen
