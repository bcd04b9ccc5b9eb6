/// One client: requests in, answers out, one at a time and in order.
///
///                 ┌────────── kept open ◄──────────┐
///     accept ──► kReading ── request, refusal ──► kAnswering ── last answer ──► kLingering ──► kClosed
///                 │                                │
///                 └──── end, too late ──► kClosed ◄┘
///
/// While it answers it goes on reading, to see the client leave; what comes early is kept, up to one head's
/// size.
/// Before it closes after an answer it reads on for a moment: closing over unread bytes would make the system
/// reset the connection and the client lose the answer.
#pragma once

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "http/answer.h"
#include "http/request_reader.h"
#include "http/response_writer.h"
#include "http/server_state.h"

namespace baleen {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Clock = std::chrono::steady_clock;
  using Socket =
      boost::asio::basic_stream_socket<boost::asio::ip::tcp, boost::asio::io_context::executor_type>;

  /// The socket does not block. `state` outlives the connection, which lives in `state.connections` until
  /// closed.
  Connection(ServerState& state, Socket socket);

  void start();
  /// Acts when the time for what it waits for is over.
  void check_deadline(Clock::time_point now);
  /// Collects what a lost notice was about.
  void look_again();
  /// Closes at once; an answer in progress learns that its client is gone.
  void drop();

 private:
  enum class Phase { kReading, kAnswering, kLingering, kClosed };

  /// Runs one step. An exception, most often for want of memory, costs this connection alone.
  template <class Step>
  void guarded(const Step& step);
  void give_up();
  void set_owed(bool owed);
  [[nodiscard]] RequestReader new_reader() const;
  void allow(double seconds);

  void wait_readable();
  void on_readable();
  void on_end_of_input();
  void take_in(std::string_view bytes);
  void read_request(std::string_view bytes);
  void answer_from_head(const HttpResponse& response, std::string_view rest);

  void begin_answer();
  void refuse(HttpError error);
  void collect_answer();
  void finish_answer();
  void linger();
  void cut_off();

  void queue(std::string_view bytes);
  void write_on();
  void on_written(std::size_t bytes);

  ServerState& state_;
  Socket socket_;
  Phase phase_ = Phase::kReading;
  bool waiting_ = false, writing_ = false;  // an operation of the socket is under way
  bool input_ended_ = false;
  bool answer_has_begun_ = false, answer_is_queued_ = false;  // its first bytes; to its end
  bool head_is_checked_ = false;
  bool owed_ = false;  // the answer, when the server drains
  Clock::time_point deadline_ = Clock::time_point::max();
  RequestReader reader_;
  std::string early_;  // bytes of later requests
  std::string path_;   // of the request being answered
  AnswerForm form_;
  std::shared_ptr<Answer> answer_;
  std::string out_, next_out_;   // `next_out_` waits while `out_` is being written
  std::size_t num_written_ = 0;  // of `out_`
};

}  // namespace baleen
