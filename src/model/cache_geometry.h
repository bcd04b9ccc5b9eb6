/// What a rank's layers keep of each token in the cache.
#pragma once

#include <cstdint>

#include "kv_cache/geometry.h"
#include "model/rank_config.h"
#include "numeric/dtype.h"

namespace baleen {

/// Cache rows and rings of its blocks in `precision`.
[[nodiscard]] CacheGeometry cache_geometry(const RankConfig& rank, Precision precision,
                                           std::int64_t max_draft_tokens = 0);

}  // namespace baleen
