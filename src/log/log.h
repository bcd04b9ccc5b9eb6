/// What the program says on standard error, line by line: the one way there for sentences, warnings and
/// requests.
///
/// A line is escaped (escape.h), so text from outside can neither forge a line nor command a terminal.
/// Nothing here throws, and no failure to write stops the program. While a `LogThread` (log_thread.h) lives,
/// lines go to its queue and the caller never waits; without one they are written at once.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>
#include <utility>

namespace baleen {

/// One line, without its end. Longer ones than `kMaxLogLineBytes` are cut, and say so.
void log_line(std::string_view text) noexcept;

/// Several lines of our own: each that `text` holds.
void log_lines(std::string_view text) noexcept;

/// Lines that were lost since the program began: no room in the queue, no memory, or writing failed.
[[nodiscard]] std::int64_t lost_log_lines() noexcept;

inline constexpr std::size_t kMaxLogLineBytes = 64 << 10;

/// Counts a line that could not even be made.
void lose_log_line() noexcept;

template <class First, class... Rest>
void log_line(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) noexcept {
  try {
    log_line(std::string_view(fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...)));
  } catch (...) {
    lose_log_line();
  }
}

}  // namespace baleen
