#include "model/tensor_split.h"

#include "base/check.h"

namespace baleen {
namespace {

void divide(std::int64_t& extent, std::int64_t parts) {
  BALEEN_CHECK_EQ(extent % parts, 0);
  extent /= parts;
}

}  // namespace

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

std::vector<std::int64_t> rank_shape(std::vector<std::int64_t> shape, TensorSplit split,
                                     const RankShare& share) {
  switch (split) {
    case TensorSplit::kReplicated:
      break;
    case TensorSplit::kHeads:
      divide(shape[0], share.tp);
      break;
    case TensorSplit::kOutputGroups:
      divide(shape[0], share.o_proj_tp);
      break;
    case TensorSplit::kGroupColumns:
      divide(shape[1], share.o_proj_tp);
      break;
    case TensorSplit::kVocabulary:
      shape[0] = (shape[0] + share.lm_head_tp - 1) / share.lm_head_tp;
      break;
    case TensorSplit::kSharedRows:
      divide(shape[0], share.shared_tp);
      break;
    case TensorSplit::kSharedColumns:
      divide(shape[1], share.shared_tp);
      break;
    case TensorSplit::kExpertRows:
      divide(shape[0], share.moe_tp);
      break;
    case TensorSplit::kExpertColumns:
      divide(shape[1], share.moe_tp);
      break;
  }
  return shape;
}

}  // namespace baleen
