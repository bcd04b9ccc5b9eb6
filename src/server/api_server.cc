#include "server/api_server.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <iterator>
#include <random>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/number.h"
#include "log/log.h"
#include "server/conversation_routes.h"
#include "server/route_path.h"
#include "server/stats.h"
#include "server/token_routes.h"

namespace baleen {
namespace {

constexpr double kMinStatsSeconds = 0.01, kMaxStatsSeconds = 3600;
/// The rates of the last ten minutes.
constexpr double kSampleSeconds = 1;
constexpr std::size_t kHistorySamples = 601;

std::string random_name() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

/// A mark that some editors and languages write before UTF-8, and that is no part of the JSON.
std::string_view without_byte_order_mark(std::string_view body) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (body.starts_with(kMark)) body.remove_prefix(kMark.size());
  return body;
}

/// The number after `name=` in a query; `otherwise` when there is none. Fails for what is no number.
Result<double> query_number(std::string_view query, std::string_view name, double otherwise) {
  for (std::size_t begin = 0; begin < query.size();) {
    const std::size_t end = std::min(query.find('&', begin), query.size());
    const std::string_view item = query.substr(begin, end - begin);
    begin = end + 1;
    if (!item.starts_with(name) || item.size() <= name.size() || item[name.size()] != '=') continue;
    const Result<double> value = read_real(item.substr(name.size() + 1), {.min = 0, .max = 1e6});
    if (!value) return failure("{}: {}", name, value.error());
    return value.value();
  }
  return otherwise;
}

/// For the last words of replies that a drain cuts: some steps of the engine, and what the network takes.
constexpr double kFarewellSeconds = 3;

ApiError shutting_down() {
  return {.status = 503,
          .type = "server_error",
          .code = "shutting_down",
          .message = "the server is shutting down; try another"};
}

}  // namespace

struct ApiServer::Route {
  std::string_view method, path;
  Handler handler;
  bool open_to_all = false;     ///< without a key
  bool while_draining = false;  ///< how the server is may be asked to its end
  bool with_rest = false;       ///< also for longer paths
  bool exact = true;            ///< for the path itself

  [[nodiscard]] bool has_path(std::string_view wanted) const {
    return (exact && wanted == path) ||
           (with_rest && wanted.starts_with(path) && wanted.substr(path.size()).starts_with('/'));
  }
  /// The HTTP server leaves the body of an answer to HEAD out.
  [[nodiscard]] bool has_method(std::string_view wanted) const {
    return wanted == method || (wanted == "HEAD" && method == "GET");
  }
};

std::span<const ApiServer::Route> ApiServer::routes() {
  static const std::vector<Route> kRoutes = [] {
    std::vector<Route> all = {
        Route{"GET", "/", &ApiServer::page, true},
        Route{"GET", "/notices.txt", &ApiServer::notices, true},
        Route{"GET", "/pdf_reader.js", &ApiServer::pdf_reader, true},
        Route{"GET", "/page.json", &ApiServer::page_options, true},
        Route{"GET", "/conversations", &ApiServer::conversations, false, false, true},
        Route{"PUT", "/conversations", &ApiServer::conversations, false, false, true, false},
        Route{"DELETE", "/conversations", &ApiServer::conversations, false, false, true, false},
        Route{"GET", "/health", &ApiServer::health, true, true},
        Route{"GET", "/ready", &ApiServer::ready, true, true},
        Route{"GET", "/v1/models", &ApiServer::models, false, false, true},
        Route{"GET", "/metrics", &ApiServer::metrics, false, true},
        Route{"GET", "/stats", &ApiServer::stats},
        Route{"GET", "/experts", &ApiServer::experts},
        Route{"GET", "/v1/responses", &ApiServer::kept_response, false, false, true, false},
        Route{"DELETE", "/v1/responses", &ApiServer::kept_response, false, false, true, false},
        Route{"POST", "/v1/messages/count_tokens", &ApiServer::count_tokens},
        Route{"POST", "/tokenize", &ApiServer::tokenize},
        Route{"POST", "/detokenize", &ApiServer::detokenize},
    };
    for (const Protocol* protocol : protocols())
      all.push_back({"POST", protocol->path, &ApiServer::complete});
    return all;
  }();
  return kRoutes;
}

ApiServer::ApiServer(ServedModel model, Scheduler& scheduler, EngineProbe probe, ApiServerOptions options)
    : model_(std::move(model)),
      scheduler_(scheduler),
      probe_(std::move(probe)),
      options_(std::move(options)),
      responses_(options_.responses),
      conversations_(options_.conversations),
      page_(served_page(options_.mcp_origins)),
      access_(options_.access, options_.http.host),
      counter_history_(kHistorySamples),
      preparer_(model_, calls_),
      started_seconds_(monotonic_seconds()),
      instance_(random_name()),
      http_(http_options(),
            [this](HttpRequest request, std::shared_ptr<Exchange> exchange) {
              handle(std::move(request), std::move(exchange));
            }),
      preparation_(options_.preparation),
      filing_(conversations_.keeps() ? std::make_unique<Preparation>(PreparationLimits{}) : nullptr) {
  http_.post([this] { sample_counters(); });
}

HttpServerOptions ApiServer::http_options() {
  HttpServerOptions options = options_.http;
  options.write_error = [this](const HttpError& error) {
    ApiError refused{.status = error.status, .code = error.code, .message = error.message};
    if (error.status >= 500) refused.type = "server_error";
    return refusal(protocol_of(route_path(error.path)), refused, {});
  };
  options.check_head = [this](const HttpRequest& head) { return check_head(head); };
  return options;
}

RequestLabel ApiServer::new_label(const HttpRequest& head) {
  std::string id = fmt::format("{}{:06x}", instance_, next_id_++);
  std::string request_id = request_id_of(head, "req_" + id);
  return {.id = std::move(id), .request_id = std::move(request_id)};
}

std::optional<HttpResponse> ApiServer::check_head(const HttpRequest& head) {
  const std::string request_id = new_label(head).request_id, path = route_path(head.path);
  std::optional<HttpResponse> answer;
  if (const auto error = access_.refuse_source(head)) {
    answer = refusal(protocol_of(path), *error, request_id);
  } else {
    answer = check_route(head, path, request_id);
    if (answer && head.method != "OPTIONS")
      std::ranges::copy(access_.cors_headers(head), std::back_inserter(answer->headers));
  }
  if (answer) std::ranges::copy(request_id_headers(request_id), std::back_inserter(answer->headers));
  return answer;
}

std::optional<HttpResponse> ApiServer::check_route(const HttpRequest& head, std::string_view path,
                                                   std::string_view request_id) const {
  const Protocol& protocol = protocol_of(path);
  const Route* route = nullptr;
  std::string allowed;
  for (const Route& candidate : routes()) {
    if (!candidate.has_path(path)) continue;
    if (candidate.has_method(head.method)) route = &candidate;
    allowed += fmt::format("{}{}, ", candidate.method, candidate.method == "GET" ? ", HEAD" : "");
  }
  if (allowed.empty()) {
    return refusal(
        protocol,
        {.status = 404, .code = "not_found", .message = fmt::format("there is nothing at {}", head.path)},
        request_id);
  }
  allowed += "OPTIONS";
  if (head.method == "OPTIONS") return access_.answer_options(head, allowed);
  if (route == nullptr) {
    HttpResponse response = refusal(
        protocol, {.status = 405, .message = fmt::format("{} wants the method {}", head.path, allowed)},
        request_id);
    response.headers.emplace_back("Allow", allowed);
    return response;
  }
  if (draining_ && !route->while_draining) return refusal(protocol, shutting_down(), request_id);
  if (route->open_to_all) return std::nullopt;
  if (const auto error = access_.refuse_key(head)) return refusal(protocol, *error, request_id);
  return std::nullopt;
}

HttpResponse ApiServer::refusal(const Protocol& protocol, ApiError error, std::string_view request_id,
                                RetryAfter* queue, std::int64_t places) const {
  error.message = options_.name_options(error.message);
  HttpResponse response{.status = error.status, .body = error_body(protocol, error, request_id)};
  if (error.status == 429 || error.status == 503) {
    // A server that ends is another one's to replace; until then nothing is taken.
    const double now = uptime_seconds();
    const int seconds = draining_          ? RetryAfter::bounded(drained_seconds_ - now)
                        : queue != nullptr ? queue->seconds(now, places)
                                           : replies_retry_.seconds(now, 0);
    response.headers.emplace_back("Retry-After", fmt::format("{}", seconds));
  }
  if (error.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

void ApiServer::handle(HttpRequest request, std::shared_ptr<Exchange> exchange) {
  const std::string path = route_path(request.path);
  exchange = labelled_exchange(with_headers(std::move(exchange), access_.cors_headers(request)),
                               new_label(request), protocol_of(path));
  request.path = path;
  for (const Route& route : routes()) {
    if (route.has_path(request.path) && route.has_method(request.method))
      return (this->*route.handler)(request, exchange);
  }
}

void ApiServer::refuse(const std::shared_ptr<Exchange>& exchange, const ApiError& error) const {
  exchange->respond(refusal(protocol_of(*exchange), error, label_of(*exchange).request_id));
}

void ApiServer::page(HttpRequest&, const std::shared_ptr<Exchange>& exchange) {
  exchange->respond({.content_type = "text/html; charset=utf-8",
                     .headers = {{"Content-Security-Policy", page_.policy},
                                 {"X-Content-Type-Options", "nosniff"},
                                 {"Cache-Control", "no-cache"}},
                     .body = page_.html});
}

void ApiServer::pdf_reader(HttpRequest&, const std::shared_ptr<Exchange>& exchange) {
  // A worker of its own, which may load nothing and speak to no one, whatever the PDF.
  exchange->respond({.content_type = "text/javascript; charset=utf-8",
                     .headers = {{"Content-Security-Policy", "default-src 'none'"},
                                 {"X-Content-Type-Options", "nosniff"},
                                 {"Cache-Control", "no-cache"}},
                     .body = std::string(pdf_reader_script())});
}

void ApiServer::page_options(HttpRequest&, const std::shared_ptr<Exchange>& exchange) {
  exchange->respond({.headers = {{"Cache-Control", "no-store"}},
                     .body = fmt::format(R"({{"conversations":{}}})", conversations_.keeps())});
}

void ApiServer::conversations(HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
  if (!filing_) {
    return refuse(exchange,
                  {.status = 404,
                   .code = "conversations_off",
                   .message = "this server keeps no conversations; start it with ‹conversations› FOLDER"});
  }
  PreparationTask task{.body = std::move(request.body), .body_share = std::move(request.body_share)};
  task.run = [this, exchange, owner = owner_of(request), request](std::string_view body) {
    auto answer = conversation_answer(conversations_, owner, request, body);
    if (const auto* error = std::get_if<ApiError>(&answer)) return refuse(exchange, *error);
    exchange->respond(std::get<HttpResponse>(std::move(answer)));
  };
  task.refuse = [this, exchange](const ApiError& error) { refuse(exchange, error); };
  filing_->add(std::move(task));
}

void ApiServer::notices(HttpRequest&, const std::shared_ptr<Exchange>& exchange) {
  exchange->respond({.content_type = "text/plain; charset=utf-8",
                     .headers = {{"X-Content-Type-Options", "nosniff"}},
                     .body = std::string(third_party_notices())});
}

void ApiServer::health(HttpRequest&, const std::shared_ptr<Exchange>& exchange) {
  exchange->respond({.body = R"({"status":"ok"})"});
}

void ApiServer::ready(HttpRequest&, const std::shared_ptr<Exchange>& exchange) {
  if (draining_) return exchange->respond({.status = 503, .body = R"({"status":"draining"})"});
  exchange->respond({.body = R"({"status":"ready"})"});
}

void ApiServer::models(HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
  constexpr std::string_view kList = "/v1/models";
  const std::string entry = model_json(model_);
  if (request.path == kList) {
    return exchange->respond({.body = fmt::format(R"({{"object":"list","data":[{}]}})", entry)});
  }
  const std::string_view wanted = std::string_view(request.path).substr(kList.size() + 1);
  if (wanted == model_.name) return exchange->respond({.body = entry});
  refuse(exchange,
         {.status = 404,
          .code = "model_not_found",
          .message = fmt::format("this server has no model \"{}\", but \"{}\"", wanted, model_.name)});
}

void ApiServer::with_engine_view(std::function<void(const EngineView&)> use) {
  scheduler_.between_turns([this, use = std::move(use)] {
    EngineView view = probe_();
    view.prefixes = scheduler_.recent_prefixes();
    http_.post([view = std::move(view), use] { use(view); });
  });
}

void ApiServer::metrics(HttpRequest&, const std::shared_ptr<Exchange>& exchange) {
  with_engine_view([this, exchange](const EngineView& view) {
    exchange->respond({.content_type = "text/plain; version=0.0.4; charset=utf-8",
                       .body = metrics_.text(scheduler_.stats(), view, http_.stats())});
  });
}

void ApiServer::stats(HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
  const Result<double> stream = query_number(request.query, "stream", 0),
                       interval = query_number(request.query, "interval", 1),
                       history = query_number(request.query, "history", 0),
                       prefix_text = query_number(request.query, "prefix_text", 0);
  for (const Result<double>& number : {stream, interval, history, prefix_text}) {
    if (!number) return refuse(exchange, {.status = 400, .message = number.error()});
  }
  if (prefix_text.value() > 0 && !options_.log_text) {
    return refuse(
        exchange,
        {.status = 403,
         .param = "prefix_text",
         .message = "prefix_text=1 shows text of other people's requests, which this server keeps to itself; "
                    "start it with ‹logged text›, or leave the parameter out for positions alone"});
  }
  if (stream.value() > 0) {
    exchange->do_not_await();
    exchange->begin_events({});
    watchers_.insert(exchange);
    exchange->on_gone([this, watcher = std::weak_ptr(exchange)] { watchers_.erase(watcher.lock()); });
    return send_stats(exchange, std::clamp(interval.value(), kMinStatsSeconds, kMaxStatsSeconds));
  }
  const bool with_history = history.value() > 0, with_text = prefix_text.value() > 0;
  with_engine_view([this, exchange, with_history, with_text](const EngineView& view) {
    exchange->respond({.body = stats_json(model_, scheduler_.stats(), view, http_.stats(), uptime_seconds(),
                                          with_history ? &counter_history_ : nullptr, with_text)});
  });
}

void ApiServer::experts(HttpRequest&, const std::shared_ptr<Exchange>& exchange) {
  with_engine_view([this, exchange](const EngineView& view) {
    if (!view.expert_table.empty()) return exchange->respond({.body = experts_json(view)});
    refuse(exchange, {.status = 404,
                      .code = "no_expert_maps",
                      .message = "all layers have their experts where the plan places them; serve with "
                                 "‹balancing› or ‹expert map› for a map of each layer"});
  });
}

void ApiServer::sample_counters() {
  const SchedulerStats stats = scheduler_.stats();
  counter_history_.add(uptime_seconds(), stats);
  replies_retry_.sample(uptime_seconds(), stats.submitted - stats.waiting, stats.waiting);
  preparation_retry_.sample(uptime_seconds(), preparation_.num_done(), preparation_.num_waiting());
  http_.after(kSampleSeconds, [this] { sample_counters(); });
}

void ApiServer::send_stats(const std::shared_ptr<Exchange>& exchange, double interval_seconds) {
  with_engine_view([this, exchange, interval_seconds](const EngineView& view) {
    if (!watchers_.contains(exchange)) return;
    const std::string json = stats_json(model_, scheduler_.stats(), view, http_.stats(), uptime_seconds());
    if (!exchange->send("data: " + json + "\n\n")) {
      watchers_.erase(exchange);
      return;
    }
    http_.after(interval_seconds,
                [this, exchange, interval_seconds] { send_stats(exchange, interval_seconds); });
  });
}

void ApiServer::prepare(HttpRequest& request, const std::shared_ptr<Exchange>& exchange,
                        std::function<void(std::string_view body)> task) {
  PreparationTask preparing;
  preparing.body = std::move(request.body);
  preparing.body_share = std::move(request.body_share);
  preparing.run = [task = std::move(task)](std::string_view body) { task(without_byte_order_mark(body)); };
  preparing.refuse = [this, exchange](const ApiError& error) {
    exchange->respond(
        refusal(protocol_of(*exchange), error, label_of(*exchange).request_id, &preparation_retry_));
  };
  preparation_.add(std::move(preparing));
}

void ApiServer::complete(HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
  if (options_.log_text) log_line("{} {}", request.path, request.body);
  prepare(request, exchange, [this, owner = owner_of(request), exchange](std::string_view body) {
    const OwnResponses earlier(responses_, owner);
    auto parsed =
        protocol_of(*exchange).parse(body, api_context(owner, responses_.keeps() ? &earlier : nullptr));
    if (const auto* error = std::get_if<ApiError>(&parsed)) return refuse(exchange, *error);
    name_in_header(*exchange, kIgnoredHeader, std::get<ApiRequest>(parsed).ignored);
    auto prepared = preparer_.prepare(std::get<ApiRequest>(std::move(parsed)));
    if (const auto* error = std::get_if<ApiError>(&prepared)) return refuse(exchange, *error);
    name_in_header(*exchange, kUnenforcedHeader, std::get<PreparedRequest>(prepared).unenforced);
    http_.post([this, request = std::get<PreparedRequest>(std::move(prepared)), exchange]() mutable {
      start(std::move(request), exchange);
    });
  });
}

void ApiServer::start(PreparedRequest request, const std::shared_ptr<Exchange>& exchange) {
  if (draining_) return refuse(exchange, shutting_down());
  const RequestLabel label = label_of(*exchange);
  const ReplyIdentity identity{.id = label.id,
                               .created_unix_seconds = std::time(nullptr),
                               .model = model_.name,
                               .request_id = label.request_id};
  const ServingContext context{.model = model_,
                               .scheduler = scheduler_,
                               .http = http_,
                               .calls = calls_,
                               .responses = responses_,
                               .keep_alive_seconds = options_.keep_alive_seconds,
                               .name_options = options_.name_options,
                               .on_done = [this](const RequestReport& report) {
                                 metrics_.observe(report);
                                 log_reply(report);
                               }};
  const std::int64_t num_choices = std::ssize(request.choices);
  const auto served = std::make_shared<ServedRequest>(context, std::move(request), identity, exchange);
  if (served->start()) return;
  const ApiError full{.status = 429,
                      .type = "rate_limit_error",
                      .code = "queue_full",
                      .message = "the queue is full; try again after the time in Retry-After"};
  exchange->respond(refusal(protocol_of(*exchange), full, label.request_id, &replies_retry_, num_choices));
}

std::string ApiServer::owner_of(const HttpRequest& request) const {
  if (!access_.keys_required()) return "";
  return std::string(presented_key(request.header("authorization"), request.header("x-api-key")));
}

void ApiServer::kept_response(HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
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
  refuse(exchange, {.status = 404, .message = fmt::format("Response with id '{}' not found.", id)});
}

void ApiServer::count_tokens(HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
  prepare(request, exchange, [this, exchange](std::string_view body) {
    auto parsed = parse_count_tokens(body, api_context());
    if (const auto* error = std::get_if<ApiError>(&parsed)) return refuse(exchange, *error);
    auto tokens = preparer_.conversation_tokens(std::get<ApiRequest>(parsed));
    if (const auto* error = std::get_if<ApiError>(&tokens)) return refuse(exchange, *error);
    const std::size_t count = std::get<std::vector<TokenId>>(tokens).size();
    exchange->respond({.body = fmt::format(R"({{"input_tokens":{}}})", count)});
  });
}

void ApiServer::tokenize(HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
  prepare(request, exchange, [this, exchange](std::string_view body) {
    auto reply = tokenize_reply(body, model_, preparer_, api_context());
    if (const auto* error = std::get_if<ApiError>(&reply)) return refuse(exchange, *error);
    exchange->respond({.body = std::get<std::string>(std::move(reply))});
  });
}

void ApiServer::detokenize(HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
  prepare(request, exchange, [this, exchange](std::string_view body) {
    auto reply = detokenize_reply(body, model_);
    if (const auto* error = std::get_if<ApiError>(&reply)) return refuse(exchange, *error);
    exchange->respond({.body = std::get<std::string>(std::move(reply))});
  });
}

void ApiServer::drain(double seconds) {
  drained_seconds_ = uptime_seconds() + seconds;
  draining_ = true;
  scheduler_.drain();
  http_.post([this] {
    for (const auto& watcher : std::exchange(watchers_, {})) watcher->end();
  });
  http_.drain();
  http_.after(seconds, [this] { scheduler_.fail_all(shutting_down().message); });
  http_.after(seconds + kFarewellSeconds, [this] { http_.stop(); });
}

void ApiServer::log_reply(const RequestReport& report) const {
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
  log_line(
      "{:%F %T} {} {} {} {} prompt tokens ({} cached), {} reply tokens, first after {:.3f} s, all {:.3f} s{}",
      fmt::localtime(std::time(nullptr)), report.request_id, report.status,
      report.stream ? "stream" : "reply", usage.prompt_tokens, usage.cached_tokens, usage.reply_tokens, first,
      seconds, drafts);
}

ApiContext ApiServer::api_context(std::string client_key, const EarlierResponses* earlier) const {
  return {.model = model_.name,
          .any_model = model_.any_name,
          .vocab_size = model_.limits.vocab_size,
          .max_replies = std::max<std::int64_t>(1, scheduler_.max_queue()),
          .think_by_default = model_.think_by_default,
          .prompt_profile = model_.prompt_profile,
          .client_key = std::move(client_key),
          .earlier = earlier};
}

double ApiServer::uptime_seconds() const { return monotonic_seconds() - started_seconds_; }

}  // namespace baleen
