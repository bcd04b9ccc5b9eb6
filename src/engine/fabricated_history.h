/// Made-up history for benchmarks: a sequence at a far position whose cache holds plausible rows, without the
/// hours that computing them would take.
#pragma once

#include <cstdint>

#include "engine/sequence_table.h"
#include "kv_cache/kv_cache.h"
#include "model/rank_config.h"

namespace baleen {

/// `rank`: whose blocks `cache` is of. The positions come by steps of `max_batch_tokens`. Throws
/// `Error` when the cache has no room for them.
void fabricate_history(SequenceTable& sequences, const KvCache& cache, const RankConfig& rank,
                       std::int64_t max_batch_tokens, SequenceId sequence, std::int64_t num_positions);

}  // namespace baleen
