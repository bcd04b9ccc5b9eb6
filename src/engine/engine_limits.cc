#include "engine/engine_limits.h"

#include <algorithm>

#include "drafts/draft_head.h"
#include "forward/batch_overlap.h"
#include "model/cache_geometry.h"

namespace baleen {

DeviceTraits device_traits(const EngineOptions& options) {
  return device_traits(options.device, options.num_threads);
}

DraftSizes draft_sizes(const EngineOptions& options) {
  const DeviceTraits device = device_traits(options);
  return {.max_rows = device.padded_rows(options.max_batch_tokens),
          .max_sequences = options.max_sequences,
          .max_draft_tokens = options.max_draft_tokens,
          .type = device.activation_type};
}

std::int64_t buffered_rows(const EngineOptions& options) {
  return options.parallel.dual_batch_overlap ? rows_of_two_batches(options.max_batch_tokens)
                                             : options.max_batch_tokens;
}

CacheGeometry cache_geometry(const RankConfig& rank, const EngineOptions& options) {
  CacheGeometry geometry = cache_geometry(rank, options.precision, options.max_draft_tokens);
  geometry.shares_prefixes = options.prefix_cache;
  return geometry;
}

EngineLimits engine_limits(const ModelConfig& config, const EngineOptions& options) {
  const DraftTraits drafts =
      options.max_draft_tokens > 0 ? options.draft_head->traits(config, draft_sizes(options)) : DraftTraits();
  const bool chooses = options.choose_on_device.value_or(device_traits(options).queues);
  // The first stage of a pipeline would need what the last one chooses; a sequence changes its group between
  // two steps; rows of n-gram tables are found by ids that the host knows.
  const bool queues =
      chooses && options.parallel.pp <= 1 && options.parallel.prefill_groups == 0 && !config.engram;
  return {
      .vocab_size = config.vocab_size,
      .max_batch_tokens = options.max_batch_tokens,
      .max_logit_rows = options.max_logit_rows,
      .max_sequences = options.max_sequences,
      .max_draft_tokens = options.max_draft_tokens,
      .least_draft_room = drafts.block_positions,
      .tells_confidence = drafts.tells_confidence,
      // The pool has more pages, so that every sequence may leave its last one part empty: not to be counted
      // on.
      .context_tokens = std::min(config.max_position_embeddings, options.cache_tokens),
      .chooses = chooses,
      .queues = queues,
      .runs_ahead = queues};
}

}  // namespace baleen
