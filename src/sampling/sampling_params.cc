#include "sampling/sampling_params.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

namespace baleen {

std::vector<std::string> SamplingParams::validate(std::int32_t vocab_size) const {
  std::vector<std::string> sentences;
  // A NaN fails every comparison, so each condition states what is good rather than what is bad.
  const auto require = [&](bool good, std::string_view name, auto value, std::string_view expected) {
    if (!good) sentences.push_back(fmt::format("{} is {}; it must be {}", name, value, expected));
  };
  require(temperature >= 0 && std::isfinite(temperature), "temperature", temperature,
          "0 (always the likeliest token) or a positive number");
  require(top_k >= 0, "top_k", top_k, "0 (no limit) or the number of tokens to keep");
  require(top_p > 0 && top_p <= 1, "top_p", top_p, "above 0 and at most 1");
  require(min_p >= 0 && min_p <= 1, "min_p", min_p, "between 0 and 1");
  require(repetition_penalty > 0 && std::isfinite(repetition_penalty), "repetition_penalty",
          repetition_penalty, "a positive number; 1 changes nothing");
  require(std::fabs(frequency_penalty) <= 2, "frequency_penalty", frequency_penalty, "between -2 and 2");
  require(std::fabs(presence_penalty) <= 2, "presence_penalty", presence_penalty, "between -2 and 2");
  require(num_logprobs >= kNoLogprobs && num_logprobs <= kMaxLogprobs, "num_logprobs", num_logprobs,
          "between 0 and 20, or -1 for none");
  for (const auto& [id, bias] : logit_bias) {
    if (id < 0 || id >= vocab_size) {
      sentences.push_back(fmt::format("logit_bias names token {}; ids of this vocabulary run from 0 to {}",
                                      id, vocab_size - 1));
    }
    if (!(std::fabs(bias) <= 100)) {
      sentences.push_back(
          fmt::format("logit_bias of token {} is {}; it must be between -100 and 100", id, bias));
    }
  }
  require(dry.multiplier >= 0 && std::isfinite(dry.multiplier), "dry_multiplier", dry.multiplier,
          "0 (no penalty) or a positive number");
  require(dry.base >= 1 && std::isfinite(dry.base), "dry_base", dry.base, "a number of at least 1");
  require(dry.allowed_length >= 0, "dry_allowed_length", dry.allowed_length, "a number of tokens");
  require(dry.penalty_last_n >= -1, "dry_penalty_last_n", dry.penalty_last_n,
          "-1 (all tokens), 0 (no penalty) or the number of latest tokens to look at");
  return sentences;
}

}  // namespace baleen
