/// What an engine will take, computed before anything is loaded and asserted when it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/engine_options.h"
#include "engram/engram_place.h"
#include "kv_cache/kv_cache.h"
#include "model/config.h"
#include "model/rank_config.h"
#include "model/rank_layout.h"
#include "model/tensor_table.h"
#include "moe/residence/expert_placement.h"

namespace baleen {

/// Bytes, all from config and options.
struct MemoryPlan {
  CacheCapacity capacity;
  std::int64_t page_bytes = 0;           ///< what all pages take
  std::int64_t window_bytes = 0;         ///< what all window pages take, overlap rows included
  std::int64_t cached_window_pages = 0;  ///< window pages beyond what sequences need
  std::int64_t state_bytes = 0;
  std::int64_t activation_bytes = 0;
  std::int64_t scratch_bytes = 0;
  std::int64_t logit_bytes = 0;
  std::int64_t message_bytes = 0;  ///< arrays that only exchanges between ranks need
  std::int64_t weight_bytes =
      0;  ///< on a device of its own memory; the CPU maps the checkpoint, but not a GGUF file
  std::int64_t int8_copy_bytes = 0;   ///< what copies of weights take, for variants named `int8` on a CPU
  std::int64_t overhead_bytes = 0;    ///< a CUDA device's context, modules and graphs
  std::int64_t host_logit_bytes = 0;  ///< host memory: not part of the total
  std::string why_not_scratch;        ///< what keeps it from being known; empty: it is
  std::int64_t max_table_pages = 0;   ///< pages of the longest sequence
  // Where the weights do not fit on a device, of the blocks that are run:
  ExpertCounts experts;                   ///< no blocks: everything is on the device
  std::int64_t host_expert_bytes = 0;     ///< pinned, of this rank; not part of the total
  std::int64_t disk_expert_bytes = 0;     ///< size of the experts that are in neither memory
  std::int64_t host_embedding_bytes = 0;  ///< pinned, of this rank; 0: the embedding is on the device
  // Of a rank whose layers read tables of n-grams (engram_memory.h):
  std::optional<EngramPlace> engram_place;  ///< none: it has no such layers
  std::int64_t engram_table_bytes = 0;      ///< size of the tables, wherever they lie
  std::int64_t engram_bytes = 0;       ///< on the device: what steps read rows by, and tables that lie there
  std::int64_t host_engram_bytes = 0;  ///< pinned, likewise; not part of the total

  [[nodiscard]] std::int64_t cache_bytes() const { return page_bytes + window_bytes + state_bytes; }
  /// Pinned memory of the host that weights take, of this rank.
  [[nodiscard]] std::int64_t host_weight_bytes() const { return host_expert_bytes + host_embedding_bytes; }
  [[nodiscard]] std::int64_t total_bytes() const {
    return weight_bytes + int8_copy_bytes + cache_bytes() + activation_bytes + scratch_bytes + logit_bytes +
           message_bytes + engram_bytes + overhead_bytes;
  }
};

/// `options` resolved; `formats` of the checkpoint.
[[nodiscard]] MemoryPlan plan_memory(const RankConfig& rank, const StorageFormats& formats,
                                     const EngineOptions& options);
/// The same of weights that take `weight_bytes` on a device of its own memory.
[[nodiscard]] MemoryPlan plan_memory(const RankConfig& rank, std::int64_t weight_bytes,
                                     const EngineOptions& options);

/// Of one rank of several, whose weights take `weight_bytes` where its device has memory of its own. `config`
/// is the whole model's.
[[nodiscard]] MemoryPlan plan_rank_memory(const ModelConfig& config, std::int64_t weight_bytes,
                                          const RankLayout& layout, const EngineOptions& options);

/// A few lines for people: cache by pool with its positions, activations, scratch, logits.
[[nodiscard]] std::string to_text(const MemoryPlan& plan);

}  // namespace baleen
