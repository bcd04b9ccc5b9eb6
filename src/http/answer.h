/// One request's answer between the threads that give it and the server's thread that writes it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "http/http_server.h"
#include "http/mailbox.h"

namespace baleen {

class Answer {
 public:
  using Headers = std::vector<std::pair<std::string, std::string>>;

  /// `changed` runs in the server's thread when there is something to collect; `max_unsent_bytes` bounds what
  /// `send` may pile up beyond the first piece.
  Answer(std::shared_ptr<Mailbox> mailbox, std::function<void()> changed, std::size_t max_unsent_bytes);

  // The giver's side, see `Exchange`; any thread.
  void respond(HttpResponse response);
  void begin_events(Headers headers);
  bool send(std::string bytes);
  void end();
  void on_gone(std::function<void()> callback);
  void do_not_await();
  /// The giver is no more.
  void abandon();

  // The writer's side; the server's thread.

  /// What has come since the last call.
  struct News {
    std::optional<HttpResponse> response;
    std::optional<Headers> begun;
    std::string events;
    bool ended = false;  ///< nothing will follow
  };
  News collect();
  enum class Fate { kGood, kTooSlow, kUnanswered, kBroken };
  /// kTooSlow: the client left too much unread. kUnanswered, kBroken: abandoned before the answer, in
  /// mid-stream.
  Fate fate();
  /// How many bytes collected earlier are not written yet; they count as unsent.
  void set_in_flight(std::size_t bytes);
  /// Whether a drain waits for it.
  bool awaited();
  /// Whether `respond` or `end` was called.
  bool complete();
  /// The client is gone: calls the giver's callback, unless the answer is complete.
  void drop();

 private:
  enum class Stage { kNothing, kEvents, kComplete };

  /// Never throws: a note that is lost for want of memory is made up for by the server's sweep.
  void notify(std::unique_lock<std::mutex>& lock) noexcept;
  void fail_with(Fate fate, std::unique_lock<std::mutex>& lock) noexcept;

  const std::shared_ptr<Mailbox> mailbox_;
  const std::function<void()> changed_;
  const std::size_t max_unsent_bytes_;

  std::mutex mutex_;  // guards all below
  Stage stage_ = Stage::kNothing;
  Fate fate_ = Fate::kGood;
  bool gone_ = false;
  bool awaited_ = true;
  bool notified_ = false;  // `changed` is on its way
  std::size_t in_flight_ = 0;
  News news_;
  std::function<void()> on_gone_;
};

/// The `Exchange` that a handler holds.
std::shared_ptr<Exchange> make_exchange(std::shared_ptr<Answer> answer);

}  // namespace baleen
