/// Options of the commands that generate text, and the defaults that the model's own folder recommends.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app/ending_flags.h"
#include "generation/generate.h"
#include "sampling/sampling_params.h"

namespace baleen {

class Option;
class Options;

struct GenerationFlags {
  std::optional<double> temperature;  ///< unset: what generation_config.json says, else 1
  std::optional<double> top_p;
  SamplingParams sampling;
  std::vector<std::string> dry_breakers;  ///< empty: the usual ones; "none": none
  std::vector<std::string> stops;
  std::int64_t max_tokens = 0;
  EndingFlags ending;

  bool controls_in_content = false;

  void add_to(Options& command);
  /// For commands that render conversations.
  Option add_controls_in_content_to(Options& command);
  /// Sampling parameters for the model in `folder`. Throws `Error` for values that make no sense.
  [[nodiscard]] SamplingParams params(const std::filesystem::path& folder, std::int64_t vocab_size,
                                      const Tokenizer& tokenizer) const;
};

/// `12 prompt tokens in 0.10 s (120/s), 88 tokens in 1.2 s (73.3/s)`
[[nodiscard]] std::string speed_text(const Generated& generated);

/// `stopped`, `stop string`, `token limit`, `looped`, `interrupted`
[[nodiscard]] std::string_view end_text(ReplyEnd end);

}  // namespace baleen
