#include "model/weight_binding.h"

#include <fmt/format.h>

#include "model/tensor_table.h"

namespace baleen {
namespace {

/// Binds the tensors under the names of one model.
class Binder {
 public:
  Binder(const ModelConfig& config, const RankShare& share, TensorSource& source)
      : config_(config), share_(share), source_(source) {}

  WeightTree tree() {
    WeightTree tree;
    if (share_.embedding) tree.embedding = source_.embedding("embed.weight");
    if (share_.head) {
      tree.head = source_.matrix("head");
      tree.norm = source_.vector("norm.weight");
      tree.hc_head = mixing("hc_head");
    }
    tree.blocks.reserve(static_cast<std::size_t>(config_.num_blocks()));
    for (std::int64_t block = 0; block < config_.num_blocks(); ++block) {
      const std::string prefix = block_prefix(config_, block);
      tree.blocks.push_back({.hc_attn = mixing(prefix + "hc_attn"),
                             .hc_ffn = mixing(prefix + "hc_ffn"),
                             .attn_norm = source_.vector(prefix + "attn_norm.weight"),
                             .ffn_norm = source_.vector(prefix + "ffn_norm.weight"),
                             .attention = attention(prefix + "attn.", config_.attention(block)),
                             .moe = moe(prefix + "ffn.", config_.is_hash_routed(block))});
      if (config_.is_mtp(block)) tree.mtp.push_back(mtp(prefix));
    }
    return tree;
  }

 private:
  HcWeights mixing(const std::string& stem) {
    return {.fn = source_.table(stem + "_fn"),
            .base = source_.vector(stem + "_base"),
            .scale = source_.vector(stem + "_scale")};
  }

  CompressorWeights compressor(const std::string& prefix) {
    return {.ape = source_.table(prefix + "ape"),
            .wkv = source_.matrix(prefix + "wkv"),
            .wgate = source_.matrix(prefix + "wgate"),
            .norm = source_.vector(prefix + "norm.weight")};
  }

  AttentionWeights attention(const std::string& prefix, const LayerAttention& shape) {
    AttentionWeights weights{.sink = source_.vector(prefix + "attn_sink"),
                             .wq_a = source_.matrix(prefix + "wq_a"),
                             .q_norm = source_.vector(prefix + "q_norm.weight"),
                             .wq_b = source_.matrix(prefix + "wq_b"),
                             .wkv = source_.matrix(prefix + "wkv"),
                             .kv_norm = source_.vector(prefix + "kv_norm.weight"),
                             .wo_a = source_.matrix(prefix + "wo_a"),
                             .wo_b = source_.matrix(prefix + "wo_b"),
                             .compressor = {},
                             .indexer = {}};
    if (shape.compresses()) weights.compressor = compressor(prefix + "compressor.");
    if (shape.indexed) {
      weights.indexer = {.wq_b = source_.matrix(prefix + "indexer.wq_b"),
                         .weights_proj = source_.matrix(prefix + "indexer.weights_proj"),
                         .compressor = compressor(prefix + "indexer.compressor.")};
    }
    return weights;
  }

  MoeWeights moe(const std::string& prefix, bool hash_routed) {
    MoeWeights weights;
    weights.gate = source_.matrix(prefix + "gate");
    if (hash_routed) {
      weights.hash_table = source_.hash_table(prefix + "gate.tid2eid");
    } else {
      weights.bias = source_.vector(prefix + "gate.bias");
    }
    weights.routed = source_.experts(prefix + "experts.", share_.num_experts(config_.n_routed_experts));
    weights.has_shared = config_.n_shared_experts > 0;
    if (weights.has_shared) weights.shared = source_.expert(prefix + "shared_experts.");
    return weights;
  }

  MtpWeights mtp(const std::string& prefix) {
    return {.e_proj = source_.matrix(prefix + "e_proj"),
            .h_proj = source_.matrix(prefix + "h_proj"),
            .enorm = source_.vector(prefix + "enorm.weight"),
            .hnorm = source_.vector(prefix + "hnorm.weight"),
            .norm = source_.vector(prefix + "norm.weight"),
            .hc_head = mixing(prefix + "hc_head")};
  }

  const ModelConfig& config_;
  const RankShare& share_;
  TensorSource& source_;
};

}  // namespace

ExpertWeights TensorSource::expert(const std::string& prefix) {
  return {.w1 = matrix(prefix + "w1"), .w2 = matrix(prefix + "w2"), .w3 = matrix(prefix + "w3")};
}

std::vector<ExpertWeights> TensorSource::experts(const std::string& prefix, std::int64_t count) {
  std::vector<ExpertWeights> all;
  for (std::int64_t e = 0; e < count; ++e) all.push_back(expert(fmt::format("{}{}.", prefix, e)));
  return all;
}

WeightTree bind_weights(const ModelConfig& config, const RankShare& share, TensorSource& source) {
  return Binder(config, share, source).tree();
}

}  // namespace baleen
