#include "http/connection.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <ctime>
#include <exception>
#include <optional>
#include <utility>

#include "base/memory_reserve.h"

namespace baleen {
namespace {

namespace asio = boost::asio;
using Code = boost::system::error_code;

/// How long a client may take to read a last answer and close.
constexpr double kLingerSeconds = 2;

/// A small output buffer is kept for the next token, a large one is given back.
constexpr std::size_t kKeptOutputBytes = 1024;

}  // namespace

Connection::Connection(ServerState& state, Socket socket)
    : state_(state), socket_(std::move(socket)), reader_(new_reader()) {}

RequestReader Connection::new_reader() const {
  return RequestReader({state_.options.max_header_bytes, state_.options.max_body_bytes}, state_.bodies);
}

void Connection::start() {
  guarded([this] {
    allow(state_.options.header_seconds);
    wait_readable();
  });
}

template <class Step>
void Connection::guarded(const Step& step) {
  try {
    step();
  } catch (const std::exception&) {
    give_up();
  }
}

void Connection::give_up() {
  ++state_.counters.failures;
  fill_memory_reserve();
  try {
    if (phase_ == Phase::kReading || (phase_ == Phase::kAnswering && !answer_has_begun_)) {
      early_ = {};
      reader_ = new_reader();  // what it held is memory for the answer
      return refuse({503, "out_of_memory", "The server is short of memory; try again in a moment.", path_});
    }
  } catch (const std::exception&) {
  }
  drop();
}

void Connection::set_owed(bool owed) {
  if (owed == owed_) return;
  owed_ = owed;
  state_.counters.owed += owed ? 1 : -1;
  state_.stop_if_drained();
}

void Connection::allow(double seconds) {
  deadline_ =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

void Connection::check_deadline(Clock::time_point now) {
  if (now < deadline_ || phase_ == Phase::kClosed) return;
  const bool has_begun = phase_ == Phase::kReading && reader_.state() != RequestReader::State::kEmpty;
  if (writing_ || has_begun) ++state_.counters.timed_out;
  if (writing_) return cut_off();
  if (!has_begun) return drop();
  refuse({408, "request_timeout", "The request did not arrive in time.", reader_.request().path});
}

void Connection::look_again() {
  if (phase_ == Phase::kAnswering && answer_) guarded([this] { collect_answer(); });
}

void Connection::drop() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  const auto self = shared_from_this();
  Code ignored;
  socket_.close(ignored);
  state_.connections.erase(self);
  --state_.counters.connections;
  try {
    if (answer_) answer_->drop();
  } catch (const std::exception&) {
    ++state_.counters.failures;  // of the giver's callback
  }
  answer_.reset();
  set_owed(false);
}

// ---- in ----

void Connection::wait_readable() {
  if (waiting_ || input_ended_ || phase_ == Phase::kClosed) return;
  if (early_.size() >= state_.options.max_header_bytes) return;
  waiting_ = true;
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](Code code) {
    self->waiting_ = false;
    if (self->phase_ == Phase::kClosed) return;
    if (code) return self->drop();
    self->guarded([&] { self->on_readable(); });
  });
}

void Connection::on_readable() {
  std::size_t room = state_.scratch.size();
  if (phase_ == Phase::kAnswering) room = std::min(room, state_.options.max_header_bytes - early_.size());
  Code code;
  const std::size_t count = socket_.read_some(asio::buffer(state_.scratch.data(), room), code);
  if (code == asio::error::would_block) return wait_readable();
  if (code == asio::error::eof) return on_end_of_input();
  if (code) return drop();
  take_in({state_.scratch.data(), count});
}

void Connection::on_end_of_input() {
  input_ended_ = true;
  const bool answer_is_whole = answer_is_queued_ || (answer_ && answer_->complete());
  if (phase_ != Phase::kAnswering || !answer_is_whole) return drop();
  form_.keep_alive = false;  // the client may have closed its side only, and still read
}

void Connection::take_in(std::string_view bytes) {
  if (phase_ == Phase::kReading) return read_request(bytes);
  if (phase_ == Phase::kAnswering) early_.append(bytes);
  wait_readable();
}

void Connection::read_request(std::string_view bytes) {
  using State = RequestReader::State;
  const State before = reader_.state();
  const std::size_t used = reader_.feed(bytes);
  const State after = reader_.state();
  const HttpHeadCheck& check_head = state_.options.check_head;
  if ((after == State::kBody || after == State::kComplete) && !std::exchange(head_is_checked_, true) &&
      check_head) {
    if (const std::optional<HttpResponse> refusal = check_head(reader_.request()))
      return answer_from_head(*refusal, bytes.substr(used));
  }
  if (after == State::kComplete) {
    early_.assign(bytes.substr(used));
    return begin_answer();
  }
  if (after == State::kRefused) return refuse(reader_.error());
  if (after != before) {
    const HttpServerOptions& options = state_.options;
    allow(after == State::kHead ? options.header_seconds : options.body_seconds);
    if (reader_.expects_continue() && reader_.request().body.empty()) queue(kContinue);
  }
  wait_readable();
}

// ---- answering ----

void Connection::begin_answer() {
  ++state_.counters.requests;
  HttpRequest request = std::move(reader_.request());
  path_ = request.path;
  form_ = {reader_.http11(), reader_.keep_alive(), request.method == "HEAD"};
  phase_ = Phase::kAnswering;
  deadline_ = Clock::time_point::max();
  set_owed(!state_.draining);
  const auto changed = [connection = weak_from_this()] {
    if (const auto self = connection.lock()) self->guarded([&] { self->collect_answer(); });
  };
  answer_ = std::make_shared<Answer>(state_.mailbox, changed, state_.options.max_unsent_bytes);
  const std::shared_ptr<Exchange> exchange = make_exchange(answer_);
  if (path_ == "*") {
    exchange->respond({200, "", {{"Allow", "GET, HEAD, POST, OPTIONS"}}, ""});
  } else {
    try {
      state_.handler(std::move(request), exchange);
    } catch (const std::exception&) {
      ++state_.counters.failures;  // the exchange answers 500 when the last who holds it lets go of it
    }
  }
  wait_readable();
}

void Connection::answer_from_head(const HttpResponse& response, std::string_view rest) {
  ++state_.counters.requests;
  const bool whole = reader_.state() == RequestReader::State::kComplete;
  form_ = {.http11 = reader_.http11(),
           .keep_alive = whole && reader_.keep_alive() && !state_.draining,
           .head_only = reader_.request().method == "HEAD"};
  reader_ = new_reader();
  if (whole) early_.assign(rest);
  phase_ = Phase::kAnswering;
  answer_has_begun_ = answer_is_queued_ = true;
  queue(write_response(response, form_));
}

void Connection::refuse(HttpError error) {
  ++state_.counters.rejected;
  phase_ = Phase::kAnswering;
  answer_has_begun_ = answer_is_queued_ = true;
  form_.keep_alive = false;
  form_.unix_seconds = std::time(nullptr);
  const HttpErrorWriter& write_error = state_.options.write_error;
  HttpResponse response = write_error ? write_error(error) : default_error_response(error);
  queue(write_response(response, form_));
}

void Connection::collect_answer() {
  if (phase_ != Phase::kAnswering || answer_is_queued_) return;
  switch (answer_->fate()) {
    case Answer::Fate::kGood:
      break;
    case Answer::Fate::kTooSlow:
      ++state_.counters.dropped_slow;
      return cut_off();
    case Answer::Fate::kBroken:
      return drop();
    case Answer::Fate::kUnanswered:
      return refuse({500, "internal_error", "The server has no answer to this request.", path_});
  }
  if (writing_) return;  // what comes meanwhile is written together
  Answer::News news = answer_->collect();
  answer_is_queued_ = news.ended;
  if (!answer_->awaited()) set_owed(false);
  if (state_.draining) form_.keep_alive = false;
  form_.unix_seconds = std::time(nullptr);
  std::string bytes;
  if (news.response) bytes = write_response(*news.response, form_);
  if (news.begun) {
    if (!form_.http11) form_.keep_alive = false;
    bytes = write_events_head(*news.begun, form_);
  }
  if (!news.response) append_events(bytes, news.events, news.ended, form_);
  answer_->set_in_flight(bytes.size());
  if (bytes.empty() && answer_is_queued_)
    return finish_answer();  // the end of a stream of which HEAD wants no body
  if (!bytes.empty()) answer_has_begun_ = true;
  queue(bytes);
}

void Connection::finish_answer() {
  answer_.reset();
  answer_is_queued_ = answer_has_begun_ = head_is_checked_ = false;
  if (!form_.keep_alive || state_.draining) return linger();
  set_owed(false);
  phase_ = Phase::kReading;
  form_ = {};
  reader_ = new_reader();
  allow(state_.options.idle_seconds);
  const std::string early = std::exchange(early_, {});
  if (early.empty()) return wait_readable();
  read_request(early);
}

void Connection::linger() {
  if (input_ended_) return drop();
  phase_ = Phase::kLingering;
  early_.clear();
  allow(kLingerSeconds);
  Code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  wait_readable();
}

// With a reset: otherwise the system would hold what is unsent, for minutes, for a client that reads no more.
void Connection::cut_off() {
  Code ignored;
  socket_.set_option(asio::socket_base::linger(true, 0), ignored);
  drop();
}

// ---- out ----

void Connection::queue(std::string_view bytes) {
  (writing_ ? next_out_ : out_) += bytes;
  write_on();
}

void Connection::write_on() {
  if (writing_ || num_written_ == out_.size() || phase_ == Phase::kClosed) return;
  writing_ = true;
  if (phase_ == Phase::kAnswering) allow(state_.options.write_seconds);
  socket_.async_write_some(asio::buffer(out_.data() + num_written_, out_.size() - num_written_),
                           [self = shared_from_this()](Code code, std::size_t count) {
                             self->writing_ = false;
                             if (self->phase_ == Phase::kClosed) return;
                             if (code) return self->drop();
                             self->guarded([&] { self->on_written(count); });
                           });
}

void Connection::on_written(std::size_t count) {
  num_written_ += count;
  if (answer_) answer_->set_in_flight(out_.size() - num_written_);
  if (num_written_ < out_.size()) return write_on();
  num_written_ = 0;
  out_.clear();
  if (out_.capacity() > kKeptOutputBytes) out_ = {};
  out_.swap(next_out_);
  if (!out_.empty()) return write_on();
  if (phase_ != Phase::kAnswering) return;  // that was `100 Continue`
  deadline_ = Clock::time_point::max();
  if (answer_is_queued_) return finish_answer();
  collect_answer();
}

}  // namespace baleen
