/// Fields that several protocols know, and reasons that several fields share.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "protocols/known_fields.h"

namespace baleen::known_field {

inline constexpr KnownField::Use kIgnored = KnownField::Use::kIgnored, kRefused = KnownField::Use::kRefused;

// Reasons that several fields share.
inline constexpr std::string_view kOneModel = "one model serves all requests in the order of their priority";
inline constexpr std::string_view kNoAccounts = "this server keeps no accounts and moderates nothing";
inline constexpr std::string_view kOwnCache = "prefixes are cached for every request";
inline constexpr std::string_view kNoBeams = "this server samples; it searches no beams";
inline constexpr std::string_view kOwnTemplate = "the model's own chat format is used, always";
inline constexpr std::string_view kNoEbnf =
    "grammars in EBNF are not supported; send a JSON schema, a regex or choices";
inline constexpr std::string_view kOwnSpaces = "white space of enforced JSON is the grammar's own choice";
inline constexpr std::string_view kOneMasker = "there is one implementation of structured output";
inline constexpr std::string_view kStops = "the reply ends with the model's end token or a stop string";
inline constexpr std::string_view kTextOnly = "this model reads and writes text alone";
inline constexpr std::string_view kUseBias = "use logit_bias";

/// Tables of several protocols as one.
template <std::size_t... kSizes>
constexpr auto joined(const KnownField (&... tables)[kSizes]) {
  std::array<KnownField, (kSizes + ...)> all{};
  std::size_t at = 0;
  ((at = static_cast<std::size_t>(std::copy_n(tables, kSizes, all.begin() + at) - all.begin())), ...);
  return all;
}

/// Of every protocol.
inline constexpr KnownField kEvery[] = {
    {"model"},
    {"temperature"},
    {"top_p"},
    {"top_k"},
    {"min_p"},
    {"repetition_penalty"},
    {"stream"},
    {"priority"},
    {"service_tier", kIgnored, kOneModel},
    {"dry_multiplier"},
    {"dry_base"},
    {"dry_allowed_length"},
    {"dry_penalty_last_n"},
    {"dry_sequence_breakers"},
    {"repetition_detection"},
};

/// Of every protocol whose replies think: one budget by four names.
inline constexpr KnownField kBudgets[] = {
    {"max_thinking_tokens"},
    {"thinking_budget"},
    {"thinking_token_budget"},
    {"thinking_budget_tokens"},
};

/// Of chat and plain completions.
inline constexpr KnownField kOpenAi[] = {
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
inline constexpr KnownField kNewerOpenAi[] = {
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

}  // namespace baleen::known_field
