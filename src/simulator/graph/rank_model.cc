#include "simulator/graph/rank_model.h"

#include <algorithm>
#include <string>
#include <vector>

#include "model/weight_binding.h"
#include "numeric/block_scale.h"

namespace baleen {

std::int64_t shared_expert_tp(const ModelConfig& config, const ParallelPlan& plan) {
  const bool same_tokens = plan.dp == 1 && !plan.sequence_parallel;
  return same_tokens && config.moe_intermediate_size % (plan.tp * kWeightBlock) == 0 ? plan.tp : 1;
}

namespace {

/// Arrays of a table's shapes at addresses that mean nothing.
class ShapeSource final : public TensorSource {
 public:
  ShapeSource(std::vector<TensorSpec> table, const StorageFormats& formats, Memory& memory)
      : formats_(formats), memory_(memory) {
    for (TensorSpec& spec : table) {
      std::string name = spec.name;
      specs_.emplace(std::move(name), std::move(spec));
    }
  }

  WeightMatrix matrix(const std::string& stem) override {
    const auto found = specs_.find(stem);
    const TensorSpec& spec = found != specs_.end() ? found->second : specs_.at(stem + ".weight");
    const WeightFormat format = spec.is_matrix() ? formats_.of(spec.storage) : WeightFormat::kBF16;
    WeightMatrix matrix{.format = format, .rows = spec.shape[0], .cols = spec.shape[1]};
    matrix.data = memory_.allocate(matrix.rows * matrix.row_bytes());
    if (format == WeightFormat::kFp8)
      matrix.block_scales = reinterpret_cast<const float*>(memory_.allocate(1));
    if (format == WeightFormat::kFp4)
      matrix.group_scales = reinterpret_cast<const std::uint8_t*>(memory_.allocate(1));
    return matrix;
  }
  std::span<const float> vector(const std::string& name) override {
    const TensorSpec& spec = specs_.at(name);
    return {array<float>(spec), static_cast<std::size_t>(spec.num_elements())};
  }
  View<const float, 2> table(const std::string& name) override { return view<float>(name); }
  View<const Bf16Bits, 2> embedding(const std::string& name) override { return view<Bf16Bits>(name); }
  View<const std::int32_t, 2> hash_table(const std::string& name) override {
    return view<std::int32_t>(name);
  }
  std::vector<ExpertWeights> experts(const std::string& prefix, std::int64_t count) override {
    return std::vector<ExpertWeights>(static_cast<std::size_t>(count), expert(prefix + "0."));
  }

 private:
  template <class T>
  const T* array(const TensorSpec& spec) {
    return reinterpret_cast<const T*>(
        memory_.allocate(spec.num_elements() * static_cast<std::int64_t>(sizeof(T))));
  }
  template <class T>
  View<const T, 2> view(const std::string& name) {
    const TensorSpec& spec = specs_.at(name);
    return {array<T>(spec), {spec.shape[0], spec.shape[1]}};
  }

  const StorageFormats& formats_;
  Memory& memory_;
  std::unordered_map<std::string, TensorSpec> specs_;
};

}  // namespace

ModelConfig stage_config(const ModelConfig& config, const Stage& stage) {
  ModelConfig own = config;
  own.num_hidden_layers = stage.end - stage.begin;
  own.num_hash_layers =
      std::clamp<std::int64_t>(config.num_hash_layers - stage.begin, 0, own.num_hidden_layers);
  if (!stage.last) own.num_nextn_predict_layers = 0;
  const auto ratios = config.compress_ratios.begin();
  own.compress_ratios.assign(ratios + stage.begin, ratios + stage.end);
  own.compress_ratios.insert(own.compress_ratios.end(), ratios + config.num_hidden_layers,
                             ratios + config.num_hidden_layers + own.num_nextn_predict_layers);
  return own;
}

RankModel::RankModel(const ModelConfig& config, const StorageFormats& formats, const ParallelPlan& plan)
    : RankModel(config, formats, plan, {.begin = 0, .end = config.num_hidden_layers}) {}

RankModel::RankModel(const ModelConfig& config, const StorageFormats& formats, const ParallelPlan& plan,
                     const Stage& stage)
    : config_(stage_config(config, stage)),
      rank_config_(config_),
      formats_(formats),
      plan_(plan),
      stage_(stage) {
  rank_config_.num_attention_heads = config_.num_attention_heads / plan.tp;
  rank_config_.o_groups = std::max<std::int64_t>(1, config_.o_groups / plan.tp);
  share_ = {.tp = plan.tp,
            .lm_head_tp = plan.lmhead_tp,
            .shared_tp = shared_expert_tp(config_, plan),
            .moe_tp = plan.moe_tp,
            .local_experts = plan.local_experts(config_),
            .embedding = stage.first || config_.num_nextn_predict_layers > 0,
            .head = stage.last};
  ShapeSource shapes(rank_table(config_, share_), formats_, memory_);
  weights_ = bind_weights(config_, share_, shapes);
  note_places();
}

void RankModel::note_places() {
  places_[&weights_.head] = {"head", -1};
  std::int64_t number = 0;
  for (const BlockWeights& block : weights_.blocks) {
    const AttentionWeights& attention = block.attention;
    const IndexerWeights& indexer = attention.indexer;
    for (const auto& [matrix, name] : {std::pair{&attention.wq_a, "wq_a"},
                                       {&attention.wq_b, "wq_b"},
                                       {&attention.wkv, "wkv"},
                                       {&attention.wo_a, "wo_a"},
                                       {&attention.wo_b, "wo_b"},
                                       {&attention.compressor.wkv, "compressor.wkv"},
                                       {&attention.compressor.wgate, "compressor.wgate"},
                                       {&indexer.wq_b, "indexer.wq_b"},
                                       {&indexer.weights_proj, "indexer.weights_proj"},
                                       {&indexer.compressor.wkv, "indexer.wkv"},
                                       {&indexer.compressor.wgate, "indexer.wgate"},
                                       {&block.moe.gate, "gate"}}) {
      places_[matrix] = {name, number};
    }
    ++number;
  }
  number = config_.num_hidden_layers;
  for (const MtpWeights& mtp : weights_.mtp) {
    places_[&mtp.e_proj] = {"e_proj", number};
    places_[&mtp.h_proj] = {"h_proj", number++};
  }
}

const MatrixPlace* RankModel::place_of(const WeightMatrix* matrix) const {
  const auto found = places_.find(matrix);
  return found == places_.end() ? nullptr : &found->second;
}

}  // namespace baleen
