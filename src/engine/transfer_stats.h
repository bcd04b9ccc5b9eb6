/// What has gone from one group of ranks to another.
#pragma once

#include <cstdint>

namespace baleen {

/// Of all ranks, since the start.
struct TransferStats {
  std::int64_t num_sequences = 0;  ///< that decode groups took over from prefill groups
  std::int64_t num_prefixes = 0;   ///< that prefill groups got out of the cache of a decode group
  std::int64_t num_bytes = 0;      ///< size of cache and streams, all ranks
  std::int64_t num_refused = 0;    ///< for what their manifests say
};

}  // namespace baleen
