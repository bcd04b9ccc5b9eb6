/// SIGTERM, Ctrl-C and SIGHUP for a server: the first asks it to end, a second SIGTERM or Ctrl-C insists.
#pragma once

#include <atomic>
#include <csignal>
#include <functional>
#include <mutex>
#include <thread>

namespace baleen {

/// Made before any other thread: it blocks these signals in the threads that follow and, from the first
/// callback on, waits for them in one of its own. One at a time. A SIGHUP that was ignored before, as under
/// nohup, stays ignored. It never insists: terminals and service managers send it together with SIGTERM.
class ShutdownSignal {
 public:
  ShutdownSignal();
  /// Lets the signals act as before.
  ~ShutdownSignal();
  ShutdownSignal(const ShutdownSignal&) = delete;
  ShutdownSignal& operator=(const ShutdownSignal&) = delete;

  /// Called in this object's thread. A signal that came before is not lost.
  void on_first(std::function<void()> callback);
  void on_second(std::function<void()> callback);
  /// Where the first signal of the process that started this one is not like others: in the place of
  /// `on_first`, and also after it.
  void on_parents(std::function<void()> callback);
  /// As if the first of them had come; more of this do not insist.
  void ask() { asked_ = true; }

 private:
  void wait(const std::stop_token& stop);

  sigset_t signals_;
  sigset_t previous_;
  std::atomic<bool> asked_{false};
  std::mutex mutex_;
  std::function<void()> first_, second_, parents_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace baleen
