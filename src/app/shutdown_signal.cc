#include "app/shutdown_signal.h"

#include <unistd.h>

#include <ctime>
#include <exception>
#include <utility>

#include "log/log.h"

namespace baleen {
namespace {

/// How often the thread looks whether it should end.
constexpr timespec kLook{.tv_sec = 0, .tv_nsec = 100'000'000};

/// Tried again at the next look where it fails, as without memory.
void call_once(const std::function<void()>& callback, bool& called) {
  if (called || !callback) return;
  try {
    callback();
    called = true;
  } catch (const std::exception& exception) {
    log_line("baleen: shutting down: {}; trying again", exception.what());
  }
}

}  // namespace

ShutdownSignal::ShutdownSignal() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGTERM);
  sigaddset(&signals_, SIGINT);
  struct sigaction hangup {};
  if (::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
    sigaddset(&signals_, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals_, &previous_);
}

ShutdownSignal::~ShutdownSignal() {
  thread_ = {};
  pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
}

void ShutdownSignal::on_first(std::function<void()> callback) {
  const std::lock_guard lock(mutex_);
  first_ = std::move(callback);
  if (!thread_.joinable()) thread_ = std::jthread([this](const std::stop_token& stop) { wait(stop); });
}

void ShutdownSignal::on_second(std::function<void()> callback) {
  const std::lock_guard lock(mutex_);
  second_ = std::move(callback);
}

void ShutdownSignal::on_parents(std::function<void()> callback) {
  const std::lock_guard lock(mutex_);
  parents_ = std::move(callback);
}

void ShutdownSignal::wait(const std::stop_token& stop) {
  bool hung_up = false, by_parent = false;
  int num_others = 0;
  bool first_called = false, second_called = false, parents_called = false;
  while (!stop.stop_requested()) {
    siginfo_t from{};
    const int signal = sigtimedwait(&signals_, &from, &kLook);
    if (signal > 0 && from.si_code == SI_USER && from.si_pid == ::getppid()) by_parent = true;
    if (signal == SIGHUP || asked_) hung_up = true;
    if (signal > 0 && signal != SIGHUP) ++num_others;
    const std::lock_guard lock(mutex_);
    if (by_parent && parents_) {
      call_once(parents_, parents_called);
      first_called = first_called || parents_called;
    }
    if (hung_up || num_others >= 1) call_once(first_, first_called);
    if (num_others >= 2) call_once(second_, second_called);
  }
}

}  // namespace baleen
