#include "simulator/graph/rank_model.h"

#include <string>
#include <unordered_map>
#include <vector>

#include "model/device_weights.h"
#include "model/weight_binding.h"

namespace baleen {

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

RankModel::RankModel(const ModelConfig& config, const StorageFormats& formats, const ParallelPlan& plan)
    : RankModel(config, formats, plan, {.begin = 0, .end = config.num_hidden_layers}) {}

RankModel::RankModel(const ModelConfig& config, const StorageFormats& formats, const ParallelPlan& plan,
                     const Stage& stage)
    : config_(stage_config(config, stage)),
      rank_config_(baleen::rank_config(config, plan, stage)),
      formats_(formats),
      layout_(config, plan, stage, stage.first ? 0 : 1),
      share_(rank_share(config, plan, stage)),
      weight_bytes_(device_weight_bytes(config_, formats_, share_)) {
  ShapeSource shapes(rank_table(config_, share_), formats_, memory_);
  weights_ = bind_weights(config_, share_, shapes);
  for (BlockWeights& block : weights_.blocks) block.moe.map = layout_.placed_map();
}

}  // namespace baleen
