#include "http/http_server.h"

#include <algorithm>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <exception>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "http/connection.h"
#include "http/open_files.h"
#include "http/response_writer.h"
#include "http/server_state.h"

namespace baleen {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Code = boost::system::error_code;
using Clock = Connection::Clock;
using Executor = asio::io_context::executor_type;
using Timer = asio::basic_waitable_timer<Clock, asio::wait_traits<Clock>, Executor>;

/// After a failed accept, mostly for want of file descriptors: some client will have left by then.
constexpr std::chrono::milliseconds kAcceptPause(100);

/// Of a socket. Left alone, Linux lets it grow to megabytes, outside of `max_unsent_bytes`; a window of 128
/// KiB still carries 10 Mbit/s over 100 ms.
constexpr int kSocketSendBytes = 128 << 10;

Clock::duration duration(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// How often deadlines are looked at: no timer per connection, and none is kept longer than an eighth too
/// long.
Clock::duration sweep_interval(const HttpServerOptions& options) {
  const double shortest =
      std::min({options.header_seconds, options.body_seconds, options.idle_seconds, options.write_seconds});
  return duration(std::clamp(shortest / 8, 0.01, 1.0));
}

/// What to try where an address and port cannot be had.
std::string_view advice(const Code& code) {
  if (code == asio::error::address_in_use)
    return "is another server running there? Port 0 takes any free one";
  if (code == asio::error::access_denied) return "ports below 1024 are the system's; take a higher one";
  return "expected an address of this machine; 127.0.0.1 is its own, 0.0.0.0 all that it has";
}

}  // namespace

struct HttpServer::Impl {
  explicit Impl(HttpServerOptions options, HttpHandler handler);
  ~Impl();

  void listen();
  void accept();
  void on_accept(Code code, Connection::Socket socket);
  void turn_away(Connection::Socket& socket);
  void sweep();
  void collect_mail();
  void go_on();
  void drain();
  void close_all();

  ServerState state;
  asio::executor_work_guard<Executor> work{state.io.get_executor()};
  asio::basic_socket_acceptor<tcp, Executor> acceptor{state.io.get_executor()};
  Timer accept_pause{state.io.get_executor()};
  Timer sweep_timer{state.io.get_executor()};
  bool accepting = false, sweeping = false;  // on its way
  std::uint16_t port = 0;
};

HttpServer::Impl::Impl(HttpServerOptions options, HttpHandler handler) {
  state.options = std::move(options);
  state.handler = std::move(handler);
  state.mailbox = std::make_shared<Mailbox>([this] { asio::post(state.io, [this] { collect_mail(); }); });
  state.bodies = std::make_shared<BodyBudget>(state.options.max_bodies_bytes);
  listen();
}

HttpServer::Impl::~Impl() {
  close_all();
  state.mailbox->close();
}

void HttpServer::Impl::listen() {
  const HttpServerOptions& options = state.options;
  Code code;
  const auto address = asio::ip::make_address(options.host == "localhost" ? "127.0.0.1" : options.host, code);
  if (code) fail("host \"{}\": expected an address in figures such as 127.0.0.1 or ::1", options.host);
  const tcp::endpoint endpoint(address, options.port);
  acceptor.open(endpoint.protocol(), code);
  if (!code) acceptor.set_option(tcp::acceptor::reuse_address(true), code);
  if (!code) acceptor.set_option(asio::socket_base::send_buffer_size(kSocketSendBytes), code);
  if (!code) acceptor.bind(endpoint, code);
  if (!code) acceptor.listen(asio::socket_base::max_listen_connections, code);
  if (code) {
    fail("cannot listen on {} port {}: {}; {}", options.host, options.port, code.message(), advice(code));
  }
  port = acceptor.local_endpoint().port();
  accept();
}

void HttpServer::Impl::accept() {
  acceptor.async_accept(state.io, [this](Code code, Connection::Socket socket) {
    accepting = false;
    if (acceptor.is_open()) on_accept(code, std::move(socket));
  });
  accepting = true;
}

void HttpServer::Impl::collect_mail() { state.counters.failures += state.mailbox->run_all(); }

// What an exception ended on its way is begun again.
void HttpServer::Impl::go_on() {
  if (!accepting && acceptor.is_open()) accept();
  if (!sweeping) sweep();
}

void HttpServer::Impl::on_accept(Code code, Connection::Socket socket) {
  if (code) {
    ++state.counters.accept_failures;
    accept_pause.expires_after(kAcceptPause);
    accepting = true;
    accept_pause.async_wait([this](Code stopped) {
      accepting = false;
      if (!stopped && acceptor.is_open()) accept();
    });
    return;
  }
  ++state.counters.accepted;
  Code ignored;
  socket.non_blocking(true, ignored);
  socket.set_option(tcp::no_delay(true), ignored);
  if (state.connections.size() >= state.options.max_connections) {
    turn_away(socket);
  } else {
    const auto connection = std::make_shared<Connection>(state, std::move(socket));
    state.connections.insert(connection);
    ++state.counters.connections;
    connection->start();
    if (!sweeping) sweep();
  }
  accept();
}

void HttpServer::Impl::turn_away(Connection::Socket& socket) {
  ++state.counters.rejected;
  const HttpError error{503, "too_many_connections", "The server has all the connections it takes.", ""};
  const HttpErrorWriter& write_error = state.options.write_error;
  const std::string bytes =
      write_response(write_error ? write_error(error) : default_error_response(error), {.keep_alive = false});
  Code ignored;
  socket.write_some(asio::buffer(bytes), ignored);  // a courtesy: it may be cut short
  socket.close(ignored);
}

void HttpServer::Impl::sweep() {
  sweeping = false;
  if (state.connections.empty()) return;
  collect_mail();
  const Clock::time_point now = Clock::now();
  // Of a copy: who is late leaves the set.
  const std::vector<std::shared_ptr<Connection>> all(state.connections.begin(), state.connections.end());
  for (const auto& connection : all) {
    connection->look_again();
    connection->check_deadline(now);
  }
  sweep_timer.expires_after(sweep_interval(state.options));
  sweep_timer.async_wait([this](Code stopped) {
    if (!stopped) sweep();
  });
  sweeping = true;
}

void HttpServer::Impl::drain() {
  if (state.draining) return;
  state.draining = true;
  state.stop_if_drained();
}

void HttpServer::Impl::close_all() {
  const std::vector<std::shared_ptr<Connection>> all(state.connections.begin(), state.connections.end());
  for (const auto& connection : all) connection->drop();
}

HttpServer::HttpServer(HttpServerOptions options, HttpHandler handler) {
  raise_open_file_limit();
  impl_ = std::make_unique<Impl>(std::move(options), std::move(handler));
}

HttpServer::~HttpServer() = default;

std::uint16_t HttpServer::port() const { return impl_->port; }

void HttpServer::run() {
  while (!impl_->state.io.stopped()) {
    try {
      impl_->go_on();
      impl_->state.io.run();
    } catch (const std::exception&) {
      // No memory for a note of Asio's own. The pause keeps the loop from spinning until there is some again.
      ++impl_->state.counters.failures;
      std::this_thread::sleep_for(kAcceptPause);
    }
  }
  impl_->close_all();
}

void HttpServer::drain() {
  impl_->state.mailbox->put([this] { impl_->drain(); });
}

void HttpServer::stop() { impl_->state.io.stop(); }

void HttpServer::post(std::function<void()> task) { impl_->state.mailbox->put(std::move(task)); }

void HttpServer::after(double seconds, std::function<void()> task) {
  impl_->state.mailbox->put([this, seconds, task = std::move(task)] {
    const auto timer = std::make_shared<Timer>(impl_->state.io.get_executor());
    timer->expires_after(duration(seconds));
    timer->async_wait([timer, task](Code stopped) {
      if (!stopped) task();
    });
  });
}

HttpStats HttpServer::stats() const {
  const HttpCounters& counters = impl_->state.counters;
  return {.connections = counters.connections,
          .owed = counters.owed,
          .body_bytes = static_cast<std::int64_t>(impl_->state.bodies->used_bytes()),
          .accepted = counters.accepted,
          .requests = counters.requests,
          .rejected = counters.rejected,
          .timed_out = counters.timed_out,
          .dropped_slow = counters.dropped_slow,
          .accept_failures = counters.accept_failures,
          .failures = counters.failures};
}

}  // namespace baleen
