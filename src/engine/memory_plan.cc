#include "engine/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "model/forward.h"
#include "parallel/thread_pool.h"

namespace baleen {
namespace {

/// A step that is taken back must not reach past the last shared page's window.
constexpr std::int64_t kMostDraftTokens = 64;

}  // namespace

EngineOptions resolved(EngineOptions options, const ModelConfig& config) {
  if (options.num_threads == 0) options.num_threads = default_num_threads();
  if (options.num_threads < 1 || options.num_threads > 1024) {
    fail("threads: {} asked for, 1 to 1024 possible", options.num_threads);
  }
  if (options.max_batch_tokens < 1)
    fail("tokens a step: {} asked for, at least 1 possible", options.max_batch_tokens);
  if (options.max_sequences < 1) fail("sequences: {} asked for, at least 1 possible", options.max_sequences);
  if (options.max_draft_tokens < 0 || options.max_draft_tokens > kMostDraftTokens) {
    fail("draft tokens: {} asked for, 0 to {} possible", options.max_draft_tokens, kMostDraftTokens);
  }
  options.mtp |= options.max_draft_tokens > 0;
  if (options.max_logit_rows == 0) {
    options.max_logit_rows =
        std::min(options.max_sequences * (options.max_draft_tokens + 1), options.max_batch_tokens);
  }
  if (options.max_logit_rows > options.max_batch_tokens) {
    fail("logits of {} rows asked for, but a step has {} at most", options.max_logit_rows,
         options.max_batch_tokens);
  }
  const std::int64_t most = config.max_position_embeddings * options.max_sequences;
  if (options.cache_tokens == 0) options.cache_tokens = config.max_position_embeddings;
  if (options.cache_tokens < 0 || options.cache_tokens > most) {
    fail("context: {} positions asked for, the model has {} for each of {} sequences", options.cache_tokens,
         config.max_position_embeddings, options.max_sequences);
  }
  if (options.mtp && config.num_nextn_predict_layers == 0) fail("this model has no MTP block to run");
  if (options.cached_window_pages < 0 || options.reserved_tails < 0) {
    fail("cached window pages: {} asked for, {} of them reserved; none is the least possible",
         options.cached_window_pages, options.reserved_tails);
  }
  options.prefix_cache |= options.disk.has_value();
  if (!options.prefix_cache) {
    options.cached_window_pages = options.reserved_tails = 0;
  } else if (options.cached_window_pages == 0) {
    options.cached_window_pages = 32 + 4 * options.max_sequences;
  }
  return options;
}

CacheGeometry cache_geometry(const ModelConfig& config, const EngineOptions& options) {
  CacheGeometry geometry = cache_geometry(config, options.precision, options.max_draft_tokens);
  geometry.shares_prefixes = options.prefix_cache;
  return geometry;
}

MemoryPlan plan_memory(const ModelConfig& config, const EngineOptions& options) {
  const CacheGeometry geometry = cache_geometry(config, options);
  MemoryPlan plan;
  // Every sequence may leave its last page part empty.
  plan.capacity.num_pages = pages_for(options.cache_tokens) + options.max_sequences - 1;
  plan.capacity.num_window_pages = std::min(
      plan.capacity.num_pages, max_window_pages(geometry, options.max_sequences, options.max_batch_tokens) +
                                   options.cached_window_pages);
  plan.cached_window_pages =
      plan.capacity.num_window_pages -
      std::min(plan.capacity.num_window_pages,
               max_window_pages(geometry, options.max_sequences, options.max_batch_tokens));
  plan.capacity.num_state_slots = options.max_sequences;
  plan.page_bytes = plan.capacity.num_pages * geometry.page_bytes();
  plan.window_bytes = plan.capacity.num_window_pages * geometry.window_page_bytes();
  plan.state_bytes = plan.capacity.num_state_slots * geometry.state_slot_bytes();
  plan.activation_bytes = forward_buffer_bytes(config, options.max_batch_tokens);
  const auto streams = [&](std::int64_t rows) { return Arena::bytes_for<float>(rows * config.hc_dim()); };
  plan.activation_bytes += streams(options.max_logit_rows);
  if (options.mtp) {  // the rows of a step put in MTP order, and the last ones of each sequence
    plan.activation_bytes += streams(options.max_batch_tokens);
    plan.activation_bytes += streams(options.max_sequences * (options.max_draft_tokens + 1));
  }
  if (options.max_draft_tokens > 0) plan.activation_bytes += streams(options.max_sequences);
  plan.scratch_bytes =
      forward_scratch_bytes(config, options.max_batch_tokens, options.max_logit_rows, options.num_threads);
  plan.logit_bytes =
      (options.mtp ? 2 : 1) * Arena::bytes_for<float>(options.max_logit_rows * config.vocab_size);
  return plan;
}

std::string to_text(const MemoryPlan& plan) {
  const auto mb = [](std::int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  return fmt::format(
      "cache        {:10.1f} MB  ({} pages of {} positions {:.1f}, {} window pages {:.1f}{}, {} state slots "
      "{:.1f})\n"
      "activations  {:10.1f} MB\n"
      "scratch      {:10.1f} MB\n"
      "logits       {:10.1f} MB\n"
      "in all       {:10.1f} MB, reserved at start and resident as it is used\n",
      mb(plan.cache_bytes()), plan.capacity.num_pages, kPageTokens, mb(plan.page_bytes),
      plan.capacity.num_window_pages, mb(plan.window_bytes),
      plan.cached_window_pages > 0 ? fmt::format(" of which {} for cached prefixes", plan.cached_window_pages)
                                   : "",
      plan.capacity.num_state_slots, mb(plan.state_bytes), mb(plan.activation_bytes), mb(plan.scratch_bytes),
      mb(plan.logit_bytes), mb(plan.total_bytes()));
}

}  // namespace baleen
