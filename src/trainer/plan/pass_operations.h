/// The operations that a training pass runs, in the order of its forward, each with the cost of its forward
/// and of its backward: from the configuration and the lengths of documents alone. Costs are the operations'
/// own, of float32 arrays in the shapes that trainer/graph passes; products of operands rounded to BF16
/// count as such.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "ops/operation/operation.h"
#include "trainer/graph/pass_options.h"
#include "trainer/run/model_flops.h"

namespace baleen {

/// One operation, or several alike: a product for each of an attention's groups.
struct PassOperation {
  std::string_view name;  ///< of the operation: "linear", "dense_attention"
  std::string detail;     ///< which one, or its extents
  ModelPart part = ModelPart::kHead;
  std::int64_t block = -1;    ///< layer or MTP block; -1: none
  std::int64_t num_rows = 0;  ///< tokens that it works on
  OpCost forward;
  OpCost backward;  ///< nothing where the pass has no gradient of it
};

/// Of one pass with gradients over documents of these lengths, all of whose tokens but the first are targets.
/// `options.recompute` is not in it: computed again are all operations of `block` in [0, num_hidden_layers).
/// Experts are read as routing without preferences reads them.
[[nodiscard]] std::vector<PassOperation> pass_operations(const ModelConfig& config,
                                                         std::span<const std::int64_t> document_lengths,
                                                         const PassOptions& options);

}  // namespace baleen
