#include "base/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "base/standard_streams.h"

namespace baleen {
namespace {

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
}

/// "12.5/s", or the seconds that a unit takes where that is more than one.
std::string rate_text(double rate) {
  return rate >= 1 || rate <= 0 ? fmt::format("{:.1f}/s", rate) : fmt::format("{:.1f} s each", 1 / rate);
}

/// As many columns as standard error's terminal has; a longer line would not be rewritten whole.
std::size_t terminal_columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1U
                                                                           : std::string::npos;
}

}  // namespace

Progress::Progress(std::string job, std::string unit, std::int64_t total, std::int64_t begin)
    : job_(std::move(job)),
      unit_(std::move(unit)),
      total_(total),
      begin_(begin),
      terminal_(::isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()),
      last_(start_) {}

Progress::~Progress() {
  if (shown_ && terminal_) write_standard_error("\r\033[K");
}

void Progress::update(std::int64_t done, const std::string& note) {
  const auto now = std::chrono::steady_clock::now();
  const auto interval = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10000);
  if (now - last_ < interval) return;
  last_ = now;
  shown_ = true;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double rate = static_cast<double>(done - begin_) / elapsed;
  std::string line = fmt::format("{}: {}", job_, done);
  if (total_ > 0) line += fmt::format("/{}", total_);
  line += fmt::format(" {}, {}", unit_, rate_text(rate));
  if (total_ > done && rate > 0)
    line += ", " + duration_text(static_cast<double>(total_ - done) / rate) + " left";
  if (!note.empty()) line += ", " + note;
  if (terminal_) line.resize(std::min(line.size(), terminal_columns()));
  write_standard_error(terminal_ ? "\r\033[K" + line : line + "\n");
}

}  // namespace baleen
