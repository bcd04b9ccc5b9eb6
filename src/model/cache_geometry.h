/// What a model's layers keep of each token in the cache.
#pragma once

#include <cstdint>

#include "kv_cache/geometry.h"
#include "model/config.h"
#include "numeric/dtype.h"

namespace baleen {

/// Cache rows and rings that `config` needs in `precision`.
[[nodiscard]] CacheGeometry cache_geometry(const ModelConfig& config, Precision precision,
                                           std::int64_t max_draft_tokens = 0);

}  // namespace baleen
