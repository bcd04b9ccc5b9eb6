/// The protocols: JSON in to ApiRequest, reply parts out to JSON or server-sent events. Pure functions and
/// values; nothing here knows sockets, tokens or the engine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/reply_end.h"
#include "chat/prompt_profile.h"
#include "protocols/api_request.h"

namespace baleen {

/// Responses that the server keeps, as far as one client may refer to them.
class EarlierResponses {
 public:
  virtual ~EarlierResponses() = default;
  /// The conversation up to and with that response, oldest turn first. Nothing: not kept, or another
  /// client's.
  [[nodiscard]] virtual std::optional<std::vector<ConversationTurn>> conversation(
      std::string_view response_id) const = 0;
  /// One item of such a response's output.
  [[nodiscard]] virtual std::optional<PythonJson> item(std::string_view item_id) const = 0;
};

/// What parsing needs to know of the server.
struct ApiContext {
  std::string model;       ///< the name it serves under
  bool any_model = false;  ///< other names mean it too
  std::int64_t vocab_size = 0;
  int max_choices = 16;
  /// Replies that a request may have over all its prompts: no more than the queue holds.
  std::int64_t max_replies = 1 << 20;
  bool think_by_default = false;                           ///< when the request does not say
  PromptProfile prompt_profile = PromptProfile::kPreview;  ///< whose efforts requests are mapped to
  std::string client_key = {};                             ///< the key presented with the request
  const EarlierResponses* earlier = nullptr;               ///< null: none are kept
};

/// Parses a body by the path's protocol: types, ranges and contradictions are checked here, each refusal
/// names the field. Known fields that cannot be honoured are refused, unknown ones noted in `ignored`
/// (known_fields.h).
[[nodiscard]] ApiResult<ApiRequest> parse_chat_completions(std::string_view body, const ApiContext& context);
[[nodiscard]] ApiResult<ApiRequest> parse_completions(std::string_view body, const ApiContext& context);
[[nodiscard]] ApiResult<ApiRequest> parse_responses(std::string_view body, const ApiContext& context);
[[nodiscard]] ApiResult<ApiRequest> parse_messages(std::string_view body, const ApiContext& context);
/// Anthropic's count_tokens: as parse_messages, where max_tokens may be missing.
[[nodiscard]] ApiResult<ApiRequest> parse_count_tokens(std::string_view body, const ApiContext& context);

struct TokenText {
  std::string bytes;
  double logprob = 0;
};
struct TokenLogprobs {
  TokenText token;
  bool is_first = false;  ///< nothing comes before it in the prompt, so it has no logprob
  std::vector<TokenText> top;
};

struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;
  std::int64_t reply_tokens = 0;  ///< reasoning included
  std::int64_t reasoning_tokens = 0;
  std::int64_t drafted_tokens = 0, accepted_tokens = 0;
};

/// Turns the parts of all choices of one request into its response. Each call returns bytes to send now:
/// events when the request streams, nothing otherwise; `finish` returns the end of the stream, or the whole
/// body. What it returns is valid UTF-8 and JSON whatever bytes came in. Choices are numbered through: those
/// of the first prompt, then those of the next. A reply that streams costs no memory for its text, except in
/// responses, whose last event repeats it, and in messages for the call that is not whole yet.
class ReplyEncoder {
 public:
  virtual ~ReplyEncoder() = default;
  [[nodiscard]] virtual std::string begin() = 0;
  /// `parts` in order, and the logprobs of the tokens that came with them, when wanted; either may be empty.
  [[nodiscard]] virtual std::string parts(int choice, const std::vector<ReplyPart>& parts,
                                          const std::vector<TokenLogprobs>& logprobs) = 0;
  [[nodiscard]] virtual std::string choice_finished(int choice, ReplyEnd end,
                                                    const std::string& stop_string) = 0;
  [[nodiscard]] virtual std::string finish(const Usage& usage) = 0;
  /// While nothing else is sent: what tells clients and proxies that the connection lives. Of a stream.
  [[nodiscard]] virtual std::string keep_alive() const { return ": keep-alive\n\n"; }
  /// How much of the prompt is computed, for requests with `include_progress`.
  [[nodiscard]] virtual std::string progress(std::int64_t /*done*/, std::int64_t /*total*/) const {
    return "";
  }
  /// After `finish`: the response as it can be fetched later; empty for protocols without such.
  [[nodiscard]] virtual std::string record() const { return ""; }
  /// Instead of `finish`: the event that ends a broken stream, or the error's body.
  [[nodiscard]] virtual std::string failed(const ApiError& error) = 0;
};

/// `id` is unique and plain ("8f3a..."): encoders add their prefix.
struct ReplyIdentity {
  std::string id;
  std::int64_t created_unix_seconds = 0;
  std::string model;
  std::string request_id = {};            ///< id of the HTTP exchange
  std::string fingerprint = "fp_baleen";  ///< same value, same seed: same text (OpenAI's system_fingerprint)
};

struct KnownField;

/// The words and JSON in which a protocol refuses.
struct ErrorShape {
  std::string (*body)(const ApiError& error, std::string_view request_id);
  /// The sentence of `prompt_too_long`.
  std::string (*prompt_too_long)(std::string_view prompt_field, std::int64_t prompt_tokens,
                                 std::int64_t reply_tokens, std::int64_t context_tokens);
};
/// {"error": {...}}
extern const ErrorShape kOpenAiErrors;
/// {"type": "error", "error": {...}, "request_id": ...}
extern const ErrorShape kAnthropicErrors;

/// What the rest of the program knows of a protocol. One more is a file for its requests, one for its
/// replies, and a row in protocols.cc.
struct Protocol {
  std::string_view name;          ///< what metrics call it
  std::string_view path;          ///< that requests are posted to; errors of longer paths have its shape too
  std::string_view prompt_field;  ///< the conversation or prompt of a request, for the `param` of refusals
  std::string_view call_id_prefix;
  bool has_raw_prompt =
      false;  ///< text or tokens: no conversation is rendered, and replies are content alone
  std::span<const KnownField> (*known_fields)();  ///< fields that its requests may have, each once
  ApiResult<ApiRequest> (*parse)(std::string_view body, const ApiContext& context);
  std::unique_ptr<ReplyEncoder> (*make_encoder)(const ApiRequest& request, const ReplyIdentity& identity,
                                                const Usage& at_start);
  const ErrorShape* errors = &kOpenAiErrors;
};
extern const Protocol kChatCompletionsApi, kCompletionsApi, kResponsesApi, kMessagesApi;
[[nodiscard]] std::span<const Protocol* const> protocols();
/// The protocol of a path; chat completions for paths of no protocol, which have its errors.
[[nodiscard]] const Protocol& protocol_of(std::string_view path);

/// The error's body, bounded in size.
[[nodiscard]] std::string error_body(const Protocol& protocol, const ApiError& error,
                                     std::string_view request_id = {});

/// The refusal of a prompt that leaves no room in the context: in the words, and with the code, by which
/// clients of that API know that they have to shorten the conversation instead of sending it again. `field`:
/// of the prompt. `reply_tokens`: the least that the reply takes, 0 or 1.
[[nodiscard]] ApiError prompt_too_long(const Protocol& protocol, std::string field,
                                       std::int64_t prompt_tokens, std::int64_t reply_tokens,
                                       std::int64_t context_tokens);

/// Ids of tool calls: "call_" or "toolu_", then identity, choice and call. Letters, digits and _.
[[nodiscard]] std::string tool_call_id(const Protocol& protocol, const ReplyIdentity& identity, int choice,
                                       std::size_t call_idx);
[[nodiscard]] std::unique_ptr<ReplyEncoder> make_encoder(const ApiRequest& request,
                                                         const ReplyIdentity& identity,
                                                         const Usage& at_start);

}  // namespace baleen
