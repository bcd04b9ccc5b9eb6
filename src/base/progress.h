/// Progress of a long job: one line that rewrites itself on a terminal, a plain line every few seconds
/// elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace baleen {

/// Not thread-safe; one job, one object. Prints to standard error, at most ten times a second on a terminal
/// and every ten seconds otherwise; a job that ends sooner than the first plain line prints nothing.
class Progress {
 public:
  /// `unit` is a plural noun ("tokens"). `total` 0 means unknown. `begin` units were done before, as in a
  /// resumed job: the line counts them, the rate does not.
  Progress(std::string job, std::string unit, std::int64_t total, std::int64_t begin = 0);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Wipes the line on a terminal.
  ~Progress();

  /// `done` counts from the start, in units, with those of `begin`. `note` is appended to the line, which a
  /// terminal shows as far as it is wide.
  void update(std::int64_t done, const std::string& note = "");

 private:
  std::string job_;
  std::string unit_;
  std::int64_t total_;
  std::int64_t begin_;
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace baleen
