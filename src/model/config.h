/// The configuration of a DeepSeek-V4 model: config.json as plain data, validated once, immutable afterwards.
/// (source: checkpoint specification, "config.json"; forward-pass specification, "Symbols and sizes")
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/layer_attention.h"
#include "numeric/weight_format.h"

namespace baleen {

/// How the router turns logits into scores.
enum class ScoringFunc : std::uint8_t { kSqrtSoftplus, kSigmoid, kSoftmax };

/// YaRN; applies only to layers with a ratio other than 0.
struct RopeScaling {
  double factor = 16;
  std::int64_t original_max_position_embeddings = 65536;
  double beta_fast = 32;
  double beta_slow = 1;

  bool operator==(const RopeScaling&) const = default;
};

/// What the blocks behind the main layers are. `kUnknown`: of tensors under "mtp." that are neither head's,
/// or both's; no config has it.
enum class DraftKind : std::uint8_t { kNone, kMtp, kDspark, kUnknown };

/// The fields "dspark_*": a head whose stages draft a block of tokens at once.
struct DsparkConfig {
  std::int64_t block_size = 0;                 ///< rows of a draft, that of the token before it included
  std::int64_t noise_token_id = 0;             ///< stands for tokens that are not known yet
  std::vector<std::int64_t> target_layer_ids;  ///< main layers whose output streams it reads
  std::int64_t markov_rank = 0;
  /// Of its own stages, where they have others than the layers (V4.1); 0: as the layers.
  std::int64_t n_routed_experts = 0, num_experts_per_tok = 0;

  bool operator==(const DsparkConfig&) const = default;
};

/// The layers that make entries, selections and candidates for those behind them (V4.1).
struct SharedStreams {
  std::vector<std::int64_t> kv_source_layer_ids;     ///< ascending
  std::vector<std::int64_t> index_source_layer_ids;  ///< ascending; every source of entries is one
  std::int64_t candidate_source_layer_id = 0;
  std::int64_t candidate_topk_blocks = 0;
  std::int64_t candidate_block_size = 0;  ///< entries

  bool operator==(const SharedStreams&) const = default;
};

/// The fields "engram_*": a memory of n-grams that some layers read before their attention (V4.1).
struct EngramConfig {
  std::vector<std::int64_t> layer_ids;       ///< ascending
  std::vector<std::int64_t> num_embeddings;  ///< rows of each layer's table
  std::int64_t max_ngram_size = 0;
  std::int64_t vocab_size = 0;  ///< rows of one hash are a prime of at least so many
  std::int64_t n_heads = 0;     ///< hashes of each length of n-grams, of which there are max_ngram_size - 1
  std::int64_t head_dim = 0;    ///< values of a row
  std::int64_t pad_token_id = 0;
  std::int64_t compressed_vocab_size = 0;
  std::int64_t image_token_id = -1;  ///< "image_token_id", which no n-gram spans; -1: there is none

  /// Hashes, and rows that a token reads of a table.
  [[nodiscard]] std::int64_t num_hashes() const { return (max_ngram_size - 1) * n_heads; }
  bool operator==(const EngramConfig&) const = default;
};

/// What is known of the draft head's blocks from tensors.
struct DraftBlocks {
  DraftKind kind = DraftKind::kNone;
  std::int64_t count = 0;
};

struct ModelFamily;  // model/model_family.h
extern const ModelFamily kDeepSeekV4;

/// Members are named as in config.json. The defaults are what Flash and Pro have in common; members without a
/// default are 0 until loaded or taken from a preset.
struct ModelConfig {
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_hidden_layers = 0;
  std::vector<std::int64_t> compress_ratios;  ///< one a layer, then one a block of the draft head
  std::int64_t num_attention_heads = 0;
  std::int64_t head_dim = 512;
  std::int64_t qk_rope_head_dim = 64;  ///< the last dims of a head
  std::int64_t q_lora_rank = 0;
  std::int64_t o_groups = 0;
  std::int64_t o_lora_rank = 0;
  std::int64_t sliding_window = 128;
  double rope_theta = 10000;
  double compress_rope_theta = 160000;  ///< base of layers with a ratio other than 0
  RopeScaling rope_scaling;
  std::int64_t max_position_embeddings = 1048576;
  std::int64_t index_n_heads = 0;
  std::int64_t index_head_dim = 128;
  std::int64_t index_topk = 0;
  std::int64_t n_routed_experts = 0;
  std::int64_t n_shared_experts = 1;
  std::int64_t num_experts_per_tok = 0;
  std::int64_t moe_intermediate_size = 0;
  std::int64_t num_hash_layers = 0;  ///< the first layers, routed by token id
  ScoringFunc scoring_func = ScoringFunc::kSqrtSoftplus;
  std::int64_t n_group = 1;     ///< groups of experts for grouped top-k; 1 means none
  std::int64_t topk_group = 1;  ///< groups kept
  bool norm_topk_prob = true;
  double routed_scaling_factor = 0;
  double swiglu_limit = 10;
  std::int64_t hc_mult = 4;
  std::int64_t hc_sinkhorn_iters = 20;
  double hc_eps = 1e-6;
  double rms_norm_eps = 1e-6;
  std::int64_t num_nextn_predict_layers = 1;  ///< blocks of the draft head
  DraftKind draft_kind = DraftKind::kMtp;     ///< what those blocks are, if there are any
  DsparkConfig dspark;                        ///< a DSpark head's fields; otherwise zeros
  std::optional<SharedStreams> streams;       ///< nothing: every layer has entries of its own
  std::optional<EngramConfig> engram;         ///< nothing: there are no such tables
  WeightFormat expert_format =
      WeightFormat::kFp4;  ///< "expert_dtype"; the tensors' own dtypes have the last word
  WeightFormat dense_format = WeightFormat::kFp8;  ///< FP8 if "quantization_config" is there, otherwise BF16
  std::int64_t bos_token_id = 0;
  std::int64_t eos_token_id = 1;
  const ModelFamily* family = &kDeepSeekV4;  ///< lives as long as the program

  /// Blocks of the draft head, behind the main layers.
  [[nodiscard]] std::int64_t num_draft_blocks() const { return num_nextn_predict_layers; }
  /// What its first projection takes: streams of the last layer, or means of those after several.
  [[nodiscard]] std::int64_t draft_input_size() const {
    return draft_kind == DraftKind::kDspark ? std::ssize(dspark.target_layer_ids) * hidden_size : hidden_size;
  }
  /// Layers and those; block index num_hidden_layers + m is block m of the draft head.
  [[nodiscard]] std::int64_t num_blocks() const { return num_hidden_layers + num_draft_blocks(); }
  [[nodiscard]] std::int64_t compress_ratio(std::int64_t block) const {
    return compress_ratios[static_cast<std::size_t>(block)];
  }
  /// The layer's attention as a value: what everything but this struct and its file should look at.
  [[nodiscard]] LayerAttention attention(std::int64_t block) const { return attention_of(*this, block); }
  [[nodiscard]] LayerKind layer_kind(std::int64_t block) const { return attention(block).kind(); }
  /// Among the main layers.
  [[nodiscard]] std::int64_t num_layers_of(LayerKind kind) const;
  [[nodiscard]] bool is_draft_block(std::int64_t block) const { return block >= num_hidden_layers; }
  [[nodiscard]] bool is_hash_routed(std::int64_t block) const { return block < num_hash_layers; }
  /// Of a layer or a draft head's block.
  [[nodiscard]] std::int64_t num_routed_experts(std::int64_t block) const {
    return is_draft_block(block) && dspark.n_routed_experts > 0 ? dspark.n_routed_experts : n_routed_experts;
  }
  /// Of those a token has.
  [[nodiscard]] std::int64_t num_selected_experts(std::int64_t block) const {
    return is_draft_block(block) && dspark.num_experts_per_tok > 0 ? dspark.num_experts_per_tok
                                                                   : num_experts_per_tok;
  }
  /// Which of the Engram tables the layer reads; nothing: none.
  [[nodiscard]] std::optional<std::size_t> engram_table(std::int64_t block) const;

  /// Of the family (model/model_family.h).
  [[nodiscard]] int activation_group() const;
  [[nodiscard]] WeightFormat fp8_format() const;

  [[nodiscard]] std::int64_t nope_dim() const { return head_dim - qk_rope_head_dim; }
  [[nodiscard]] std::int64_t q_dim() const { return num_attention_heads * head_dim; }
  [[nodiscard]] std::int64_t heads_per_group() const { return num_attention_heads / o_groups; }
  /// Inputs of one group of the output projection.
  [[nodiscard]] std::int64_t group_dim() const { return heads_per_group() * head_dim; }
  [[nodiscard]] std::int64_t o_dim() const { return o_groups * o_lora_rank; }
  [[nodiscard]] std::int64_t index_q_dim() const { return index_n_heads * index_head_dim; }
  /// Each half-block sums streams up by the weights that the one before it made, the final collapse by the
  /// last one's.
  [[nodiscard]] bool lags_mixing() const;
  /// All residual streams of a token side by side.
  [[nodiscard]] std::int64_t hc_dim() const { return hc_mult * hidden_size; }
  /// Mixing coefficients of one hc_pre: n to read, n to write, n x n between streams.
  [[nodiscard]] std::int64_t hc_num_mixes() const { return (2 + hc_mult) * hc_mult; }

  bool operator==(const ModelConfig&) const = default;
};

/// Whether it is a V4.1's, by "model_type". Text that is no JSON object is none.
[[nodiscard]] bool is_v41_config(std::string_view text);

/// Reads and validates config.json text of a model of either family. `label` names the file in messages.
/// Throws `Error` for anything but a config that this program can run: a missing, wrong-typed or absurd
/// field, or fields that contradict. Of V4 unknown fields are ignored, of V4.1 refused (model/v41_config.h).
/// `drafts`: what there are tensors of, where tensors are known; "num_nextn_predict_layers" is then not
/// believed (later releases have 1 there, and three DSpark stages), and the fields of DSpark are read where
/// its tensors are there. Without tensors a config that names a DSpark head has none.
[[nodiscard]] ModelConfig parse_config(std::string_view text, std::string_view label,
                                       const std::optional<DraftBlocks>& drafts = {});

/// The same model without its draft head.
[[nodiscard]] ModelConfig without_drafts(ModelConfig config);

/// Throws `Error` when fields contradict each other or ask for a geometry that the operations do not have.
void validate(const ModelConfig& config, std::string_view label);

/// config.json text in the released field names; `parse_config` of it gives `config` back.
[[nodiscard]] std::string config_text(const ModelConfig& config);

}  // namespace baleen
