/// A model of every kind of layer with a few thousand parameters, and packed documents for it.
#pragma once

#include <random>

#include "model/engram_tables.h"
#include "model/model_family.h"
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

/// DeepSeek-V4.1: a window alone; latents of two positions that two layers read, by one selection; of one
/// position that three layers read, of which the first chooses candidates and the second selects among them;
/// two Engram tables. The last token id is an image's.
inline ModelConfig tiny_v41_model() {
  ModelConfig c = tiny_model();
  c.family = &kDeepSeekV41;
  c.num_hidden_layers = 6;
  c.compress_ratios = {0, 2, 2, 1, 1, 1};
  c.num_hash_layers = 0;
  c.n_routed_experts = 3;
  c.num_nextn_predict_layers = 0;
  c.draft_kind = DraftKind::kNone;
  c.rms_norm_eps = 1e-20;
  c.index_topk = 3;
  c.streams = {.kv_source_layer_ids = {1, 3},
               .index_source_layer_ids = {1, 3, 4},
               .candidate_source_layer_id = 3,
               .candidate_topk_blocks = 3,
               .candidate_block_size = 2};
  c.engram = {.layer_ids = {1, 3},
              .num_embeddings = {},
              .max_ngram_size = 3,
              .vocab_size = 5,
              .n_heads = 2,
              .head_dim = 4,
              .pad_token_id = 2,
              .compressed_vocab_size = 9,
              .image_token_id = 22};
  for (const EngramTable& table : engram_tables(*c.engram))
    c.engram->num_embeddings.push_back(table.num_rows());
  return c;
}

/// With n-grams of ids that are folded together, where the model has tables of them.
inline TokenTables token_tables(const ModelConfig& config, std::uint64_t seed = 3) {
  TokenTables tables = make_token_tables(config, seed);
  if (!config.engram) return tables;
  std::vector<TokenId> compressed(static_cast<std::size_t>(config.vocab_size));
  for (std::size_t id = 0; id < compressed.size(); ++id)
    compressed[id] =
        static_cast<TokenId>(id * 4 % static_cast<std::size_t>(config.engram->compressed_vocab_size));
  tables.ngrams = std::make_shared<const EngramHashes>(config, std::move(compressed));
  return tables;
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
