/// What a request may ask of the choice of its next token. Names and defaults are those of the OpenAI API and
/// vLLM.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sampling/dry_penalty.h"

namespace baleen {

struct SamplingParams {
  double temperature = 1.0;  ///< divides the logits; 0 takes the likeliest token
  int top_k = 0;             ///< keep the k likeliest tokens; 0 keeps all
  double top_p = 1.0;        ///< keep the fewest likeliest tokens that hold this share of the probability
  double min_p = 0.0;        ///< keep tokens at least this fraction as likely as the likeliest
  double repetition_penalty =
      1.0;  ///< divides positive logits of tokens seen anywhere, multiplies negative ones
  double frequency_penalty = 0.0;                    ///< subtracted once per earlier appearance in the output
  double presence_penalty = 0.0;                     ///< subtracted once from every token that the output has
  std::optional<std::uint64_t> seed = std::nullopt;  ///< same seed, same text; none draws a fresh one
  int num_logprobs = kNoLogprobs;  ///< alternatives to report beside the chosen token's own logprob
  std::map<std::int32_t, double> logit_bias = {};  ///< token id -> added to its logit
  DryParams dry = {};                              ///< a penalty that is off by default

  static constexpr int kNoLogprobs = -1;  ///< report no logprob at all
  static constexpr int kMaxLogprobs = 20;

  /// One sentence for each field whose value makes no sense, in the order above; empty when all is well.
  [[nodiscard]] std::vector<std::string> validate(std::int32_t vocab_size) const;

  /// Whether the likeliest token is taken. As in vLLM this begins a little above 0, where nothing else has a
  /// chance and dividing by the temperature would overflow.
  [[nodiscard]] bool greedy() const { return temperature < 1e-5; }
  /// Whether the logits need any change before temperature.
  [[nodiscard]] bool adjusts_logits() const {
    return penalises_counts() || dry.penalises() || !logit_bias.empty();
  }
  /// Whether tokens are penalised for having come before.
  [[nodiscard]] bool penalises_counts() const {
    return repetition_penalty != 1.0 || frequency_penalty != 0.0 || presence_penalty != 0.0;
  }
};

}  // namespace baleen
