#include "simulator/report/step_places.h"

namespace baleen {

std::string_view place_name(StepPlace place) {
  switch (place) {
    case StepPlace::kSlidingWindow:
      return "sliding-window layers";
    case StepPlace::kCsa:
      return "CSA layers";
    case StepPlace::kHca:
      return "HCA layers";
    case StepPlace::kDraft:
      return "drafts";
    default:
      return "embedding and head";
  }
}

std::string_view place_style(StepPlace place) {
  switch (place) {
    case StepPlace::kSlidingWindow:
      return "c-window";
    case StepPlace::kCsa:
      return "c-csa";
    case StepPlace::kHca:
      return "c-hca";
    case StepPlace::kDraft:
      return "c-draft";
    default:
      return "c-outside";
  }
}

std::int64_t model_layer(const Stage& stage, const GraphOp& op) {
  return op.block < 0 ? -1 : stage.begin + op.block;
}

StepPlace place_of(const ModelConfig& config, const Stage& stage, const GraphOp& op) {
  if (op.part == GraphPart::kFollow || op.part == GraphPart::kDraft) return StepPlace::kDraft;
  if (op.part == GraphPart::kHead || op.block < 0) return StepPlace::kOutside;
  switch (config.layer_kind(model_layer(stage, op))) {
    case LayerKind::kCsa:
      return StepPlace::kCsa;
    case LayerKind::kHca:
      return StepPlace::kHca;
    default:
      return StepPlace::kSlidingWindow;
  }
}

}  // namespace baleen
