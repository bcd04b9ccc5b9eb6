/// What decides, beside the weights, what bytes a page has for given tokens: a part of its identity on disk
/// and on its way to other ranks.
#pragma once

#include <string>

#include "engine/engine_options.h"
#include "ops/operation/device_traits.h"

namespace baleen {

/// `options` resolved; `device` of the device that fills the page.
[[nodiscard]] std::string page_traits(const EngineOptions& options, const DeviceTraits& device);

}  // namespace baleen
