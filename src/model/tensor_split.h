/// How a tensor splits over ranks, and one rank's share of a model.                    (source: parallel MoE
/// 2, 12)
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace baleen {

/// Which extent of a tensor is divided, and by what. "Rows" are outputs, "columns" inputs.
enum class TensorSplit : std::uint8_t {
  kReplicated,     ///< whole on every rank
  kHeads,          ///< rows by attention head, over tp
  kOutputGroups,   ///< [G R_o, H c / G]: rows by group of heads, over o_proj_tp
  kGroupColumns,   ///< [d, G R_o]: columns by group of heads, over o_proj_tp
  kVocabulary,     ///< rows by token, over lm_head_tp; the last rank may have fewer
  kSharedRows,     ///< rows of the shared expert's inner width, over shared_tp
  kSharedColumns,  ///< columns of it
  kExpertRows,     ///< each rank has its experts; rows of an expert's inner width over moe_tp
  kExpertColumns   ///< each rank has its experts; columns of an expert's inner width over moe_tp
};

[[nodiscard]] std::string_view split_name(TensorSplit split);

/// What one rank has of a model.
struct RankShare {
  std::int64_t tp = 1;
  std::int64_t o_proj_tp = 1;  ///< groups of heads stay whole, so at most as many as there are
  std::int64_t lm_head_tp = 1;
  std::int64_t shared_tp = 1;
  std::int64_t moe_tp = 1;
  std::int64_t ep = 1;
  std::int64_t redundant_experts = 0;  ///< copies of busy ones, in every block
  bool embedding = true;               ///< a pipeline's first stage, and one that drafts
  bool head = true;                    ///< its last stage

  /// Slots for routed experts of a block that has so many of them.
  [[nodiscard]] std::int64_t num_experts(std::int64_t num_routed) const {
    return (num_routed + redundant_experts) / ep;
  }
  bool operator==(const RankShare&) const = default;
};

/// The axis of a tensor [rows, columns] or [rows] that is divided, and into how many parts.
struct SplitAxis {
  std::size_t axis = 0;
  std::int64_t parts = 1;
};
[[nodiscard]] SplitAxis split_axis(TensorSplit split, const RankShare& share);

/// A rank's part of a tensor [rows, columns...] or [rows]. The extents divide, but for the vocabulary's.
[[nodiscard]] std::vector<std::int64_t> rank_shape(std::vector<std::int64_t> shape, TensorSplit split,
                                                   const RankShare& share);

}  // namespace baleen
