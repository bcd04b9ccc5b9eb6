/// The server: routes to jobs, a model to its clients.
///
///     sockets ─► HttpServer ─► routes ─► WorkQueue: parse, render, tokenise, compile ─► CompletionJob
///        ▲        (thread 1)                 (thread 2)                                    │ submit
///        └── events ◄── ReplyEncoder ◄── ReplyReader ◄── pieces of text ◄── Scheduler (thread 3, owns the engine)
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "chat/call_memory.h"
#include "http/http_server.h"
#include "protocols/protocol.h"
#include "scheduler/scheduler.h"
#include "server/api_keys.h"
#include "server/completion_job.h"
#include "server/engine_view.h"
#include "server/metrics.h"
#include "server/prepared_request.h"
#include "server/response_store.h"
#include "server/served_model.h"
#include "server/work_queue.h"

namespace baleen {

struct ApiServerOptions {
  HttpServerOptions http;
  ApiKeys keys;                    ///< for all paths but the page, /health and /ready
  std::size_t max_preparing = 64;  ///< requests between socket and scheduler
  bool log_requests = true;        ///< a line on standard error for each, without any of its text
  bool log_text = false;           ///< the bodies too
  ResponseStoreOptions responses;  ///< those that clients may refer to later
  double keep_alive_seconds = 5;   ///< of silence before a stream says that it lives
};

class ApiServer {
 public:
  /// `scheduler` runs in a thread of its own and, like the tokenizer, outlives the server. Throws `Error` when the
  /// address cannot be had.
  ApiServer(ServedModel model, Scheduler& scheduler, EngineProbe probe, ApiServerOptions options);

  [[nodiscard]] std::uint16_t port() const { return http_.port(); }
  /// Serves until `stop`.
  void run() { http_.run(); }
  /// Takes no more requests, lets those in progress end, and stops: when all are done, or after `seconds`. Any thread.
  void drain(double seconds);
  void stop() { http_.stop(); }

 private:
  struct Route;
  using Handler = void (ApiServer::*)(const HttpRequest&, const std::shared_ptr<Exchange>&);

  static std::span<const Route> routes();
  void handle(HttpRequest request, const std::shared_ptr<Exchange>& exchange);
  [[nodiscard]] bool admits(const HttpRequest& request) const;
  /// The key that the request's responses belong to; empty where no key is needed.
  [[nodiscard]] std::string owner_of(const HttpRequest& request) const;

  void page(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void health(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void ready(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void models(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void metrics(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void stats(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void complete(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void kept_response(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void count_tokens(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void tokenize(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void detokenize(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange);

  /// Runs `task` on the work queue, or answers 429.
  void prepare(Api api, const std::shared_ptr<Exchange>& exchange, std::function<void()> task);
  void start(PreparedRequest request, const std::shared_ptr<Exchange>& exchange);
  void send_stats(const std::shared_ptr<Exchange>& exchange, double interval_seconds);
  /// Copies the engine's state out between two steps, then calls `use` in the HTTP thread.
  void with_engine_view(std::function<void(const EngineView&)> use);
  void refuse(const std::shared_ptr<Exchange>& exchange, Api api, const ApiError& error) const;
  void log_job(const JobReport& report) const;
  void stop_when_idle(double deadline);
  [[nodiscard]] ApiContext api_context(std::string client_key = {},
                                       const EarlierResponses* earlier = nullptr) const;
  [[nodiscard]] double uptime_seconds() const;

  ServedModel model_;
  Scheduler& scheduler_;
  EngineProbe probe_;
  ApiServerOptions options_;
  CallMemory calls_;
  ResponseStore responses_;
  Metrics metrics_;
  RequestPreparer preparer_;  ///< used by the work queue's thread alone
  double started_seconds_;
  std::string instance_;  ///< random, so that ids differ between runs
  std::atomic<std::int64_t> next_id_ = 0;
  std::atomic<bool> draining_ = false;
  HttpServer http_;
  WorkQueue work_;  // last: its thread uses all of the above
};

}  // namespace baleen
