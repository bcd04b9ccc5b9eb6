/// Where the decoder half of a model begins: the layers whose entries, and so all that later positions see of
/// a position beside its window, come from layers before them. DeepSeek-V4.1's layers 20 to 39 read entries
/// that layer 20 makes of what layer 19 leaves; of a prompt's positions that no window reaches any more they
/// need compute nothing.                                          (source: releases specification 2.5)
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "model/config.h"

namespace baleen {

/// The first layer of the decoder half, which makes entries for itself and all layers behind it. A failure
/// says why the model has no such half.
[[nodiscard]] Result<std::int64_t> decoder_begin(const ModelConfig& config);

/// Where the half of a sequence begins whose prompt has `prompt_tokens`, when it is computed on the last
/// `replay_tokens` of them alone; 0: on all.
[[nodiscard]] constexpr std::int64_t decoder_begin_of(std::int64_t prompt_tokens,
                                                      std::int64_t replay_tokens) {
  return replay_tokens == 0 ? 0 : std::max<std::int64_t>(prompt_tokens - replay_tokens, 0);
}

/// Why the half cannot be computed on `tokens` last tokens of a prompt alone; nothing: it can.
[[nodiscard]] std::optional<std::string> bounded_replay_violation(const ModelConfig& config,
                                                                  std::int64_t tokens);

}  // namespace baleen
