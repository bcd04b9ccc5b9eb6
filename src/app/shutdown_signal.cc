#include "app/shutdown_signal.h"

#include <ctime>
#include <utility>

namespace baleen {
namespace {

/// How often the thread looks whether it should end.
constexpr timespec kLook{.tv_sec = 0, .tv_nsec = 100'000'000};

}  // namespace

ShutdownSignal::ShutdownSignal() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGTERM);
  sigaddset(&signals_, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals_, &previous_);
  thread_ = std::jthread([this](const std::stop_token& stop) { wait(stop); });
}

ShutdownSignal::~ShutdownSignal() {
  thread_.request_stop();
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
}

void ShutdownSignal::on_first(std::function<void()> callback) {
  const std::lock_guard lock(mutex_);
  first_ = std::move(callback);
}

void ShutdownSignal::on_second(std::function<void()> callback) {
  const std::lock_guard lock(mutex_);
  second_ = std::move(callback);
}

void ShutdownSignal::wait(const std::stop_token& stop) {
  int num_signals = 0;
  bool first_called = false, second_called = false;
  while (!stop.stop_requested()) {
    if (sigtimedwait(&signals_, nullptr, &kLook) > 0) ++num_signals;
    const std::lock_guard lock(mutex_);
    if (num_signals >= 1 && !first_called && first_) {
      first_called = true;
      first_();
    }
    if (num_signals >= 2 && !second_called && second_) {
      second_called = true;
      second_();
    }
  }
}

}  // namespace baleen
