/// What a rank's device must hold.                                                          (source:
/// simulation 3)
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "engram/engram_place.h"
#include "hardware/device_profile.h"
#include "moe/residence/expert_placement.h"
#include "simulator/graph/rank_model.h"
#include "simulator/graph/workload.h"

namespace baleen {

/// Bytes. All but weights of other ranks and buffers for messages is the engine's own plan
/// (engine/memory_plan.h).
struct RankMemory {
  std::int64_t weights = 0;
  std::int64_t pages = 0;         ///< compressed entries and indexer keys
  std::int64_t window_pages = 0;  ///< raw KV rows
  std::int64_t compressor_state = 0;
  std::int64_t activations = 0;
  std::int64_t scratch = 0;
  std::int64_t logits = 0;
  std::int64_t communication = 0;
  std::int64_t engram = 0;    ///< what steps read n-grams' rows by, and tables that lie on the device
  std::int64_t reserved = 0;  ///< contexts, graphs, libraries
  // Where the weights do not fit, as the engine places them; not part of the total:
  ExpertCounts experts;                ///< no blocks: all weights lie on the device
  std::int64_t host_expert_bytes = 0;  ///< pinned
  std::int64_t disk_expert_bytes = 0;
  std::int64_t host_embedding_bytes = 0;    ///< pinned; 0: the embedding lies on the device
  std::optional<EngramPlace> engram_place;  ///< none: the rank reads no tables of n-grams
  std::int64_t engram_table_bytes = 0;      ///< size of these, wherever they lie

  [[nodiscard]] std::int64_t total() const;
  /// Of these what grows with positions.
  [[nodiscard]] std::int64_t cache() const { return pages + window_pages + compressor_state; }
  /// Names as people see them.
  [[nodiscard]] std::vector<std::pair<std::string_view, std::int64_t>> parts() const;
};

/// Of a rank that holds `cached_positions` of each of `num_sequences` sequences and takes steps of up to
/// `step_rows` rows, `logit_rows` of which want logits.
struct RankLoad {
  std::int64_t num_sequences = 1;
  std::int64_t cached_positions = 0;
  std::int64_t step_rows = 1;
  std::int64_t logit_rows = 1;
  std::int64_t num_drafts = 0;
  EngramWish engram = EngramWish::kAuto;  ///< where tables of n-grams are wanted
  bool keeps_experts = false;             ///< all on the device, whether there is room or not
};

[[nodiscard]] RankLoad rank_load(const RankBatch& batch, const Workload& workload,
                                 EngramWish engram = EngramWish::kAuto);
/// Where everything does not fit on the device and its profile has a memory behind its own, embedding and
/// routed experts are left to that as the engine leaves them, and tables of n-grams lie in the nearest that
/// has room. Tables for which neither a host nor a disk is known count as the device's.
[[nodiscard]] RankMemory rank_memory(const RankModel& model, const RankLoad& load,
                                     const DeviceProfile& device);

}  // namespace baleen
