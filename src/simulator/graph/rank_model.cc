#include "simulator/graph/rank_model.h"

#include <algorithm>

#include "numeric/block_scale.h"

namespace baleen {

std::int64_t shared_expert_tp(const ModelConfig& config, const ParallelPlan& plan) {
  const bool same_tokens = plan.dp == 1 && !plan.sequence_parallel;
  return same_tokens && config.moe_intermediate_size % (plan.tp * kWeightBlock) == 0 ? plan.tp : 1;
}

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
  const std::int64_t width = config_.hidden_size;
  if (stage.first || config_.num_nextn_predict_layers > 0) {
    weights_.embedding = {reinterpret_cast<const Bf16Bits*>(memory_.allocate(2 * config_.vocab_size * width)),
                          {config_.vocab_size, width}};
  }
  if (stage.last) {
    weights_.head =
        matrix((config_.vocab_size + plan.lmhead_tp - 1) / plan.lmhead_tp, width, WeightFormat::kBF16);
    weights_.norm = vector(width);
    weights_.hc_head = mixing(config_.hc_mult, 1);
  }
  weights_.blocks.reserve(static_cast<std::size_t>(config_.num_blocks()));
  for (std::int64_t block = 0; block < config_.num_blocks(); ++block) add_block(block);
  for (std::int64_t i = 0; i < config_.num_nextn_predict_layers; ++i) add_mtp_block();
  note_places();
}

WeightMatrix RankModel::matrix(std::int64_t rows, std::int64_t cols, WeightFormat format) {
  WeightMatrix matrix{.format = format, .rows = rows, .cols = cols};
  matrix.data = memory_.allocate(rows * matrix.row_bytes());
  if (format == WeightFormat::kFp8) matrix.block_scales = reinterpret_cast<const float*>(memory_.allocate(1));
  if (format == WeightFormat::kFp4)
    matrix.group_scales = reinterpret_cast<const std::uint8_t*>(memory_.allocate(1));
  return matrix;
}

std::span<const float> RankModel::vector(std::int64_t size) {
  return {reinterpret_cast<const float*>(memory_.allocate(4 * size)), static_cast<std::size_t>(size)};
}

HcWeights RankModel::mixing(std::int64_t num_mixes, std::int64_t num_scales) {
  return {.fn = {vector(num_mixes * config_.hc_dim()).data(), {num_mixes, config_.hc_dim()}},
          .base = vector(num_mixes),
          .scale = vector(num_scales)};
}

CompressorWeights RankModel::compressor(const AttentionShape& shape, std::int64_t width) {
  const std::int64_t columns = shape.compressor_columns(width);
  return {.ape = {vector(shape.ratio * columns).data(), {shape.ratio, columns}},
          .wkv = matrix(columns, config_.hidden_size, WeightFormat::kBF16),
          .wgate = matrix(columns, config_.hidden_size, WeightFormat::kBF16),
          .norm = vector(width)};
}

ExpertWeights RankModel::expert(std::int64_t inner_width, WeightFormat format) {
  return {.w1 = matrix(inner_width, config_.hidden_size, format),
          .w2 = matrix(config_.hidden_size, inner_width, format),
          .w3 = matrix(inner_width, config_.hidden_size, format)};
}

void RankModel::add_block(std::int64_t block) {
  const ModelConfig& c = config_;
  BlockWeights weights;
  weights.hc_attn = weights.hc_ffn = mixing(c.hc_num_mixes(), 3);
  weights.attn_norm = weights.ffn_norm = vector(c.hidden_size);

  AttentionWeights& attention = weights.attention;
  attention.sink = vector(rank_config_.num_attention_heads);
  attention.wq_a = matrix(c.q_lora_rank, c.hidden_size, formats_.dense);
  attention.q_norm = vector(c.q_lora_rank);
  attention.wq_b = matrix(rank_config_.q_dim(), c.q_lora_rank, formats_.dense);
  attention.wkv = matrix(c.head_dim, c.hidden_size, formats_.dense);
  attention.kv_norm = vector(c.head_dim);
  attention.wo_a = matrix(rank_config_.o_dim(), rank_config_.group_dim(), formats_.dense);
  attention.wo_b = matrix(c.hidden_size, rank_config_.o_dim(), formats_.dense);
  const AttentionShape shape = c.attention(block);
  if (shape.compresses()) attention.compressor = compressor(shape, c.head_dim);
  if (shape.indexed) {
    attention.indexer = {.wq_b = matrix(c.index_q_dim(), c.q_lora_rank, formats_.dense),
                         .weights_proj = matrix(c.index_n_heads, c.hidden_size, WeightFormat::kBF16),
                         .compressor = compressor(shape, c.index_head_dim)};
  }

  MoeWeights& moe = weights.moe;
  moe.gate = matrix(c.n_routed_experts, c.hidden_size, WeightFormat::kBF16);
  if (c.is_hash_routed(block)) {
    const std::int64_t entries = c.vocab_size * c.num_experts_per_tok;
    moe.hash_table = {reinterpret_cast<const std::int32_t*>(vector(entries).data()),
                      {c.vocab_size, c.num_experts_per_tok}};
  } else {
    moe.bias = vector(c.n_routed_experts);
  }
  moe.routed.assign(static_cast<std::size_t>(plan_.local_experts(c)),
                    expert(c.moe_intermediate_size / plan_.moe_tp, formats_.experts));
  moe.has_shared = c.n_shared_experts > 0;
  if (moe.has_shared)
    moe.shared = expert(c.moe_intermediate_size / shared_expert_tp(c, plan_), formats_.dense);
  weights_.blocks.push_back(std::move(weights));
}

void RankModel::add_mtp_block() {
  const std::int64_t width = config_.hidden_size;
  weights_.mtp.push_back({.e_proj = matrix(width, width, formats_.dense),
                          .h_proj = matrix(width, width, formats_.dense),
                          .enorm = vector(width),
                          .hnorm = vector(width),
                          .norm = vector(width),
                          .hc_head = mixing(config_.hc_mult, 1)});
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
