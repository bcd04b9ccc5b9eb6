#include "http/answer.h"

#include <exception>

namespace baleen {

Answer::Answer(std::shared_ptr<Mailbox> mailbox, std::function<void()> changed, std::size_t max_unsent_bytes)
    : mailbox_(std::move(mailbox)), changed_(std::move(changed)), max_unsent_bytes_(max_unsent_bytes) {}

// Leaves the lock first: the mailbox has one of its own, and the woken thread wants this one.
void Answer::notify(std::unique_lock<std::mutex>& lock) noexcept {
  const bool is_first = !std::exchange(notified_, true);
  lock.unlock();
  if (!is_first) return;
  try {
    mailbox_->put(changed_);
  } catch (const std::exception&) {
    lock.lock();
    notified_ = false;
    lock.unlock();
  }
}

// A writer that is stuck in the middle of a write collects nothing, but must hear of this: so a second note
// goes out.
void Answer::fail_with(Fate fate, std::unique_lock<std::mutex>& lock) noexcept {
  fate_ = fate;
  notified_ = false;
  notify(lock);
}

void Answer::respond(HttpResponse response) {
  std::function<void()> unused;  // outlives the lock: what it holds may call back
  std::unique_lock lock(mutex_);
  if (gone_ || stage_ != Stage::kNothing) return;
  stage_ = Stage::kComplete;
  news_.response = std::move(response);
  news_.ended = true;
  unused.swap(on_gone_);
  notify(lock);
}

void Answer::begin_events(Headers headers) {
  std::unique_lock lock(mutex_);
  if (gone_ || stage_ != Stage::kNothing) return;
  stage_ = Stage::kEvents;
  news_.begun = std::move(headers);
  notify(lock);
}

bool Answer::send(std::string bytes) {
  std::unique_lock lock(mutex_);
  if (gone_ || stage_ != Stage::kEvents || fate_ != Fate::kGood) return false;
  // One event larger than the bound is the giver's choice, not the client's slowness.
  const std::size_t unsent = in_flight_ + news_.events.size();
  if (unsent > 0 && unsent + bytes.size() > max_unsent_bytes_) {
    fail_with(Fate::kTooSlow, lock);
    return false;
  }
  if (news_.events.empty()) {
    news_.events = std::move(bytes);
  } else {
    news_.events += bytes;
  }
  notify(lock);
  return true;
}

void Answer::end() {
  std::function<void()> unused;
  std::unique_lock lock(mutex_);
  if (gone_ || stage_ != Stage::kEvents) return;
  stage_ = Stage::kComplete;
  news_.ended = true;
  unused.swap(on_gone_);
  notify(lock);
}

void Answer::on_gone(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!gone_) {
      if (stage_ != Stage::kComplete) on_gone_.swap(callback);
      return;
    }
  }
  mailbox_->put(std::move(callback));
}

void Answer::abandon() {
  std::function<void()> unused;
  std::unique_lock lock(mutex_);
  if (gone_ || stage_ == Stage::kComplete || fate_ != Fate::kGood) return;
  unused.swap(on_gone_);
  fail_with(stage_ == Stage::kEvents ? Fate::kBroken : Fate::kUnanswered, lock);
}

Answer::News Answer::collect() {
  const std::lock_guard lock(mutex_);
  notified_ = false;
  in_flight_ += news_.events.size();  // until the writer says how much is left
  return std::exchange(news_, News{});
}

Answer::Fate Answer::fate() {
  const std::lock_guard lock(mutex_);
  return fate_;
}

void Answer::set_in_flight(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  in_flight_ = bytes;
}

void Answer::do_not_await() {
  const std::lock_guard lock(mutex_);
  awaited_ = false;
}

bool Answer::awaited() {
  const std::lock_guard lock(mutex_);
  return awaited_;
}

bool Answer::complete() {
  const std::lock_guard lock(mutex_);
  return stage_ == Stage::kComplete;
}

void Answer::drop() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    news_ = {};
    callback.swap(on_gone_);
  }
  if (callback) callback();
}

namespace {

class AnswerExchange final : public Exchange {
 public:
  explicit AnswerExchange(std::shared_ptr<Answer> answer) : answer_(std::move(answer)) {}
  AnswerExchange(const AnswerExchange&) = delete;
  AnswerExchange& operator=(const AnswerExchange&) = delete;
  ~AnswerExchange() override { answer_->abandon(); }

  void respond(HttpResponse response) override { answer_->respond(std::move(response)); }
  void begin_events(Answer::Headers headers) override { answer_->begin_events(std::move(headers)); }
  bool send(std::string bytes) override { return answer_->send(std::move(bytes)); }
  void end() override { answer_->end(); }
  void on_gone(std::function<void()> callback) override { answer_->on_gone(std::move(callback)); }
  void do_not_await() override { answer_->do_not_await(); }

 private:
  std::shared_ptr<Answer> answer_;
};

}  // namespace

std::shared_ptr<Exchange> make_exchange(std::shared_ptr<Answer> answer) {
  return std::make_shared<AnswerExchange>(std::move(answer));
}

}  // namespace baleen
