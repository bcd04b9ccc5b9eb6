/// The whole server in this process, on the bundled model unless another is named, and a free port of the
/// loopback.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "engine/engine.h"
#include "scheduler/scheduler.h"
#include "server/api_server.h"
#include "tests/support/http_client.h"
#include "tokenizer/tokenizer.h"

namespace baleen::test {

struct RunningServerOptions {
  std::filesystem::path model = "models/stories";
  EngineOptions engine{.num_threads = 1,
                       .max_batch_tokens = 256,
                       .max_sequences = 8,
                       .cache_tokens = 16384,
                       .prefix_cache = true};
  SchedulerOptions scheduler;
  ApiServerOptions server{.log_requests = false};
  bool controls_in_content = false;
  std::int64_t max_reply_tokens = 0;
  PromptProfile prompt_profile = PromptProfile::kPreview;
  bool think_by_default = false;
  std::optional<std::int64_t> thinking_budget = {};
};

inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class RunningServer {
 public:
  explicit RunningServer(RunningServerOptions options = {})
      : tokenizer_(Tokenizer::load(options.model)),
        engine_(options.model, with_drafts(options)),
        scheduler_(engine_, tokenizer_, options.scheduler, steady_seconds),
        server_(
            model(options), scheduler_, [this] { return view(); }, std::move(options.server)),
        loop_([this](const std::stop_token& stop) { scheduler_.run(stop); }),
        http_([this] { server_.run(); }) {}
  ~RunningServer() {
    server_.stop();
    http_.join();
  }
  RunningServer(const RunningServer&) = delete;
  RunningServer& operator=(const RunningServer&) = delete;

  [[nodiscard]] std::uint16_t port() const { return server_.port(); }
  ApiServer& server() { return server_; }
  void join() {
    http_.join(), http_ = std::thread([] {});
  }

  HttpReply get(std::string_view path) { return http_request(port(), "GET", path); }
  HttpReply post(std::string_view path, const nlohmann::json& body, const HttpHeaders& headers = {}) {
    return http_request(port(), "POST", path, body.dump(), headers);
  }
  /// The JSON of a reply that must be a success.
  nlohmann::json ask(std::string_view path, const nlohmann::json& body) {
    const HttpReply reply = post(path, body);
    if (reply.status != 200) throw std::runtime_error(reply.head + reply.body);
    return nlohmann::json::parse(reply.body);
  }
  nlohmann::json stats() { return nlohmann::json::parse(get("/stats").body); }

 private:
  static EngineOptions with_drafts(RunningServerOptions& options) {
    options.engine.max_draft_tokens = options.scheduler.speculate;
    options.engine.max_logit_rows = options.engine.max_sequences * (1 + options.scheduler.speculate);
    return options.engine;
  }
  ServedModel model(const RunningServerOptions& options) {
    return {.name = "stories",
            .tokenizer = &tokenizer_,
            .limits = engine_.limits(),
            .max_reply_tokens = options.max_reply_tokens,
            .think_by_default = options.think_by_default,
            .prompt_profile = options.prompt_profile,
            .thinking_budget = options.thinking_budget,
            .controls_in_content = options.controls_in_content,
            .bounded_replay_tokens = options.engine.bounded_replay_tokens,
            .num_layers = engine_.config().num_hidden_layers};
  }
  EngineView view() {
    EngineView view;
    view.tree = engine_.tree(100);
    return view;
  }

  Tokenizer tokenizer_;
  Engine engine_;
  Scheduler scheduler_;
  ApiServer server_;
  std::jthread loop_;
  std::thread http_;
};

}  // namespace baleen::test
