/// The largest step that a device will be asked to run: what its scratch is sized for.
#pragma once

#include <cstdint>

namespace baleen {

/// Extents of a model and of a step. Members are named as in the config.
struct StepShape {
  std::int64_t max_rows = 0;
  std::int64_t max_logit_rows = 0;
  std::int64_t max_sequences = 0;
  std::int64_t max_positions = 0;  ///< positions that one sequence may have
  std::int64_t hidden_size = 0;
  std::int64_t draft_input_size = 0;  ///< inputs of a draft head's widest product
  std::int64_t engram_values = 0;     ///< that a token reads of a table of n-grams; 0: there is none
  std::int64_t hc_mult = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t q_lora_rank = 0;
  std::int64_t o_groups = 0;
  std::int64_t group_dim = 0;  ///< inputs of one group of the output projection
  std::int64_t o_dim = 0;      ///< outputs of all groups
  std::int64_t index_n_heads = 0;
  std::int64_t index_head_dim = 0;
  std::int64_t index_topk = 0;
  std::int64_t candidate_topk_blocks = 0;  ///< 0: no layer chooses blocks of entries
  std::int64_t n_routed_experts = 0;
  std::int64_t num_experts_per_tok = 0;
  std::int64_t moe_intermediate_size = 0;
  std::int64_t vocab_size = 0;
  std::int64_t markov_rank = 0;  ///< 0: the model has no DSpark head
  int activation_group = 128;    ///< values of activations in front of codes that share a scale
};

}  // namespace baleen
