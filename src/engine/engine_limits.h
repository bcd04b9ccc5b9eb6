/// What follows from an engine's options on their devices: the cache's geometry, what a step may hold.
#pragma once

#include <cstdint>

#include "engine/engine_options.h"
#include "engine/step_engine.h"
#include "kv_cache/kv_cache.h"
#include "model/config.h"
#include "model/rank_config.h"
#include "ops/operation/device_traits.h"

namespace baleen {

struct DraftSizes;

/// Of the device that `options.device` names.
[[nodiscard]] DeviceTraits device_traits(const EngineOptions& options);

/// Of an engine with these options, resolved.
[[nodiscard]] CacheGeometry cache_geometry(const RankConfig& rank, const EngineOptions& options);

[[nodiscard]] EngineLimits engine_limits(const ModelConfig& config, const EngineOptions& options);

/// What a draft head is made for. Of options that are resolved.
[[nodiscard]] DraftSizes draft_sizes(const EngineOptions& options);

/// Rows that the forward pass has buffers for.
[[nodiscard]] std::int64_t buffered_rows(const EngineOptions& options);

}  // namespace baleen
