#include "simulator/graph/rank_model.h"

#include "model/device_weights.h"
#include "model/weight_binding.h"

namespace baleen {

RankModel::RankModel(const ModelConfig& config, const StorageFormats& formats, const ParallelPlan& plan)
    : RankModel(config, formats, plan, {.begin = 0, .end = config.num_hidden_layers}) {}

RankModel::RankModel(const ModelConfig& config, const StorageFormats& formats, const ParallelPlan& plan,
                     const Stage& stage)
    : model_config_(config),
      config_(rank_config(model_config_, plan, stage)),
      formats_(formats),
      layout_(config, plan, stage, stage.first ? 0 : 1),
      weight_bytes_(device_weight_bytes(config_, formats_)) {
  weights_ = bind_weights(config_, rank_table(config_), formats_,
                          [this](const HeldArray& array) { return memory_.allocate(array.size_bytes()); });
  for (std::size_t block = 0; block < weights_.blocks.size(); ++block) {
    const auto number = static_cast<std::int64_t>(block);
    weights_.blocks[block].moe.map = layout_.placed_map(config_.num_routed_experts(number));
  }
}

}  // namespace baleen
