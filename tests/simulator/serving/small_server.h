/// A small engine with simple step times, for tests.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "simulator/serving/serving_simulation.h"

namespace baleen {

/// Affine in tokens, positions and rows, and in the tokens that go through the decoder half, with no negative
/// coefficient.
class AffineStepTimes final : public StepTimes {
 public:
  double step_seconds(std::span<const QueryPart> parts) override {
    ++num_steps;
    double seconds = 2e-3;
    for (const QueryPart& part : parts) {
      const auto tokens = static_cast<double>(part.num_tokens), start = static_cast<double>(part.start);
      seconds +=
          1e-5 * tokens + 1e-9 * tokens * (start + tokens / 2) + 3e-6 * static_cast<double>(part.num_logits);
      seconds += 8e-6 * (tokens - static_cast<double>(part.num_encoded()));
    }
    return seconds;
  }
  double draft_seconds(std::span<const QueryPart> chains, std::int64_t depth) override {
    ++num_drafts;
    return (depth == 0 ? 9e-4 : 3e-4) + 1e-6 * static_cast<double>(chains.size());
  }

  std::int64_t num_steps = 0, num_drafts = 0;
};

/// One block of each kind: the policy asks for nothing else of a model.
inline CacheGeometry small_geometry(std::int64_t max_draft_tokens) {
  return {.blocks = {{}, {4, true, true}, {128}},
          .latent = {64, 64, Precision::kReleased},
          .index_key = {128, Precision::kReleased},
          .max_draft_tokens = max_draft_tokens,
          .shares_prefixes = true};
}

struct SmallServer {
  std::int64_t num_pages = 200, num_window_pages = 120, max_sequences = 8, max_draft_tokens = 0;
  std::int64_t max_batch_tokens = 512, max_queue = 1'000'000, bounded_replay_tokens = 0;

  [[nodiscard]] ServerSetup setup() const {
    return {.geometry = small_geometry(max_draft_tokens),
            .capacity = {num_pages, num_window_pages, max_sequences},
            .limits = {.vocab_size = 259,
                       .max_batch_tokens = max_batch_tokens,
                       .max_logit_rows = std::min(max_batch_tokens, max_sequences * (max_draft_tokens + 1)),
                       .max_sequences = max_sequences,
                       .max_draft_tokens = max_draft_tokens,
                       .context_tokens = num_pages * kPageTokens},
            .scheduler = {.max_queue = max_queue, .speculate = max_draft_tokens},
            .bounded_replay_tokens = bounded_replay_tokens,
            .times = std::make_shared<AffineStepTimes>()};
  }
};

}  // namespace baleen
