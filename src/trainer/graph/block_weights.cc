#include "trainer/graph/block_weights.h"

#include <fmt/format.h>

#include <cstdint>

namespace baleen::graph {
namespace {

template <class T>
class Binder {
 public:
  Binder(ParametersOf<T>* parameters, std::string prefix, bool plain_residual)
      : parameters_(parameters), prefix_(std::move(prefix)), plain_residual_(plain_residual) {}

  T* operator()(std::string_view name) const {
    if (parameters_ == nullptr) return reinterpret_cast<T*>(kNoMemory);
    return parameters_->at(prefix_ + std::string(name));
  }
  MixingWeights<T> mixing(const std::string& name) const {
    if (plain_residual_) return {};
    return {(*this)(name + "_fn"), (*this)(name + "_base"), (*this)(name + "_scale")};
  }
  CompressorWeights<T> compressor(const std::string& name) const {
    return {(*this)(name + ".ape"), (*this)(name + ".wkv.weight"), (*this)(name + ".wgate.weight"),
            (*this)(name + ".norm.weight")};
  }
  SwigluWeights<T> swiglu(const std::string& name) const {
    return {(*this)(name + ".w1"), (*this)(name + ".w2"), (*this)(name + ".w3")};
  }

 private:
  /// Of tensors without values: where no program has memory.
  static constexpr std::uintptr_t kNoMemory = std::uintptr_t{1} << 56;

  ParametersOf<T>* parameters_;
  std::string prefix_;
  bool plain_residual_;
};

template <class T>
BlockWeights<T> block_weights(const ModelConfig& config, std::int64_t block, const Binder<T>& at) {
  BlockWeights<T> w;
  w.attn_site = {at.mixing("hc_attn"), at("attn_norm.weight")};
  w.ffn_site = {at.mixing("hc_ffn"), at("ffn_norm.weight")};
  w.sink = at("attn.attn_sink");
  w.wq_a = at("attn.wq_a");
  w.q_norm = at("attn.q_norm.weight");
  w.wq_b = at("attn.wq_b");
  w.wkv = at("attn.wkv");
  w.kv_norm = at("attn.kv_norm.weight");
  w.wo_a = at("attn.wo_a");
  w.wo_b = at("attn.wo_b");
  const LayerAttention shape = config.attention(block);
  if (shape.compresses()) w.compressor = at.compressor("attn.compressor");
  if (shape.indexed) {
    w.index_wq_b = at("attn.indexer.wq_b");
    w.index_weights = at("attn.indexer.weights_proj.weight");
    w.index_compressor = at.compressor("attn.indexer.compressor");
  }
  w.gate = at("ffn.gate.weight");
  if (!config.is_hash_routed(block)) w.gate_bias = at("ffn.gate.bias");
  w.shared = at.swiglu("ffn.shared_experts");
  for (std::int64_t expert = 0; expert < config.n_routed_experts; ++expert) {
    w.experts.push_back(at.swiglu(fmt::format("ffn.experts.{}", expert)));
  }
  return w;
}

}  // namespace

template <class T>
ModelWeightPlaces<T>::ModelWeightPlaces(const ModelConfig& config, ParametersOf<T>* parameters,
                                        bool plain_residual) {
  const Binder<T> top(parameters, "", plain_residual);
  embed = top("embed.weight");
  head = top("head.weight");
  output = {top.mixing("hc_head"), top("norm.weight")};
  for (std::int64_t block = 0; block < config.num_blocks(); ++block) {
    const Binder<T> at(parameters, block_prefix(config, block), plain_residual);
    blocks.push_back(block_weights(config, block, at));
    if (!config.is_draft_block(block)) continue;
    mtp = {at("e_proj"),
           at("h_proj"),
           at("enorm.weight"),
           at("hnorm.weight"),
           {at.mixing("hc_head"), at("norm.weight")}};
  }
}

template struct ModelWeightPlaces<float>;
template struct ModelWeightPlaces<double>;
template struct ModelWeightPlaces<const float>;
template struct ModelWeightPlaces<const double>;

}  // namespace baleen::graph
