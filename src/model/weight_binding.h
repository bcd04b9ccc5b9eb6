/// A tree of weights made from the table: each tensor of a rank's share at the place that the table names.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "model/config.h"
#include "model/tensor_table.h"
#include "model/weight_tree.h"

namespace baleen {

/// The address of an array, in the form in which it is held, for as long as the tree is used.
using ArraySource = std::function<const std::byte*(const HeldArray&)>;

/// `table`: a whole model's (`tensor_table`), with a `share` of everything, or that of `share`
/// (`rank_table`), whose one expert is then bound to the places of all that it stands for.
[[nodiscard]] WeightTree bind_weights(const ModelConfig& config, const RankShare& share,
                                      const std::vector<TensorSpec>& table, const StorageFormats& formats,
                                      const ArraySource& source);

}  // namespace baleen
