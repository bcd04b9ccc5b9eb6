#include "protocols/known_fields.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace baleen {
namespace {

using Use = KnownField::Use;
constexpr Use kIgnored = Use::kIgnored, kRefused = Use::kRefused;

// Reasons that several fields share.
constexpr std::string_view kOneModel = "one model serves all requests in the order of their priority";
constexpr std::string_view kNoAccounts = "this server keeps no accounts and moderates nothing";
constexpr std::string_view kOwnCache = "prefixes are cached for every request";
constexpr std::string_view kNoBeams = "this server samples; it searches no beams";
constexpr std::string_view kOwnTemplate = "the model's own chat format is used, always";
constexpr std::string_view kNoEbnf =
    "grammars in EBNF are not supported; send a JSON schema, a regex or choices";
constexpr std::string_view kOwnSpaces = "white space of enforced JSON is the grammar's own choice";
constexpr std::string_view kOneMasker = "there is one implementation of structured output";
constexpr std::string_view kStops = "the reply ends with the model's end token or a stop string";
constexpr std::string_view kTextOnly = "this model reads and writes text alone";
constexpr std::string_view kUseBias = "use logit_bias";

/// Tables of several protocols as one.
template <std::size_t... kSizes>
constexpr auto joined(const KnownField (&... tables)[kSizes]) {
  std::array<KnownField, (kSizes + ...)> all{};
  std::size_t at = 0;
  ((at = static_cast<std::size_t>(std::copy_n(tables, kSizes, all.begin() + at) - all.begin())), ...);
  return all;
}

/// Of every protocol.
constexpr KnownField kEvery[] = {
    {"model"},  {"temperature"}, {"top_p"},
    {"top_k"},  {"min_p"},       {"repetition_penalty"},
    {"stream"}, {"priority"},    {"service_tier", kIgnored, kOneModel},
};

/// Of chat and plain completions.
constexpr KnownField kOpenAi[] = {
    {"response_format"},
    {"guided_json"},
    {"guided_regex"},
    {"guided_choice"},
    {"regex"},
    {"json_schema"},
    {"structured_outputs"},
    {"frequency_penalty"},
    {"presence_penalty"},
    {"logit_bias"},
    {"seed"},
    {"n"},
    {"stop"},
    {"logprobs"},
    {"max_tokens"},
    {"stream_options"},
    {"user", kIgnored, kNoAccounts},
    {"cache_prompt", kIgnored, kOwnCache},
    {"cache_salt", kIgnored, kOwnCache},
    {"guided_decoding_backend", kIgnored, kOneMasker},
    {"guided_whitespace_pattern", kIgnored, kOwnSpaces},
    {"guided_grammar", kRefused, kNoEbnf},
    {"grammar", kRefused, kNoEbnf},
    {"ebnf", kRefused, kNoEbnf},
    {"use_beam_search", kRefused, kNoBeams},
    {"length_penalty", kRefused, kNoBeams, "1"},
    {"early_stopping", kRefused, kNoBeams},
    {"min_tokens", kRefused, kStops, "0"},
    {"ignore_eos", kRefused, kStops},
    {"stop_token_ids", kRefused, "send stop strings"},
    {"bad_words", kRefused, kUseBias},
    {"allowed_token_ids", kRefused, kUseBias},
    {"logits_processors", kRefused, kUseBias},
    {"return_token_ids", kRefused, "use /tokenize"},
    {"return_tokens_as_token_ids", kRefused, "use /tokenize"},
};

/// Of chat completions and responses.
constexpr KnownField kNewerOpenAi[] = {
    {"tools"},
    {"tool_choice"},
    {"parallel_tool_calls"},
    {"reasoning"},
    {"enable_thinking"},
    {"chat_template_kwargs"},
    {"top_logprobs"},
    {"metadata"},
    {"safety_identifier", kIgnored, kNoAccounts},
    {"prompt_cache_key", kIgnored, kOwnCache},
    {"prompt_cache_retention", kIgnored, kOwnCache},
    {"moderation", kRefused, "this server moderates nothing"},
};

constexpr KnownField kChatCompletionsAlone[] = {
    {"messages"},
    {"functions"},
    {"function_call"},
    {"reasoning_effort"},
    {"thinking"},
    {"thinking_mode"},
    {"include_reasoning"},
    {"max_completion_tokens"},
    {"modalities"},
    {"store", kIgnored, "chat completions are not kept; responses are"},
    {"prediction", kIgnored, "only speeds a reply up; the model drafts for itself (--speculate)"},
    {"verbosity", kIgnored, "the model has no such control; ask for it in a message"},
    {"add_generation_prompt", kRefused,
     "a reply always begins a new message, or continues one with \"prefix\": true", "true"},
    {"continue_final_message", kRefused, "set \"prefix\": true in the last message to continue it"},
    {"skip_special_tokens", kRefused, "special tokens are never shown", "true"},
    {"spaces_between_special_tokens", kRefused, "special tokens are never shown", "true"},
    {"audio", kRefused, kTextOnly},
    {"web_search_options", kRefused, "this server searches nothing; declare a tool for it"},
    {"structural_tag", kRefused, "declare tools; their calls are enforced"},
    {"chat_template", kRefused, kOwnTemplate},
    {"documents", kRefused, "put them into a message"},
    {"echo", kRefused, "only completions repeat their prompt"},
    {"best_of", kRefused, "above n would hide choices; ask for n of them and choose", "1"},
    {"prompt_logprobs", kRefused, "send the text to /v1/completions with echo and logprobs", "0"},
    {"truncate_prompt_tokens", kRefused, "prompts are not cut; shorten the messages"},
};
constexpr auto kChatCompletions = joined(kEvery, kOpenAi, kNewerOpenAi, kChatCompletionsAlone);

constexpr KnownField kCompletionsAlone[] = {
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
constexpr auto kCompletions = joined(kEvery, kOpenAi, kCompletionsAlone);

constexpr KnownField kResponsesAlone[] = {
    {"input"},
    {"instructions"},
    {"previous_response_id"},
    {"store"},
    {"include"},
    {"text"},
    {"max_output_tokens"},
    {"stream_options"},
    {"truncation", kIgnored, "prompts are not cut: one that is too long is refused"},
    {"max_tool_calls", kIgnored, "counts calls of hosted tools, and this server runs none"},
    {"user", kIgnored, kNoAccounts},
    {"client_metadata", kIgnored, kNoAccounts},
    {"background", kRefused, "this server runs nothing in the background; stream instead"},
    {"conversation", kRefused, "this server keeps responses, not conversations; send previous_response_id"},
    {"prompt", kRefused, "this server keeps no prompts; send instructions and input"},
    {"context_management", kRefused, "this server does not shorten conversations; shorten input"},
    {"response_format", kRefused, "stands in text.format here"},
    {"guided_json", kRefused, "send text.format"},
    {"guided_regex", kRefused, "send it to /v1/chat/completions"},
    {"guided_choice", kRefused, "send it to /v1/chat/completions"},
    {"guided_grammar", kRefused, kNoEbnf},
    {"structured_outputs", kRefused, "send text.format"},
    {"reasoning_effort", kRefused, "stands in reasoning.effort here"},
    {"max_tokens", kRefused, "is called max_output_tokens here"},
    {"max_completion_tokens", kRefused, "is called max_output_tokens here"},
    {"messages", kRefused, "is called input here"},
    {"n", kRefused, "a response has one reply; send several requests", "1"},
    {"stop", kRefused, "this API has no stop strings; use /v1/chat/completions"},
    {"seed", kRefused, "this API has no seed; use /v1/chat/completions"},
    {"frequency_penalty", kRefused, "this API has no such penalty; use /v1/chat/completions", "0"},
    {"presence_penalty", kRefused, "this API has no such penalty; use /v1/chat/completions", "0"},
    {"logit_bias", kRefused, "this API has no biases; use /v1/chat/completions", "{}"},
};
constexpr auto kResponses = joined(kEvery, kNewerOpenAi, kResponsesAlone);

constexpr KnownField kMessagesAlone[] = {
    {"messages"},
    {"system"},
    {"max_tokens"},
    {"stop_sequences"},
    {"thinking"},
    {"tools"},
    {"tool_choice"},
    {"output_config"},
    {"output_format"},
    {"metadata"},
    {"cache_control", kIgnored, kOwnCache},
    {"speed", kIgnored, kOneModel},
    {"inference_geo", kIgnored, "there is one place"},
    {"betas", kIgnored, "what it names is honoured or refused where it stands in the request"},
    {"anthropic_version", kIgnored, "there is one version"},
    {"anthropic_beta", kIgnored, "what it names is honoured or refused where it stands in the request"},
    {"context_management", kIgnored, "the conversation is used as it was sent, nothing is cleared from it"},
    {"container", kRefused, "this server runs no containers"},
    {"mcp_servers", kRefused, "this server connects to no others; declare their tools in tools"},
    {"fallbacks", kRefused, "there is one model"},
    {"response_format", kRefused, "stands in output_config.format here"},
    {"reasoning_effort", kRefused, "stands in output_config.effort here"},
    {"stop", kRefused, "is called stop_sequences here"},
    {"max_completion_tokens", kRefused, "is called max_tokens here"},
    {"max_tokens_to_sample", kRefused, "is called max_tokens here"},
    {"prompt", kRefused, "is the older form; send messages"},
    {"n", kRefused, "a message is one reply; send several requests", "1"},
    {"seed", kRefused, "this API has no seed; use /v1/chat/completions"},
};
constexpr auto kMessages = joined(kEvery, kMessagesAlone);

bool asks_for_nothing(const PythonJson& value, std::string_view harmless) {
  if (const bool* flag = value.as_bool(); flag != nullptr && !*flag) return true;
  if (const std::string* text = value.as_string(); text != nullptr && text->empty()) return true;
  if (const PythonJson::Array* list = value.as_array(); list != nullptr && list->empty()) return true;
  if (harmless.empty()) return false;
  const Result<PythonJson> other = parse_python_json(harmless);
  if (const auto number = real_number(value)) return real_number(other.value()) == number;
  return dump_python_json(value) == dump_python_json(other.value());
}

}  // namespace

std::span<const KnownField> known_fields(Api api) {
  switch (api) {
    case Api::kCompletions:
      return kCompletions;
    case Api::kResponses:
      return kResponses;
    case Api::kMessages:
      return kMessages;
    case Api::kChatCompletions:
      break;
  }
  return kChatCompletions;
}

void check_known_fields(const RequestFields& body, ApiRequest& request) {
  const std::span<const KnownField> known = known_fields(request.api);
  for (const PythonJson::Member& member : body.members()) {
    if (member.value.is_null()) continue;
    const auto field = std::ranges::find(known, std::string_view(member.name), &KnownField::name);
    if (field == known.end()) {
      request.ignored.push_back(member.name);
    } else if (field->use == Use::kRefused && !asks_for_nothing(member.value, field->harmless)) {
      return body.refuse(member.name, field->reason);
    }
  }
}

}  // namespace baleen
