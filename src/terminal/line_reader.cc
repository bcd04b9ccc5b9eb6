#include "terminal/line_reader.h"

#include <histedit.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <clocale>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "base/check.h"
#include "terminal/terminal_keys.h"

namespace baleen {
namespace {

constexpr int kHistoryLines = 1000;
/// The rest of lines pasted into a terminal without bracketed paste is in its queue by now, or a few
/// scheduler ticks behind.
constexpr int kPasteGapMs = 20;
/// Windows outside of these sizes get no line editor: it allocates rows x columns, and needs a few columns to
/// move in.
constexpr int kFewestColumns = 8, kMaxColumns = 4000, kFewestRows = 2, kMaxRows = 2000;
constexpr const char* kBracketedPasteOn = "\033[?2004h";
constexpr const char* kBracketedPasteOff = "\033[?2004l";
constexpr const char* kTooLong =
    "the text has more than 1 MiB and was dropped; `baleen run` takes long ones from a file\n";

bool is_terminal(std::FILE* file) { return ::isatty(::fileno(file)) == 1; }

bool more_is_waiting(std::FILE* in) {
  pollfd descriptor{::fileno(in), POLLIN, 0};
  return ::poll(&descriptor, 1, kPasteGapMs) == 1 && (descriptor.revents & POLLIN) != 0;
}

/// Of the terminal's window; zeros where it does not say, and then the editor assumes 80 x 24.
winsize window_of(std::FILE* terminal) {
  winsize size{};
  if (::ioctl(::fileno(terminal), TIOCGWINSZ, &size) != 0) size = {};
  return size;
}

bool fits_the_editor(const winsize& size) {
  const bool columns = size.ws_col == 0 || (size.ws_col >= kFewestColumns && size.ws_col <= kMaxColumns);
  return columns && (size.ws_row == 0 || (size.ws_row >= kFewestRows && size.ws_row <= kMaxRows));
}

/// Whether the terminal takes escape sequences for more than text.
bool knows_sequences() {
  const char* terminal = std::getenv("TERM");
  return terminal != nullptr && std::string_view(terminal) != "dumb";
}

/// While a line is edited, signals that end the process first give the terminal its settings back.
class TerminalRestorer {
 public:
  explicit TerminalRestorer(std::FILE* terminal) {
    descriptor_ = ::fileno(terminal);
    if (::tcgetattr(descriptor_, &settings_) != 0) return;
    struct sigaction action {};
    action.sa_handler = &TerminalRestorer::restore_and_end;
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      ::sigaction(kSignals[i], nullptr, &previous_[i]);
      if (previous_[i].sa_handler == SIG_DFL) ::sigaction(kSignals[i], &action, nullptr);
    }
    active_ = true;
  }
  TerminalRestorer(const TerminalRestorer&) = delete;
  TerminalRestorer& operator=(const TerminalRestorer&) = delete;
  ~TerminalRestorer() {
    if (!active_) return;
    for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &previous_[i], nullptr);
  }

 private:
  static constexpr std::array<int, 4> kSignals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};

  static void restore_and_end(int number) {
    ::tcsetattr(descriptor_, TCSANOW, &settings_);
    ::signal(number, SIG_DFL);
    ::raise(number);
  }

  static inline int descriptor_ = -1;
  static inline termios settings_{};
  std::array<struct sigaction, kSignals.size()> previous_{};
  bool active_ = false;
};

}  // namespace

struct LineReader::Editor {
  std::FILE* in;
  std::FILE* out;
  std::string prompt;
  TerminalKeys keys;
  winsize window;
  EditLine* edit = nullptr;
  History* history = nullptr;
  std::size_t num_keys = 0;  // of the line
  bool dropped = false;      // Ctrl-C ended the line
  bool too_long = false;     // so did its length
  bool goes_on = false;      // the line continues a paste

  Editor(std::string prompt_text, std::FILE* input, std::FILE* output)
      : in(input),
        out(output),
        prompt(std::move(prompt_text)),
        keys(::fileno(input)),
        window(window_of(input)) {
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
    // No handlers of the library's: its own follows a window to any size, from whatever thread the signal
    // meets.
    ::el_set(edit, EL_SIGNAL, 0);
    ::el_wset(edit, EL_GETCFN, &Editor::next_key);
    // Ctrl-C is a key while a line is edited, so that it drops the line and not the program.
    ::el_set(edit, EL_SETTY, "-d", "-isig", nullptr);
    // The wide form keeps the pointers; the narrow one would keep copies that are never freed.
    ::el_wset(edit, EL_ADDFN, L"baleen-drop-line", L"Drop what was typed", &Editor::drop_line);
    ::el_set(edit, EL_BIND, "^C", "baleen-drop-line", nullptr);
    ::el_set(edit, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    ::el_set(edit, EL_BIND, "^I", "ed-insert", nullptr);  // pasted code keeps its tabs
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

  static int next_key(EditLine* edit, wchar_t* key) {
    Editor& self = of(edit);
    self.follow_window();
    const TerminalKeys::Status status = self.keys.next(*key);
    const bool too_long = status == TerminalKeys::Status::kTooLong || ++self.num_keys > kLongestTextBytes;
    if (too_long) {
      self.too_long = true;
      *key = L'\3';  // as Ctrl-C
      return 1;
    }
    if (status == TerminalKeys::Status::kKey) return 1;
    return status == TerminalKeys::Status::kEnd ? 0 : -1;
  }

  void follow_window() {
    const winsize now = window_of(in);
    if (now.ws_col == window.ws_col && now.ws_row == window.ws_row) return;
    window = now;
    if (!fits_the_editor(now)) return;  // goes on as if it were as it was
    ::el_resize(edit);
    ::el_set(edit, EL_REFRESH);
  }

  // One line with its newline; none at the end of the input, or after Ctrl-C, which sets `dropped`.
  std::optional<std::string> line() {
    dropped = too_long = false;
    num_keys = 0;
    int count = 0;
    const TerminalRestorer restorer(in);
    const char* text = ::el_gets(edit, &count);
    if (text == nullptr || count <= 0) return std::nullopt;
    return std::string(text, static_cast<std::size_t>(count));
  }

  void remember(const std::string& text) {
    HistEvent event;
    ::history(history, &event, H_ENTER, text.c_str());
  }
};

LineReader::LineReader(std::string prompt, std::FILE* in, std::FILE* out) : in_(in), out_(out) {
  if (!is_terminal(in) || !is_terminal(out)) return;
  prompt_ = prompt;
  std::setvbuf(in, nullptr, _IONBF,
               0);  // plain lines take no more than themselves from what the editor reads
  if (!fits_the_editor(window_of(in))) return;
  // The line editor counts columns and deletes characters by the locale; without UTF-8 in it, it would split
  // them.
  std::setlocale(LC_CTYPE, "C.UTF-8");
  editor_ = std::make_unique<Editor>(std::move(prompt), in, out);
  understands_ = knows_sequences();
}

LineReader::~LineReader() = default;

std::optional<std::string> LineReader::read() {
  if (!editor_) {
    std::optional<std::string> text = read_plain();
    if (!text && !prompt_.empty()) std::fputs("\n", out_);
    return text;
  }
  if (understands_) std::fputs(kBracketedPasteOn, editor_->out);
  std::optional<std::string> text = read_edited();
  if (!text) std::fputs("\n", editor_->out);  // what comes next, as a shell's prompt, has a line of its own
  if (understands_) std::fputs(kBracketedPasteOff, editor_->out);
  std::fflush(editor_->out);
  if (text && !text->empty()) editor_->remember(*text);
  return text;
}

std::optional<std::string> LineReader::read_edited() {
  std::string text;
  editor_->goes_on = false;
  for (;;) {
    // The library takes the window's size over at every line.
    if (!fits_the_editor(window_of(in_))) {
      const std::optional<std::string> rest = read_plain();
      if (!rest && text.empty()) return std::nullopt;
      return text + rest.value_or("");
    }
    const auto line = editor_->line();
    const bool too_long = editor_->too_long || (line && text.size() + line->size() > kLongestTextBytes);
    if (editor_->dropped || too_long) {
      std::fputs("^C\n", editor_->out);
      if (too_long) std::fputs(kTooLong, editor_->out);
      editor_->keys.drop_paste();
      text.clear();
      editor_->goes_on = false;
      continue;
    }
    if (!line && text.empty()) return std::nullopt;
    if (line) text += *line;
    // Lines typed ahead of a command's end are not part of it.
    const bool command = text.starts_with('/');
    if (line && (editor_->keys.paste_goes_on() || (!command && more_is_waiting(in_)))) {
      editor_->goes_on = true;
      continue;
    }
    if (text.ends_with('\n')) text.pop_back();
    return text;
  }
}

std::optional<std::string> LineReader::read_plain() {
  for (;;) {
    if (!prompt_.empty()) {
      std::fputs(prompt_.c_str(), out_);
      std::fflush(out_);
    }
    std::string line;
    bool too_long = false;
    int byte = std::fgetc(in_);
    if (byte == EOF) return std::nullopt;
    for (; byte != '\n' && byte != EOF; byte = std::fgetc(in_)) {
      too_long = too_long || line.size() == kLongestTextBytes;
      if (!too_long) line += static_cast<char>(byte);
    }
    if (too_long) {
      std::fputs(kTooLong, out_);
      continue;
    }
    if (line.ends_with('\r')) line.pop_back();
    return line;
  }
}

TextStyle text_style(std::FILE* out) {
  const char* no_color = std::getenv("NO_COLOR");
  const bool wanted = no_color == nullptr || *no_color == '\0';
  if (!wanted || !knows_sequences() || !is_terminal(out)) return {};
  return {.dim = "\033[2m", .bold = "\033[1m", .plain = "\033[0m"};
}

}  // namespace baleen
