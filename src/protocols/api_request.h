/// What a client wants, whichever protocol it spoke.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "chat/message.h"
#include "chat/prompt_profile.h"
#include "chat/reply_reader.h"
#include "sampling/sampling_params.h"
#include "tensor/ragged_batch.h"

namespace baleen {

struct Protocol;
extern const Protocol kChatCompletionsApi;

/// A refusal in every protocol's terms.
struct ApiError {
  int status = 400;
  std::string type = "invalid_request_error";  ///< OpenAI's names; encoders translate
  std::string code;                            ///< may be empty
  std::string param;                           ///< the field, e.g. "messages[2].content"; may be empty
  std::string message;
};

template <class T>
using ApiResult = std::variant<T, ApiError>;

struct ToolChoice {
  enum class Kind : std::uint8_t { kAuto, kNone, kRequired, kNamed } kind = Kind::kAuto;
  std::string name;  ///< for kNamed
  bool parallel = true;
};

/// A tool that its client keeps in a group.
struct GroupedTool {
  std::string declared_name;  ///< as the prompt declares it and the model calls it
  std::string group, name;    ///< as the client knows it
};

struct ResponseFormat {
  enum class Kind : std::uint8_t { kText, kJsonObject, kJsonSchema, kPattern } kind = Kind::kText;
  std::string name;
  PythonJson schema;  ///< for kJsonSchema
  /// What of the schema must be held: what can be, all, or all of a schema that the public APIs would take
  /// as strict.
  enum class Holding : std::uint8_t { kPossible, kAll, kStrict } holding = Holding::kAll;
  std::string pattern;  ///< for kPattern: the whole reply matches it
};

/// What one request added to a conversation and its response said, as items of the responses API.
using ConversationTurn = std::shared_ptr<const PythonJson::Array>;

/// Of responses: what is kept for later requests, and how reasoning is sent.
struct ResponseKeeping {
  bool store = false;                   ///< the response may be referred to later
  std::vector<ConversationTurn> turns;  ///< turns of the responses that this one continues, oldest first
  PythonJson::Array input;              ///< what this request says, references resolved
  bool seal_reasoning = false;          ///< put it into encrypted_content
  bool summarise_reasoning = false;     ///< as the item's summary instead of its content
};

/// What a request says of loops in its reply; the rest is as the server was started with.
struct RequestedRepetition {
  std::optional<bool> on;
  std::optional<std::int64_t> min_tokens, min_count, max_period;  ///< as in RepetitionLimits
};

using RawPrompt = std::variant<std::string, std::vector<TokenId>>;

struct ApiRequest {
  const Protocol* protocol = &kChatCompletionsApi;
  std::string model;                                       ///< as the client wrote it
  PromptProfile prompt_profile = PromptProfile::kPreview;  ///< the served model's, whose rules it was read by

  // Conversation (none where the prompt is raw). Tools and response format stand in the first message too,
  // which then is the system's. A last message of the assistant (`wo_eos`) is one that the reply
  // continues, past its reasoning.
  std::vector<Message> messages;
  ThinkingMode thinking_mode = ThinkingMode::kThinking;
  std::string effort;  ///< a thinking reply's, of the prompt profile: a name or a number
  std::optional<std::int64_t> thinking_budget;  ///< tokens of thinking at most; -1: any number
  std::vector<DeclaredTool> tools;              ///< that the reply may call; the prompt may declare more
  ToolChoice tool_choice;
  std::vector<GroupedTool> grouped_tools;  ///< responses: those of `tools` that the client keeps in groups
  bool older_calls = false;  ///< chat completions: declared as `functions`, so called as `function_call`
  ResponseFormat response_format;

  std::vector<RawPrompt> prompts;  ///< completions: one or more
  bool echo = false;               ///< completions: the encoder wants the prompt's text as a first part

  SamplingParams sampling;            ///< where set below, else defaults of the model
  std::optional<double> temperature;  ///< absent: the model's default
  std::optional<double> top_p;
  std::optional<std::vector<std::string>> dry_sequence_breakers;  ///< absent: the usual ones
  RequestedRepetition repetition;
  std::vector<std::string> stops;
  std::optional<std::int64_t> max_tokens;  ///< 0, with `echo`: the prompt alone
  int num_choices = 1;
  int priority = 0;

  bool stream = false;
  bool include_usage = false;     ///< OpenAI streams: a last chunk with usage
  bool include_progress = false;  ///< chat completions that stream: events while the prompt is computed
  bool logprobs = false;
  bool show_reasoning = true;   ///< false: reasoning is computed, not sent
  PythonJson::Object repeated;  ///< responses: fields that the response repeats, as the client wrote them
  ResponseKeeping keeping;      ///< responses
  std::string client_key;       ///< the key that the client presented; empty where none is needed
  std::vector<std::string>
      ignored;  ///< what was passed over: fields that no table knows, tools that no server runs
};

}  // namespace baleen
