#include "trainer/run/model_flops.h"

#include <algorithm>
#include <numeric>

#include "trainer/graph/parameters.h"

namespace baleen {
namespace {

/// Of tensors that are multiplied.
ModelPart part_of(TensorRole role) {
  switch (role) {
    case TensorRole::kHead:
      return ModelPart::kHead;
    case TensorRole::kHyperConnection:
    case TensorRole::kEngramProjection:  // before the block's first mixing
      return ModelPart::kMixing;
    case TensorRole::kRouter:
    case TensorRole::kSharedExpert:
    case TensorRole::kRoutedExpert:
      return ModelPart::kExperts;
    case TensorRole::kDraftProjection:
      return ModelPart::kMtpEntry;
    default:
      return ModelPart::kAttention;
  }
}

/// Parameters of a tensor that are multiplied with one token.
double used_parameters(const ModelConfig& config, const TensorSpec& spec) {
  const bool is_looked_up = spec.role == TensorRole::kEmbedding || spec.role == TensorRole::kEngramTable;
  if (!spec.is_linear() || is_looked_up) return 0;
  const double all = static_cast<double>(spec.shape[0]) * static_cast<double>(spec.shape[1]);
  if (spec.role == TensorRole::kRoutedExpert)
    return all * static_cast<double>(config.num_experts_per_tok) /
           static_cast<double>(config.n_routed_experts);
  // Each residual stream of a token goes through it.
  if (spec.role == TensorRole::kDraftProjection && spec.name.ends_with("h_proj"))
    return all * static_cast<double>(config.hc_mult);
  return all;
}

}  // namespace

ModelFlops::ModelFlops(const ModelConfig& config, bool plain_residual) : config_(config) {
  for (const TensorSpec& spec : training_table(config, plain_residual)) {
    const bool is_mtp = config.is_draft_block(spec.block);
    const double used = used_parameters(config, spec);
    if (spec.role == TensorRole::kIndexer)
      (is_mtp ? mtp_indexers_ : main_indexers_) += used;
    else
      (is_mtp ? mtp_ : main_)[static_cast<std::size_t>(part_of(spec.role))] += used;
  }
  constexpr auto kHead = static_cast<std::size_t>(ModelPart::kHead);
  mtp_[kHead] += main_[kHead] * static_cast<double>(config.num_nextn_predict_layers);
}

double ModelFlops::attention_keys(std::int64_t block, std::int64_t num_tokens, bool dense) const {
  const LayerAttention shape = config_.attention(block);
  double keys = 0;
  for (std::int64_t tokens = 1; tokens <= num_tokens; ++tokens) {
    const std::int64_t entries = shape.num_entries(tokens);
    keys += static_cast<double>(std::min(tokens, shape.window_tokens) +
                                (shape.indexed && !dense ? std::min(entries, config_.index_topk) : entries));
  }
  return keys;
}

double ModelFlops::score_products(std::int64_t block, std::int64_t num_tokens) const {
  const LayerAttention shape = config_.attention(block);
  if (!shape.selects()) return 0;
  double entries = 0;
  for (std::int64_t tokens = 1; tokens <= num_tokens; ++tokens)
    entries += static_cast<double>(shape.num_entries(tokens));
  return entries * static_cast<double>(shape.index_heads * shape.index_dim);
}

PassFlops ModelFlops::pass(const TrainingBatch& batch, const PassOptions& options) const {
  const bool with_mtp = options.mtp_weight != 0;
  const bool indexers_learn = options.indexer_weight != 0;
  const auto tokens = static_cast<double>(batch.num_tokens());
  // The last token of a document has no next one, which a row of the MTP block needs.
  const auto mtp_tokens = with_mtp ? tokens - static_cast<double>(batch.documents.size()) : 0;
  PassFlops flops;
  for (std::size_t part = 0; part < kNumModelParts; ++part)
    flops.forward[part] = 2 * (main_[part] * tokens + mtp_[part] * mtp_tokens);
  double keys = 0;
  double scores = 0;
  for (std::int64_t block = 0; block < config_.num_blocks(); ++block) {
    if (config_.is_draft_block(block) && !with_mtp) continue;
    for (const TrainingBatch::Document& document : batch.documents) {
      const std::int64_t length = document.end - document.begin - (config_.is_draft_block(block) ? 1 : 0);
      keys += attention_keys(block, length, options.dense_attention);
      scores += score_products(block, length);
    }
  }
  constexpr auto kAttention = static_cast<std::size_t>(ModelPart::kAttention);
  // Queries times keys, and probabilities times the same keys as values.
  flops.forward[kAttention] += 4 * static_cast<double>(config_.q_dim()) * keys;
  if (!options.indexers_alone) {
    for (std::size_t part = 0; part < kNumModelParts; ++part) flops.backward[part] = 2 * flops.forward[part];
  }
  // Nothing reads an indexer that neither chooses nor learns.
  if (options.dense_attention && !indexers_learn) return flops;
  const double parameters = 2 * (main_indexers_ * tokens + mtp_indexers_ * mtp_tokens);
  flops.forward[kAttention] += parameters + 2 * scores;
  if (indexers_learn) flops.backward[kAttention] += parameters + 4 * scores;
  return flops;
}

double ModelFlops::step(const TrainingBatch& batch, const PassOptions& options) const {
  const PassFlops flops = pass(batch, options);
  return std::accumulate(flops.backward.begin(), flops.backward.end(),
                         std::accumulate(flops.forward.begin(), flops.forward.end(), 0.0));
}

}  // namespace baleen
