#include "base/interrupt_flag.h"

#include <unistd.h>

#include <atomic>

#include "base/check.h"

namespace baleen {
namespace {

std::atomic<int> raised_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may only touch a lock-free flag");
std::atomic<bool> interrupt_flag_lives{false};

}  // namespace

struct InterruptFlag::Previous {
  int signal;
  struct sigaction action;
};

InterruptFlag::InterruptFlag(std::initializer_list<int> signals) {
  BALEEN_CHECK(!interrupt_flag_lives.exchange(true));
  raised_signal = 0;
  struct sigaction action {};
  action.sa_handler = [](int number) { raised_signal.store(number, std::memory_order_relaxed); };
  // Without SA_RESTART: a read that waits for a key should return.
  for (const int number : signals) {
    Previous previous{.signal = number, .action = {}};
    BALEEN_CHECK_EQ(::sigaction(number, nullptr, &previous.action), 0);
    if (previous.action.sa_handler == SIG_IGN) continue;
    BALEEN_CHECK_EQ(::sigaction(number, &action, nullptr), 0);
    previous_.push_back(previous);
  }
}

InterruptFlag::~InterruptFlag() { restore(); }

void InterruptFlag::restore() {
  for (const Previous& previous : previous_) ::sigaction(previous.signal, &previous.action, nullptr);
  previous_.clear();
  interrupt_flag_lives = false;
}

bool InterruptFlag::raised() const { return raised_signal.load(std::memory_order_relaxed) != 0; }

void InterruptFlag::lower() { raised_signal.store(0, std::memory_order_relaxed); }

void InterruptFlag::end_process() {
  const int number = raised_signal;
  restore();
  ::raise(number);
  ::_exit(128 + number);
}

}  // namespace baleen
