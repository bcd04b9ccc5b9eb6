/// Signals that ask a program to end, as a flag that it looks at when it can.
#pragma once

#include <csignal>
#include <initializer_list>
#include <vector>

namespace baleen {

/// While it lives, SIGINT (Ctrl-C), or the signals given, raise a flag instead of ending the process. A
/// signal that the process ignores, as SIGHUP under nohup, stays ignored. One at a time.
class InterruptFlag {
 public:
  explicit InterruptFlag(std::initializer_list<int> signals = {SIGINT});
  InterruptFlag(const InterruptFlag&) = delete;
  InterruptFlag& operator=(const InterruptFlag&) = delete;
  /// Restores what the signals did before.
  ~InterruptFlag();

  [[nodiscard]] bool raised() const;
  void lower();
  /// Ends the process as the signal that raised the flag would have. Only after `raised()`.
  [[noreturn]] void end_process();

 private:
  struct Previous;
  void restore();
  std::vector<Previous> previous_;
};

}  // namespace baleen
