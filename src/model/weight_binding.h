/// Trees made from the table: each tensor of what a rank has at the place that the table names.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "model/rank_config.h"
#include "model/tensor_table.h"
#include "model/weight_tree.h"

namespace baleen {

/// The address of an array, in the form in which it is held, for as long as the tree is used.
using ArraySource = std::function<const std::byte*(const HeldArray&)>;

/// `table`: the rank's (`rank_table`), whose one expert is bound to the places of all that it stands for, or,
/// where it has everything, the model's (`tensor_table`).
[[nodiscard]] WeightTree bind_weights(const RankConfig& rank, const std::vector<TensorSpec>& table,
                                      const StorageFormats& formats, const ArraySource& source);

/// The same of rows of `table`.
[[nodiscard]] RowTree bind_rows(const RankConfig& rank, const std::vector<TensorSpec>& table);

}  // namespace baleen
