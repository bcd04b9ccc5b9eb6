#include "server/api_server.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <chrono>
#include <ctime>
#include <random>
#include <utility>

#include "server/labelled_exchange.h"
#include "server/page.h"
#include "server/stats.h"
#include "server/token_routes.h"

namespace baleen {
namespace {

constexpr double kMinStatsSeconds = 0.01, kMaxStatsSeconds = 3600;
/// A look at whether all is done while draining.
constexpr double kDrainLookSeconds = 0.05;

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Clients that are given this server's address where their API's would end in /v1 leave it out.
std::string with_version(std::string path) {
  for (const std::string_view api :
       {"/chat/completions", "/completions", "/responses", "/messages", "/models"}) {
    if (path == api || path.starts_with(std::string(api) + "/")) return "/v1" + path;
  }
  return path;
}

Api api_of(std::string_view path) {
  if (path.starts_with("/v1/messages")) return Api::kMessages;
  if (path.starts_with("/v1/responses")) return Api::kResponses;
  if (path.starts_with("/v1/completions")) return Api::kCompletions;
  return Api::kChatCompletions;
}

ApiResult<ApiRequest> parse_body(Api api, std::string_view body, const ApiContext& context) {
  switch (api) {
    case Api::kCompletions:
      return parse_completions(body, context);
    case Api::kResponses:
      return parse_responses(body, context);
    case Api::kMessages:
      return parse_messages(body, context);
    case Api::kChatCompletions:
      break;
  }
  return parse_chat_completions(body, context);
}

std::string random_name() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

/// What the HTTP server itself refuses, in the shape of the protocol that was spoken.
HttpServerOptions with_protocol_errors(HttpServerOptions options) {
  options.write_error = [](const HttpError& error) {
    ApiError refusal{.status = error.status, .code = error.code, .message = error.message};
    if (error.status >= 500) refusal.type = "server_error";
    return HttpResponse{.status = error.status,
                        .body = error_body(api_of(with_version(error.path)), refusal)};
  };
  return options;
}

/// The number after `name=` in a query; `otherwise` when there is none.
double query_number(std::string_view query, std::string_view name, double otherwise) {
  for (std::size_t begin = 0; begin < query.size();) {
    const std::size_t end = std::min(query.find('&', begin), query.size());
    const std::string_view item = query.substr(begin, end - begin);
    begin = end + 1;
    if (!item.starts_with(name) || item.size() <= name.size() || item[name.size()] != '=') continue;
    const std::string_view text = item.substr(name.size() + 1);
    double value = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc()) return value;
  }
  return otherwise;
}

/// A page of another origin must not use a server that trusts everyone on this machine.
bool foreign_origin(const HttpRequest& request) {
  const std::string_view origin = request.header("origin");
  if (origin.empty()) return false;
  const std::size_t scheme = origin.find("://");
  return scheme == std::string_view::npos || origin.substr(scheme + 3) != request.header("host");
}

}  // namespace

struct ApiServer::Route {
  std::string_view method, path;
  Handler handler;
  bool open_to_all = false;  ///< without a key
  bool with_rest = false;    ///< also for longer paths
  bool exact = true;         ///< for the path itself
};

std::span<const ApiServer::Route> ApiServer::routes() {
  static constexpr std::array kRoutes = {
      Route{"GET", "/", &ApiServer::page, true},
      Route{"GET", "/health", &ApiServer::health, true},
      Route{"GET", "/ready", &ApiServer::ready, true},
      Route{"GET", "/v1/models", &ApiServer::models, false, true},
      Route{"GET", "/metrics", &ApiServer::metrics},
      Route{"GET", "/stats", &ApiServer::stats},
      Route{"POST", "/v1/chat/completions", &ApiServer::complete},
      Route{"POST", "/v1/completions", &ApiServer::complete},
      Route{"POST", "/v1/responses", &ApiServer::complete},
      Route{"GET", "/v1/responses", &ApiServer::kept_response, false, true, false},
      Route{"DELETE", "/v1/responses", &ApiServer::kept_response, false, true, false},
      Route{"POST", "/v1/messages", &ApiServer::complete},
      Route{"POST", "/v1/messages/count_tokens", &ApiServer::count_tokens},
      Route{"POST", "/tokenize", &ApiServer::tokenize},
      Route{"POST", "/detokenize", &ApiServer::detokenize},
  };
  return kRoutes;
}

ApiServer::ApiServer(ServedModel model, Scheduler& scheduler, EngineProbe probe, ApiServerOptions options)
    : model_(std::move(model)),
      scheduler_(scheduler),
      probe_(std::move(probe)),
      options_(std::move(options)),
      responses_(options_.responses),
      preparer_(model_, calls_),
      started_seconds_(now_seconds()),
      instance_(random_name()),
      http_(with_protocol_errors(options_.http),
            [this](HttpRequest request, std::shared_ptr<Exchange> exchange) {
              handle(std::move(request), exchange);
            }),
      work_(options_.max_preparing) {}

void ApiServer::handle(HttpRequest request, const std::shared_ptr<Exchange>& unlabelled) {
  const std::shared_ptr<Exchange> exchange = labelled_exchange(
      unlabelled, request_id_of(request, fmt::format("req_{}{:06x}", instance_, next_id_++)));
  request.path = with_version(std::move(request.path));
  const Api api = api_of(request.path);
  const Route* route = nullptr;
  std::string allowed;
  for (const Route& candidate : routes()) {
    const bool rest = candidate.with_rest && request.path.starts_with(std::string(candidate.path) + "/");
    if (!rest && (request.path != candidate.path || !candidate.exact)) continue;
    // The HTTP server leaves the body of an answer to HEAD out.
    if (request.method == candidate.method || (request.method == "HEAD" && candidate.method == "GET"))
      route = &candidate;
    allowed = candidate.method;
  }
  if (route == nullptr && !allowed.empty()) {
    const ApiError error{.status = 405,
                         .message = fmt::format("{} wants the method {}", request.path, allowed)};
    return exchange->respond({.status = 405,
                              .headers = {{"Allow", allowed}},
                              .body = error_body(api, error, request_id_of(*exchange))});
  }
  if (route == nullptr) {
    return refuse(
        exchange, api,
        {.status = 404, .code = "not_found", .message = fmt::format("there is nothing at {}", request.path)});
  }
  if (foreign_origin(request)) {
    return refuse(
        exchange, api,
        {.status = 403, .type = "permission_error", .message = "pages of another origin may not ask"});
  }
  if (!route->open_to_all && !admits(request)) {
    return refuse(exchange, api,
                  {.status = 401,
                   .type = "authentication_error",
                   .code = "invalid_api_key",
                   .message = "a valid API key is needed: Authorization: Bearer KEY, or x-api-key: KEY"});
  }
  (this->*route->handler)(request, exchange);
}

bool ApiServer::admits(const HttpRequest& request) const {
  return options_.keys.admits(presented_key(request.header("authorization"), request.header("x-api-key")));
}

void ApiServer::refuse(const std::shared_ptr<Exchange>& exchange, Api api, const ApiError& error) const {
  HttpResponse response{.status = error.status, .body = error_body(api, error, request_id_of(*exchange))};
  if (error.status == 429) response.headers.emplace_back("Retry-After", "1");
  if (error.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  exchange->respond(std::move(response));
}

void ApiServer::page(const HttpRequest&, const std::shared_ptr<Exchange>& exchange) {
  exchange->respond(
      {.content_type = "text/html; charset=utf-8",
       .headers = {{"Content-Security-Policy",
                    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
                    "img-src data:; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"},
                   {"X-Content-Type-Options", "nosniff"},
                   {"Cache-Control", "no-cache"}},
       .body = std::string(page_html())});
}

void ApiServer::health(const HttpRequest&, const std::shared_ptr<Exchange>& exchange) {
  exchange->respond({.body = R"({"status":"ok"})"});
}

void ApiServer::ready(const HttpRequest&, const std::shared_ptr<Exchange>& exchange) {
  if (draining_) return exchange->respond({.status = 503, .body = R"({"status":"draining"})"});
  exchange->respond({.body = R"({"status":"ready"})"});
}

void ApiServer::models(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
  constexpr std::string_view kList = "/v1/models";
  const std::string entry = model_json(model_);
  if (request.path == kList) {
    return exchange->respond({.body = fmt::format(R"({{"object":"list","data":[{}]}})", entry)});
  }
  const std::string_view wanted = std::string_view(request.path).substr(kList.size() + 1);
  if (wanted == model_.name) return exchange->respond({.body = entry});
  refuse(exchange, Api::kChatCompletions,
         {.status = 404,
          .code = "model_not_found",
          .message = fmt::format("this server has no model \"{}\", but \"{}\"", wanted, model_.name)});
}

void ApiServer::with_engine_view(std::function<void(const EngineView&)> use) {
  scheduler_.between_turns(
      [this, use = std::move(use)] { http_.post([view = probe_(), use] { use(view); }); });
}

void ApiServer::metrics(const HttpRequest&, const std::shared_ptr<Exchange>& exchange) {
  with_engine_view([this, exchange](const EngineView& view) {
    exchange->respond({.content_type = "text/plain; version=0.0.4; charset=utf-8",
                       .body = metrics_.text(scheduler_.stats(), view, http_.stats())});
  });
}

void ApiServer::stats(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
  if (query_number(request.query, "stream", 0) > 0) {
    const double interval = query_number(request.query, "interval", 1);
    exchange->begin_events({});
    return send_stats(exchange, std::clamp(interval, kMinStatsSeconds, kMaxStatsSeconds));
  }
  with_engine_view([this, exchange](const EngineView& view) {
    exchange->respond(
        {.body = stats_json(model_, scheduler_.stats(), view, http_.stats(), uptime_seconds())});
  });
}

void ApiServer::send_stats(const std::shared_ptr<Exchange>& exchange, double interval_seconds) {
  with_engine_view([this, exchange, interval_seconds](const EngineView& view) {
    const std::string json = stats_json(model_, scheduler_.stats(), view, http_.stats(), uptime_seconds());
    if (!exchange->send("data: " + json + "\n\n")) return;
    if (draining_) return exchange->end();
    http_.after(interval_seconds,
                [this, exchange, interval_seconds] { send_stats(exchange, interval_seconds); });
  });
}

void ApiServer::prepare(Api api, const std::shared_ptr<Exchange>& exchange, std::function<void()> task) {
  if (work_.push(std::move(task))) return;
  refuse(exchange, api,
         {.status = 429,
          .type = "rate_limit_error",
          .code = "queue_full",
          .message = "too many requests at once; try again in a moment"});
}

void ApiServer::complete(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
  const Api api = api_of(request.path);
  if (draining_) {
    return refuse(
        exchange, api,
        {.status = 503, .type = "server_error", .message = "the server is shutting down; try another"});
  }
  if (options_.log_text) fmt::print(stderr, "{} {}\n", request.path, request.body);
  prepare(api, exchange, [this, api, body = request.body, owner = owner_of(request), exchange] {
    const OwnResponses earlier(responses_, owner);
    auto parsed = parse_body(api, body, api_context(owner, responses_.keeps() ? &earlier : nullptr));
    if (const auto* error = std::get_if<ApiError>(&parsed)) return refuse(exchange, api, *error);
    note_ignored(*exchange, std::get<ApiRequest>(parsed).ignored);
    auto prepared = preparer_.prepare(std::get<ApiRequest>(std::move(parsed)));
    if (const auto* error = std::get_if<ApiError>(&prepared)) return refuse(exchange, api, *error);
    http_.post([this, request = std::get<PreparedRequest>(std::move(prepared)), exchange] {
      start(request, exchange);
    });
  });
}

void ApiServer::start(PreparedRequest request, const std::shared_ptr<Exchange>& exchange) {
  const Api api = request.api.api;
  const ReplyIdentity identity{.id = fmt::format("{}{:06x}", instance_, next_id_++),
                               .created_unix_seconds = std::time(nullptr),
                               .model = model_.name,
                               .request_id = request_id_of(*exchange)};
  const JobContext context{.model = model_,
                           .scheduler = scheduler_,
                           .http = http_,
                           .calls = calls_,
                           .responses = responses_,
                           .keep_alive_seconds = options_.keep_alive_seconds,
                           .on_done = [this](const JobReport& report) {
                             metrics_.observe(report);
                             log_job(report);
                           }};
  const auto job = std::make_shared<CompletionJob>(context, std::move(request), identity, exchange);
  if (job->start()) return;
  refuse(exchange, api,
         {.status = 429,
          .type = "rate_limit_error",
          .code = "queue_full",
          .message = "the queue is full; try again in a moment"});
}

std::string ApiServer::owner_of(const HttpRequest& request) const {
  if (!options_.keys.required()) return "";
  return std::string(presented_key(request.header("authorization"), request.header("x-api-key")));
}

void ApiServer::kept_response(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
  const std::string id = request.path.substr(std::string_view("/v1/responses/").size());
  const std::string owner = owner_of(request);
  const bool erases = request.method == "DELETE";
  std::optional<std::string> body;
  if (!erases) {
    body = responses_.find(owner, id);
  } else if (responses_.erase(owner, id)) {
    body = fmt::format(R"({{"id":"{}","object":"response","deleted":true}})", id);
  }
  if (body) return exchange->respond({.body = *std::move(body)});
  refuse(exchange, Api::kResponses,
         {.status = 404, .message = fmt::format("Response with id '{}' not found.", id)});
}

void ApiServer::count_tokens(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
  prepare(Api::kMessages, exchange, [this, body = request.body, exchange] {
    auto parsed = parse_count_tokens(body, api_context());
    if (const auto* error = std::get_if<ApiError>(&parsed)) return refuse(exchange, Api::kMessages, *error);
    auto tokens = preparer_.conversation_tokens(std::get<ApiRequest>(parsed));
    if (const auto* error = std::get_if<ApiError>(&tokens)) return refuse(exchange, Api::kMessages, *error);
    const std::size_t count = std::get<std::vector<TokenId>>(tokens).size();
    exchange->respond({.body = fmt::format(R"({{"input_tokens":{}}})", count)});
  });
}

void ApiServer::tokenize(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
  prepare(Api::kChatCompletions, exchange, [this, body = request.body, exchange] {
    auto reply = tokenize_reply(body, model_, preparer_, api_context());
    if (const auto* error = std::get_if<ApiError>(&reply))
      return refuse(exchange, Api::kChatCompletions, *error);
    exchange->respond({.body = std::get<std::string>(std::move(reply))});
  });
}

void ApiServer::detokenize(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
  prepare(Api::kChatCompletions, exchange, [this, body = request.body, exchange] {
    auto reply = detokenize_reply(body, model_);
    if (const auto* error = std::get_if<ApiError>(&reply))
      return refuse(exchange, Api::kChatCompletions, *error);
    exchange->respond({.body = std::get<std::string>(std::move(reply))});
  });
}

void ApiServer::drain(double seconds) {
  draining_ = true;
  scheduler_.drain();
  http_.drain();
  http_.post([this, deadline = now_seconds() + seconds] { stop_when_idle(deadline); });
}

void ApiServer::stop_when_idle(double deadline) {
  // Replies whose last bytes are on their way have a connection that is not idle.
  if ((scheduler_.idle() && http_.stats().connections == 0) || now_seconds() >= deadline) return http_.stop();
  http_.after(kDrainLookSeconds, [this, deadline] { stop_when_idle(deadline); });
}

void ApiServer::log_job(const JobReport& report) const {
  if (!options_.log_requests) return;
  std::int64_t steps = 0;
  double seconds = 0, first = 0;
  for (const ReplySummary& choice : report.choices) {
    steps += choice.steps;
    seconds = std::max(seconds, choice.total_seconds);
    first = std::max(first, choice.first_token_seconds);
  }
  const Usage& usage = report.usage;
  std::string drafts;
  if (usage.drafted_tokens > 0) {
    drafts = fmt::format(
        ", {}/{} drafts accepted, {:.2f} tokens a step", usage.accepted_tokens, usage.drafted_tokens,
        static_cast<double>(usage.reply_tokens - 1) / static_cast<double>(std::max<std::int64_t>(1, steps)));
  }
  fmt::print(stderr,
             "{:%F %T} {} {} {} {} prompt tokens ({} cached), {} reply tokens, first after {:.3f} s, all "
             "{:.3f} s{}\n",
             fmt::localtime(std::time(nullptr)), report.request_id, report.status,
             report.stream ? "stream" : "reply", usage.prompt_tokens, usage.cached_tokens, usage.reply_tokens,
             first, seconds, drafts);
}

ApiContext ApiServer::api_context(std::string client_key, const EarlierResponses* earlier) const {
  return {.model = model_.name,
          .any_model = model_.any_name,
          .vocab_size = model_.limits.vocab_size,
          .max_replies = std::max<std::int64_t>(1, scheduler_.max_queue()),
          .think_by_default = model_.think_by_default,
          .client_key = std::move(client_key),
          .earlier = earlier};
}

double ApiServer::uptime_seconds() const { return now_seconds() - started_seconds_; }

}  // namespace baleen
