/// How many layers each stage of a pipeline gets where its devices are not alike.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/config.h"
#include "model/tensor_table.h"

namespace baleen {

struct StageDevice {
  std::int64_t weight_bytes = 0;       ///< that weights may take of its memory
  double memory_bytes_per_second = 0;  ///< at which it reads them
  double link_bytes_per_second = 0;    ///< at which experts come that lie on the host; 0: none may lie there
};

/// The layers of each of the devices' stages, in their order, with which one token is soon through all of
/// them and no stage is much slower than the others. A stage reads its weights beside the routed experts and
/// those that a token chooses, k of E in each layer, all used alike. What a device has no room for of its
/// routed experts comes over its link.
///
///     t(stage) = (beside + k / E x experts) / memory rate
///                + k / E x max(0, beside + experts - room) / link rate
///
/// Of the splits that take at most 5% longer than the quickest it is the one whose slowest stage is quickest,
/// as several sequences keep all stages busy. Stages begin with layers that may (`stage_begins`). Nothing
/// where no split leaves every device room for its weights beside the experts.
[[nodiscard]] std::optional<std::vector<std::int64_t>> balanced_stage_layers(
    const ModelConfig& config, const StorageFormats& formats, std::span<const StageDevice> devices);

}  // namespace baleen
