#include <fmt/format.h>

#include "protocols/protocol.h"
#include "protocols/requested_ending.h"
#include "protocols/requested_format.h"
#include "protocols/requested_sampling.h"
#include "protocols/shared_fields.h"

namespace baleen {
namespace {

/// What the API has always written without max_tokens.
constexpr std::int64_t kDefaultMaxTokens = 16;
constexpr std::size_t kMaxPrompts = 128;

class PromptReader {
 public:
  PromptReader(const RequestFields& fields, const ApiContext& context, std::vector<RawPrompt>& prompts)
      : fields_(fields), context_(context), prompts_(prompts) {}

  /// A string, strings, tokens, or lists of tokens: the first element tells.
  void read() {
    const PythonJson* value = fields_.find("prompt");
    if (value == nullptr) return fields_.expected("prompt", "a string, tokens, or an array of either");
    if (const std::string* text = value->as_string()) {
      prompts_.emplace_back(*text);
      return;
    }
    const PythonJson::Array* list = value->as_array();
    if (list == nullptr) return fields_.expected("prompt", "a string, tokens, or an array of either");
    if (list->empty()) return fields_.refuse("prompt", "is an empty array");
    if (list->front().as_number() != nullptr) return read_tokens(*list, "prompt");
    if (list->size() > kMaxPrompts) {
      return fields_.refuse("prompt",
                            fmt::format("{} prompts, where at most {} are taken", list->size(), kMaxPrompts));
    }
    for (std::size_t i = 0; i < list->size() && !fields_.error(); ++i) {
      read_one((*list)[i], fmt::format("prompt[{}]", i));
    }
  }

 private:
  void read_one(const PythonJson& value, const std::string& path) {
    if (const std::string* text = value.as_string()) {
      prompts_.emplace_back(*text);
    } else if (const PythonJson::Array* tokens = value.as_array()) {
      read_tokens(*tokens, path);
    } else {
      fields_.refuse_at(path,
                        fmt::format("expected a string or an array of tokens, found {}", describe(&value)));
    }
  }

  void read_tokens(const PythonJson::Array& list, const std::string& path) {
    if (list.empty()) return fields_.refuse_at(path, "is an empty array; a prompt needs a token");
    std::vector<TokenId> tokens;
    tokens.reserve(list.size());
    for (const PythonJson& value : list) {
      const std::optional<std::int64_t> token = RequestNotation::whole(value);
      if (!token || *token < 0 || *token >= context_.vocab_size) {
        return fields_.refuse_at(fmt::format("{}[{}]", path, tokens.size()),
                                 fmt::format("expected a token id from 0 to {}, found {}",
                                             context_.vocab_size - 1, describe(&value)));
      }
      tokens.push_back(static_cast<TokenId>(*token));
    }
    prompts_.emplace_back(std::move(tokens));
  }

  const RequestFields& fields_;
  const ApiContext& context_;
  std::vector<RawPrompt>& prompts_;
};

}  // namespace

std::span<const KnownField> completions_fields() {
  using namespace known_field;
  static constexpr KnownField kAlone[] = {
      {"prompt"},
      {"best_of"},
      {"echo"},
      {"metadata", kIgnored, kNoAccounts},
      {"suffix", kRefused, "this model continues text and cannot fill a gap in it"},
      {"skip_special_tokens", kRefused, "tokens are shown as they are"},
      {"spaces_between_special_tokens", kRefused, "tokens are shown as they are"},
      {"add_special_tokens", kRefused, "a prompt always begins with the model's first token", "true"},
      {"prompt_logprobs", kRefused, "send echo and logprobs", "0"},
      {"truncate_prompt_tokens", kRefused, "prompts are not cut; shorten it"},
  };
  static constexpr auto kAll = joined(kEvery, kOpenAi, kAlone);
  return kAll;
}

ApiResult<ApiRequest> parse_completions(std::string_view body, const ApiContext& context) {
  return parse_body(body, context, [&](const RequestFields& fields, ApiRequest& request) {
    request.protocol = &kCompletionsApi;
    request.thinking_mode = ThinkingMode::kChat;
    check_known_fields(fields, request);
    PromptReader(fields, context, request.prompts).read();
    read_common_sampling(fields, request);
    read_repetition_detection(fields, request);
    read_completion_sampling(fields, context, request);
    const auto best_of = fields.integer("best_of", 1, context.max_choices);
    if (best_of && *best_of > request.num_choices) {
      fields.refuse("best_of", "above n would hide choices; ask for n of them and choose");
    }
    request.max_tokens = fields.integer("max_tokens", 0, kMaxTokensLimit).value_or(kDefaultMaxTokens);
    const auto logprobs = fields.integer("logprobs", 0, SamplingParams::kMaxLogprobs);
    request.logprobs = logprobs.has_value();
    if (logprobs) request.sampling.num_logprobs = static_cast<int>(*logprobs);
    request.echo = fields.flag("echo").value_or(false);
    if (request.max_tokens == 0 && !request.echo)
      fields.refuse("max_tokens", "0 asks for no reply, which makes sense with echo alone");
    if (const auto format = fields.fields("response_format"))
      read_format(*format, "json_schema", true, request.response_format);
    read_enforced_output(fields, request);
    read_stream_options(fields, request);
    const std::int64_t num_replies = std::ssize(request.prompts) * request.num_choices;
    if (num_replies > context.max_replies) {
      fields.refuse(
          request.num_choices > 1 ? "n" : "prompt",
          fmt::format("{} prompts of {} choices are {} replies, and the queue holds {}; send fewer at once",
                      request.prompts.size(), request.num_choices, num_replies, context.max_replies));
    }
  });
}

}  // namespace baleen
