/// A model of every kind of layer with a few thousand parameters, and packed documents for it.
#pragma once

#include <random>

#include "trainer/graph/model.h"

namespace baleen::test {

/// Window alone and hash-routed; ratio 4 with an indexer that leaves entries out; ratio 8; an MTP block.
inline ModelConfig tiny_model() {
  ModelConfig c;
  c.vocab_size = 23;
  c.hidden_size = 12;
  c.num_hidden_layers = 3;
  c.compress_ratios = {0, 4, 8, 0};
  c.num_attention_heads = 4;
  c.head_dim = 8;
  c.qk_rope_head_dim = 4;
  c.q_lora_rank = 10;
  c.o_groups = 2;
  c.o_lora_rank = 6;
  c.sliding_window = 5;
  c.index_n_heads = 2;
  c.index_head_dim = 8;
  c.index_topk = 2;
  c.n_routed_experts = 5;
  c.num_experts_per_tok = 2;
  c.moe_intermediate_size = 7;
  c.num_hash_layers = 1;
  c.routed_scaling_factor = 1.5;
  c.swiglu_limit = 1;
  c.num_nextn_predict_layers = 1;
  return c;
}

/// Weights that let every part matter, the same in both types.
template <class T>
Parameters<T> random_weights(const ModelConfig& config, unsigned seed, bool plain_residual = false) {
  Parameters<T> weights(training_table(config, plain_residual));
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, 1);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const TensorSpec& spec = weights.spec(i);
    const bool around_one = spec.kind == TensorKind::kNorm || spec.kind == TensorKind::kMixingScale;
    const double spread = around_one              ? 0.2
                          : spec.shape.size() > 1 ? 1.2 / std::sqrt(static_cast<double>(spec.shape.back()))
                                                  : 0.4;
    for (T& value : weights.values(i))
      value = static_cast<T>(static_cast<float>((around_one ? 1 : 0) + spread * normal(random)));
  }
  return weights;
}

/// One row of documents of these lengths; every fifth token is no target.
inline TrainingBatch documents(const ModelConfig& config, const std::vector<std::int64_t>& lengths,
                               unsigned seed) {
  TrainingBatch batch;
  std::mt19937 random(seed);
  for (const std::int64_t length : lengths) {
    const std::int64_t begin = batch.num_tokens();
    for (std::int64_t i = 0; i < length; ++i) {
      batch.tokens.push_back(static_cast<TokenId>(random() % static_cast<unsigned>(config.vocab_size)));
      batch.is_target.push_back(i > 0 && random() % 5 != 0 ? 1 : 0);
      batch.num_global_targets += batch.is_target.back();
    }
    batch.documents.push_back({begin, batch.num_tokens()});
  }
  batch.row_begin = {0, batch.num_tokens()};
  batch.num_global_tokens = batch.num_tokens();
  batch.num_global_documents = static_cast<std::int64_t>(batch.documents.size());
  return batch;
}

}  // namespace baleen::test
