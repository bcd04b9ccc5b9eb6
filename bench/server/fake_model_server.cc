#include "bench/server/fake_model_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "http/http_server.h"

namespace baleen {
namespace {

constexpr std::string_view kStall = "interval=0.01";

}  // namespace

struct FakeModelServer::Impl {
  explicit Impl(double seconds)
      : token_seconds(seconds),
        server({}, [this](HttpRequest request,
                          const std::shared_ptr<Exchange>& exchange) { answer(request, exchange); }),
        thread([this] { server.run(); }) {}
  ~Impl() {
    server.stop();
    thread.join();
  }

  void answer(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
    if (request.path == "/v1/models")
      return exchange->respond({200, "application/json", {}, R"({"data":[{"id":"fake"}]})"});
    exchange->begin_events({});
    if (request.path == "/stats") {
      exchange->send("data: {}\n\n");
      if (request.query.find(kStall) != std::string::npos)
        flood(exchange);
      else
        idle.insert(exchange), exchange->on_gone([this, exchange] { idle.erase(exchange); });
      return;
    }
    const auto body = nlohmann::json::parse(request.body, nullptr, false);
    const std::string prompt = body.contains("prompt") ? body["prompt"].dump() : body["messages"].dump();
    const auto num_words = std::count(prompt.begin(), prompt.end(), ' ');
    const bool is_new = seen.insert(prompt).second;
    const double prefill = is_new ? token_seconds * static_cast<double>(num_words) / 100 : 0;
    server.after(token_seconds + prefill, [this, exchange, num_words, left = body.value("max_tokens", 16)] {
      token(exchange, num_words, left, 0);
    });
  }

  void token(const std::shared_ptr<Exchange>& exchange, std::int64_t prompt_tokens, int left, int sent) {
    if (left == 0) {
      exchange->send(fmt::format(
          "data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":{},\"completion_tokens\":{}}}}}\n\n"
          "data: [DONE]\n\n",
          prompt_tokens, sent));
      return exchange->end();
    }
    if (!exchange->send("data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"text\":\"x\"}]}\n\n")) return;
    server.after(token_seconds, [this, exchange, prompt_tokens, left, sent] {
      token(exchange, prompt_tokens, left - 1, sent + 1);
    });
  }

  void flood(const std::shared_ptr<Exchange>& exchange) {
    constexpr double kFloodSeconds = 0.001;
    if (exchange->send("data: " + std::string(10'000, 'x') + "\n\n")) {
      server.after(kFloodSeconds, [this, exchange] { flood(exchange); });
    }
  }

  double token_seconds;
  std::set<std::string> seen;                // prompts
  std::set<std::shared_ptr<Exchange>> idle;  // streams of which nothing more comes
  HttpServer server;
  std::thread thread;
};

FakeModelServer::FakeModelServer(double token_seconds) : impl_(std::make_unique<Impl>(token_seconds)) {}
FakeModelServer::~FakeModelServer() = default;
std::uint16_t FakeModelServer::port() const { return impl_->server.port(); }

}  // namespace baleen
