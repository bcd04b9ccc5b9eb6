/// The server: routes to requests under way, a model to its clients.
///
///     sockets ─► HttpServer ─► routes ─► Preparation: parse, render, tokenise, compile ─► ServedRequest
///        ▲      (its thread)            (threads of two lanes)                              │ submit
///        └── events ◄── ReplyEncoder ◄── ReplyReader ◄── pieces of text ◄── Scheduler (its thread owns the engine)
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "chat/call_memory.h"
#include "http/http_server.h"
#include "protocols/protocol.h"
#include "scheduler/scheduler.h"
#include "server/access.h"
#include "server/conversation_store.h"
#include "server/counter_history.h"
#include "server/engine_view.h"
#include "server/labelled_exchange.h"
#include "server/metrics.h"
#include "server/page.h"
#include "server/preparation.h"
#include "server/prepared_request.h"
#include "server/response_store.h"
#include "server/retry_after.h"
#include "server/served_model.h"
#include "server/served_request.h"

namespace baleen {

struct ApiServerOptions {
  HttpServerOptions http;
  AccessOptions access;
  PreparationLimits preparation;
  ResponseStoreOptions responses;          ///< those that clients may refer to later
  ConversationStoreOptions conversations;  ///< that the page keeps here
  std::vector<std::string> mcp_origins;    ///< servers whose tools the page may run; see `served_page`
  bool log_requests = true;                ///< a line of the log for each, without any of its text
  bool log_text = false;                   ///< the bodies too
  double keep_alive_seconds = 5;           ///< how long a stream is silent before it says that it lives
  /// Puts the names of options into sentences that clients get, which name settings by their concepts.
  std::function<std::string(std::string_view)> name_options = [](std::string_view sentence) {
    return std::string(sentence);
  };
};

class ApiServer {
 public:
  /// `scheduler` runs in a thread of its own and, like the tokenizer, outlives the server. Throws `Error`
  /// when the address cannot be had.
  ApiServer(ServedModel model, Scheduler& scheduler, EngineProbe probe, ApiServerOptions options);

  [[nodiscard]] std::uint16_t port() const { return http_.port(); }
  /// Serves until `stop`.
  void run() { http_.run(); }
  /// Takes no more requests, lets those in progress end, and stops when all are done. Those that run after
  /// `seconds` end with an error that says so; a client that does not even read that is left soon after.
  /// Until then /health, /ready (503) and the metrics are answered, all else gets 503. Any thread.
  void drain(double seconds);
  void stop() { http_.stop(); }

 private:
  struct Route;
  using Handler = void (ApiServer::*)(HttpRequest&, const std::shared_ptr<Exchange>&);

  static std::span<const Route> routes();
  /// Everything that may be said of a request without its body.
  [[nodiscard]] std::optional<HttpResponse> check_head(const HttpRequest& head);
  [[nodiscard]] std::optional<HttpResponse> check_route(const HttpRequest& head, std::string_view path,
                                                        std::string_view request_id) const;
  void handle(HttpRequest request, std::shared_ptr<Exchange> exchange);
  [[nodiscard]] RequestLabel new_label(const HttpRequest& head);
  /// The key that the request's responses belong to; empty where no key is needed.
  [[nodiscard]] std::string owner_of(const HttpRequest& request) const;

  void page(HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void notices(HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void pdf_reader(HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void page_options(HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void conversations(HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void health(HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void ready(HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void models(HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void metrics(HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void stats(HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void experts(HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void complete(HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void kept_response(HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void count_tokens(HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void tokenize(HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void detokenize(HttpRequest& request, const std::shared_ptr<Exchange>& exchange);

  /// Runs `task` with the body in a lane of the preparation, or answers why not. It may begin anew there.
  void prepare(HttpRequest& request, const std::shared_ptr<Exchange>& exchange,
               std::function<void(std::string_view body)> task);
  void start(PreparedRequest request, const std::shared_ptr<Exchange>& exchange);
  void send_stats(const std::shared_ptr<Exchange>& exchange, double interval_seconds);
  /// Notes the counters now and every second from then on.
  void sample_counters();
  /// Copies the engine's state out between two steps, then calls `use` in the HTTP thread.
  void with_engine_view(std::function<void(const EngineView&)> use);
  void refuse(const std::shared_ptr<Exchange>& exchange, const ApiError& error) const;
  /// The answer, with the time after which one of 429 or 503 is worth another try. `queue`: the one that is
  /// full, if one is; `places`: of it, that the request wants.
  [[nodiscard]] HttpResponse refusal(const Protocol& protocol, ApiError error, std::string_view request_id,
                                     RetryAfter* queue = nullptr, std::int64_t places = 1) const;
  void log_reply(const RequestReport& report) const;
  [[nodiscard]] HttpServerOptions http_options();
  [[nodiscard]] ApiContext api_context(std::string client_key = {},
                                       const EarlierResponses* earlier = nullptr) const;
  [[nodiscard]] double uptime_seconds() const;

  ServedModel model_;
  Scheduler& scheduler_;
  EngineProbe probe_;
  ApiServerOptions options_;
  CallMemory calls_;
  ResponseStore responses_;
  ConversationStore conversations_;
  ServedPage page_;
  Metrics metrics_;
  Access access_;
  CounterHistory counter_history_;  ///< used by the HTTP thread alone
  /// Places in the scheduler's queue, and in the lanes of the preparation. Thread-safe.
  mutable RetryAfter replies_retry_, preparation_retry_;
  RequestPreparer preparer_;
  double started_seconds_;
  std::string instance_;  ///< random, so that ids differ between runs
  std::atomic<std::int64_t> next_id_ = 0;
  std::atomic<bool> draining_ = false;
  std::atomic<double> drained_seconds_ = 0;  ///< when a drain ends at the latest, as `uptime_seconds`
  /// Streams of /stats, which no drain waits for; the HTTP thread's.
  std::set<std::shared_ptr<Exchange>> watchers_;
  HttpServer http_;
  Preparation preparation_;  // its threads use all of the above
  /// Reads and writes conversations, so that no prompt waits for the disk; null where none are kept.
  std::unique_ptr<Preparation> filing_;
};

}  // namespace baleen
