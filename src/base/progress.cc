#include "base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/standard_streams.h"

namespace baleen {
namespace {

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
}

}  // namespace

Progress::Progress(std::string job, std::string unit, std::int64_t total)
    : job_(std::move(job)),
      unit_(std::move(unit)),
      total_(total),
      terminal_(::isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()),
      last_(start_) {}

Progress::~Progress() {
  if (shown_ && terminal_) write_standard_error("\r\033[K");
}

void Progress::update(std::int64_t done, const std::string& note) {
  const auto now = std::chrono::steady_clock::now();
  const auto interval = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(5000);
  if (now - last_ < interval) return;
  last_ = now;
  shown_ = true;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double rate = static_cast<double>(done) / elapsed;
  std::string line = fmt::format("{}: {}", job_, done);
  if (total_ > 0) line += fmt::format("/{}", total_);
  line += fmt::format(" {}, {:.1f}/s", unit_, rate);
  if (total_ > done && rate > 0)
    line += ", " + duration_text(static_cast<double>(total_ - done) / rate) + " left";
  if (!note.empty()) line += ", " + note;
  write_standard_error(terminal_ ? "\r\033[K" + line : line + "\n");
}

}  // namespace baleen
