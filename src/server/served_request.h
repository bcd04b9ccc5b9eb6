/// One API request while it runs: its choices in the scheduler, its answer at the client.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chat/call_memory.h"
#include "chat/reply_reader.h"
#include "http/http_server.h"
#include "protocols/protocol.h"
#include "scheduler/scheduler.h"
#include "server/content_logprobs.h"
#include "server/prepared_request.h"
#include "server/response_store.h"
#include "server/served_model.h"

namespace baleen {

/// What happened to a request, for metrics and the log line.
struct RequestReport {
  const Protocol* protocol = &kChatCompletionsApi;
  bool stream = false;
  int status = 200;
  std::string request_id;
  Usage usage;
  std::vector<ReplySummary> choices;
  std::vector<double> token_gaps_seconds;  ///< between the steps that brought tokens, all choices
};

struct ServingContext {
  const ServedModel& model;
  Scheduler& scheduler;
  HttpServer& http;
  CallMemory& calls;
  ResponseStore& responses;
  double keep_alive_seconds = 5;  ///< how long a stream is silent before it says that it lives
  const std::function<std::string(std::string_view)>& name_options;  ///< as `ApiServerOptions::name_options`
  std::function<void(const RequestReport&)> on_done;                 ///< called in the HTTP thread
};

/// Lives in the HTTP thread; what the scheduler publishes is posted there. Keeps itself alive until it is
/// answered.
class ServedRequest : public std::enable_shared_from_this<ServedRequest> {
 public:
  ServedRequest(const ServingContext& context, PreparedRequest request, ReplyIdentity identity,
                std::shared_ptr<Exchange> exchange);

  /// Submits all choices. False when the queue is full: nothing was submitted, and the exchange is
  /// unanswered. Where an exception leaves it, what was submitted is cancelled.
  [[nodiscard]] bool start();

 private:
  class Sink;
  struct Choice {
    std::optional<RequestId> id;
    ReplyReader reader;
    bool in_reasoning = false;
    ContentLogprobs logprobs = {};
    /// Tokens up to the next one to come, where a prompt is echoed with logprobs.
    std::size_t num_echoed = 0;
    std::int64_t reasoning_tokens = 0;
    double last_piece_seconds = -1;
    bool finished = false;
    ReplySummary summary;
  };

  void receive(std::size_t choice_idx, const ReplyPiece& piece, double seconds);
  void receive_progress(std::int64_t done, std::int64_t total);
  void finish_choice(std::size_t choice_idx, const ReplySummary& summary);
  void finish();
  void fail(const ApiError& error);
  /// Runs a step that the scheduler has posted. One that cannot get memory fails the request, which would
  /// otherwise go on with a hole in its text.
  template <class Step>
  void guarded(const Step& step);
  [[nodiscard]] bool submit_all();
  void cancel();
  void send(std::string bytes);
  void keep_alive();
  [[nodiscard]] std::vector<ReplyPart> read(Choice& choice, const MarkedText& text);
  void remember_calls(std::size_t choice_idx);
  void echo_prompts();
  [[nodiscard]] TokenLogprobs logprobs_of(const ReplyToken& token) const;
  [[nodiscard]] std::vector<TokenLogprobs> prompt_logprobs(std::size_t choice_idx, const ReplyPiece& piece);
  void count_tokens(Choice& choice, const ReplyPiece& piece);
  [[nodiscard]] Usage usage() const;

  ServingContext context_;
  PreparedRequest request_;
  ReplyIdentity identity_;
  std::shared_ptr<Exchange> exchange_;
  std::unique_ptr<ReplyEncoder> encoder_;
  std::vector<Choice> choices_;
  std::optional<TokenId> end_of_reasoning_;
  std::size_t num_finished_ = 0;
  bool answered_ = false;
  double last_sent_seconds_ = 0, last_progress_seconds_ = 0;
  RequestReport report_;
};

}  // namespace baleen
