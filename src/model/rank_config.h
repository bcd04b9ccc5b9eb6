/// What one rank has of a model: consecutive layers, some of the heads, experts and rows of the vocabulary.
/// Everything else (widths, constants, formats) is the model's. (source: parallel MoE 2, 12)
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/config.h"
#include "model/tensor_split.h"

namespace baleen {

struct ParallelPlan;

/// Consecutive layers of a pipeline stage: the first one embeds, the last one has both heads.
struct Stage {
  std::int64_t begin = 0;  ///< layer
  std::int64_t end = 0;    ///< layer after the last
  bool first = true;
  bool last = true;

  friend bool operator==(const Stage&, const Stage&) = default;
};

/// The earliest layer whose entries or selection `layer` or one behind it reads, but for what these make
/// themselves; a stage may begin with `layer` where there is none.
[[nodiscard]] std::optional<std::int64_t> read_from_before(const ModelConfig& config, std::int64_t layer);

/// Layers that a stage may begin with, ascending: 0, and others that nothing is read from before.
[[nodiscard]] std::vector<std::int64_t> stage_begins(const ModelConfig& config);

/// Layers cut as evenly as those allow: stage `index` of `pp`, the first ones have the remainder. Where the
/// layers cannot be cut into so many, as if any could begin a stage.
[[nodiscard]] Stage even_stage(const ModelConfig& config, std::int64_t pp, std::int64_t index);

/// The same of a plan, which may say how many layers each stage has. `plan` resolved.
[[nodiscard]] Stage stage_of(const ModelConfig& config, const ParallelPlan& plan, std::int64_t index);

/// Blocks are counted as the rank has them: layers of its stage from 0, then the draft head's on the last
/// stage. A value; the model's config outlives it.
class RankConfig {
 public:
  /// A model is what one rank alone has.
  RankConfig(const ModelConfig& model)  // NOLINT(google-explicit-constructor)
      : RankConfig(model, {.end = model.num_hidden_layers}, {}) {}
  RankConfig(const ModelConfig& model, const Stage& stage, const RankShare& share)
      : model_(&model), stage_(stage), share_(share) {}

  [[nodiscard]] const ModelConfig& model() const { return *model_; }
  [[nodiscard]] const Stage& stage() const { return stage_; }
  /// Into how many parts tensors are divided, of which the rank has one.
  [[nodiscard]] const RankShare& share() const { return share_; }

  [[nodiscard]] std::int64_t num_layers() const { return stage_.end - stage_.begin; }
  [[nodiscard]] std::int64_t num_draft_blocks() const { return stage_.last ? model_->num_draft_blocks() : 0; }
  [[nodiscard]] std::int64_t num_blocks() const { return num_layers() + num_draft_blocks(); }
  [[nodiscard]] bool is_draft_block(std::int64_t block) const { return block >= num_layers(); }
  /// The same block as the model counts.
  [[nodiscard]] std::int64_t model_block(std::int64_t block) const {
    return is_draft_block(block) ? model_->num_hidden_layers + block - num_layers() : stage_.begin + block;
  }
  [[nodiscard]] bool is_hash_routed(std::int64_t block) const {
    return model_->is_hash_routed(model_block(block));
  }
  /// With the rank's heads, and sources counted as the rank has them.
  [[nodiscard]] LayerAttention attention(std::int64_t block) const;

  [[nodiscard]] std::int64_t num_attention_heads() const { return model_->num_attention_heads / share_.tp; }
  [[nodiscard]] std::int64_t q_dim() const { return num_attention_heads() * model_->head_dim; }
  /// Groups of the output projection that the rank's heads are in: at least one, of which it may have a part.
  [[nodiscard]] std::int64_t o_groups() const;
  /// Inputs of one group, from the rank's heads.
  [[nodiscard]] std::int64_t group_dim() const { return q_dim() / o_groups(); }
  [[nodiscard]] std::int64_t o_dim() const { return o_groups() * model_->o_lora_rank; }
  /// Routed experts of a block, of all ranks, and how many of them a token has.
  [[nodiscard]] std::int64_t num_routed_experts(std::int64_t block) const {
    return model_->num_routed_experts(model_block(block));
  }
  [[nodiscard]] std::int64_t num_selected_experts(std::int64_t block) const {
    return model_->num_selected_experts(model_block(block));
  }
  /// Slots for routed experts of a block.
  [[nodiscard]] std::int64_t num_experts_of(std::int64_t block) const {
    return share_.num_experts(num_routed_experts(block));
  }
  /// Slots for routed experts of a layer.
  [[nodiscard]] std::int64_t num_experts() const { return share_.num_experts(model_->n_routed_experts); }

 private:
  const ModelConfig* model_;
  Stage stage_;
  RankShare share_;
};

/// Of a rank of `stage`.
[[nodiscard]] RankConfig rank_config(const ModelConfig& config, const ParallelPlan& plan, const Stage& stage);

}  // namespace baleen
