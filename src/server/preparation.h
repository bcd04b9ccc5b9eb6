/// The work between socket and scheduler (parsing, rendering, tokenising, compiling grammars) in threads of
/// its own, so that it holds up neither the sockets nor other requests.
///
///     small body ──► quick lane ──done──►          A request begins in the quick lane with little work allowed.
///                       │ more work than it allows  What exceeds it begins anew in the patient lane; what exceeds
///                       ▼                           that is refused. So a small request waits for none but small
///     large body ──► patient lane ──done, or 400──► ones, however costly those beside it turn out to be.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "protocols/protocol.h"

namespace baleen {

/// Work is counted by `spend_work`: about 10 ns a unit.
struct PreparationLimits {
  std::size_t max_waiting = 64;             ///< limit of each lane; more get 429
  std::size_t small_body_bytes = 64 << 10;  ///< larger ones begin in the patient lane
  std::int64_t quick_work = 2'000'000;      ///< limit of a request in the quick lane: some 20 ms
  std::int64_t patient_work = 100'000'000;  ///< limit in the patient lane, more gets 400: some seconds
  int patient_threads = 2;
};

struct PreparationTask {
  std::string body;
  std::shared_ptr<const void> body_share;  ///< what the body has of the memory for bodies
  /// Called with the body, perhaps a second time after `WorkExceeded` ended the first. What it throws becomes
  /// a refusal.
  std::function<void(std::string_view body)> run;
  std::function<void(const ApiError& error)> refuse;
};

class Preparation {
 public:
  explicit Preparation(const PreparationLimits& limits);
  /// Drops what has not begun.
  ~Preparation();
  Preparation(const Preparation&) = delete;
  Preparation& operator=(const Preparation&) = delete;

  /// Runs the task, or refuses it. Any thread; does not wait.
  void add(PreparationTask task);
  /// Tasks that have ever left a lane. Any thread.
  [[nodiscard]] std::int64_t num_done() const { return num_done_; }
  /// Tasks that wait in a lane now. Any thread.
  [[nodiscard]] std::int64_t num_waiting() const;

 private:
  class Lane;
  void run_quickly(std::unique_ptr<PreparationTask> task);
  void run_patiently(const PreparationTask& task);

  const PreparationLimits limits_;
  std::atomic<std::int64_t> num_done_ = 0;
  std::unique_ptr<Lane> quick_, patient_;
};

}  // namespace baleen
