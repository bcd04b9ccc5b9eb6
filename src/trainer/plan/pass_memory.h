/// What one training pass holds at most, from the configuration alone.
#pragma once

#include <cstdint>

#include "model/config.h"
#include "trainer/graph/pass_options.h"

namespace baleen {

/// At the moment of the pass that holds most.
struct PassMemory {
  std::int64_t kept_bytes = 0;  ///< from forward to backward: streams between blocks, activations of blocks
  std::int64_t work_bytes =
      0;  ///< of what is computed then: gradients of activations, tiles, a chunk of logits

  [[nodiscard]] std::int64_t total_bytes() const { return kept_bytes + work_bytes; }
};

/// Of a pass with gradients over `num_rows` rows that are one document of `length` tokens each, which no
/// other documents take more for. `num_threads` compute it.
[[nodiscard]] PassMemory pass_memory(const ModelConfig& config, std::int64_t num_rows, std::int64_t length,
                                     const PassOptions& options, std::int64_t num_threads);

}  // namespace baleen
