/// What is known of a Hopper GPU without one.
#pragma once

#include "ops/operation/device_traits.h"
#include "tensor/captured_rows.h"

namespace baleen {

[[nodiscard]] constexpr DeviceTraits hopper_traits() {
  return {.architecture = "sm90",
          .activation_type = ElementType::kBf16,
          .shares_host_memory = false,
          .queues = true,
          .released_only = true,
          .max_replayed_rows = kMaxGraphRows,
          .overhead_bytes = std::int64_t{1} << 30,  // context, modules and captured graphs
          .num_units = 132};                        // of the SXM parts; others have fewer
}

}  // namespace baleen
