#include "model/tensor_split.h"

#include "base/check.h"

namespace baleen {
std::string_view split_name(TensorSplit split) {
  switch (split) {
    case TensorSplit::kReplicated:
      return "replicated";
    case TensorSplit::kHeads:
      return "rows by head";
    case TensorSplit::kOutputGroups:
      return "rows by group of heads";
    case TensorSplit::kGroupColumns:
      return "columns by group of heads";
    case TensorSplit::kVocabulary:
      return "rows by token";
    case TensorSplit::kSharedRows:
    case TensorSplit::kExpertRows:
      return split == TensorSplit::kExpertRows ? "by expert, rows" : "rows";
    case TensorSplit::kSharedColumns:
    case TensorSplit::kExpertColumns:
      return split == TensorSplit::kExpertColumns ? "by expert, columns" : "columns";
  }
  return "?";
}

SplitAxis split_axis(TensorSplit split, const RankShare& share) {
  constexpr std::size_t kRows = 0, kColumns = 1;
  switch (split) {
    case TensorSplit::kReplicated:
      break;
    case TensorSplit::kHeads:
      return {kRows, share.tp};
    case TensorSplit::kOutputGroups:
      return {kRows, share.o_proj_tp};
    case TensorSplit::kGroupColumns:
      return {kColumns, share.o_proj_tp};
    case TensorSplit::kVocabulary:
      return {kRows, share.lm_head_tp};
    case TensorSplit::kSharedRows:
      return {kRows, share.shared_tp};
    case TensorSplit::kSharedColumns:
      return {kColumns, share.shared_tp};
    case TensorSplit::kExpertRows:
      return {kRows, share.moe_tp};
    case TensorSplit::kExpertColumns:
      return {kColumns, share.moe_tp};
  }
  return {};
}

std::vector<std::int64_t> rank_shape(std::vector<std::int64_t> shape, TensorSplit split,
                                     const RankShare& share) {
  const SplitAxis divided = split_axis(split, share);
  std::int64_t& extent = shape[divided.axis];
  if (split != TensorSplit::kVocabulary) BALEEN_CHECK_EQ(extent % divided.parts, 0);
  extent = (extent + divided.parts - 1) / divided.parts;
  return shape;
}

}  // namespace baleen
