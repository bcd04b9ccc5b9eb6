#include "model/weights.h"

#include <fmt/format.h>

#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "model/weight_checks.h"
#include "numeric/e8m0.h"

namespace baleen {
namespace {

// Scales are a sixteenth of FP4 weights. Up to here reading them all takes milliseconds.
constexpr std::int64_t kScaleBytesReadAtLoad = 16 << 20;

bool is_scale(const TensorInfo& tensor) {
  return tensor.dtype == DType::kF8E8M0 || tensor.name.ends_with(".scale");
}

}  // namespace

ModelWeights::ModelWeights(const std::filesystem::path& folder)
    : ModelWeights{load_config(folder), Checkpoint(folder)} {}  // braces: the config is read first

ModelWeights::ModelWeights(ModelConfig config, Checkpoint checkpoint)
    : config_(std::move(config)), checkpoint_(std::move(checkpoint)) {
  check_tensors(config_, checkpoint_);
  check_scales();
  for (const TensorInfo& tensor : checkpoint_.tensors()) mapped_bytes_ += tensor.size_bytes();

  const TensorInfo& embed = checkpoint_.at("embed.weight");
  const auto* rows = reinterpret_cast<const Bf16Bits*>(embed.bytes.data());
  if (reinterpret_cast<std::uintptr_t>(rows) % alignof(Bf16Bits) != 0) {
    realigned_.emplace_back(embed.bytes.size() / sizeof(Bf16Bits));
    std::memcpy(realigned_.back().data(), embed.bytes.data(), embed.bytes.size());
    owned_bytes_ += static_cast<std::int64_t>(embed.bytes.size());
    rows = realigned_.back().data();
  }
  tree_.embedding = {rows, {config_.vocab_size, config_.hidden_size}};
  tree_.head = matrix("head");
  tree_.norm = vector("norm.weight");
  tree_.hc_head = hyper_connection("hc_head");
  for (std::int64_t block = 0; block < config_.num_blocks(); ++block) {
    const std::string prefix = config_.is_mtp(block)
                                   ? fmt::format("mtp.{}.", block - config_.num_hidden_layers)
                                   : fmt::format("layers.{}.", block);
    tree_.blocks.push_back({.hc_attn = hyper_connection(prefix + "hc_attn"),
                            .hc_ffn = hyper_connection(prefix + "hc_ffn"),
                            .attn_norm = vector(prefix + "attn_norm.weight"),
                            .ffn_norm = vector(prefix + "ffn_norm.weight"),
                            .attention = attention(prefix + "attn.", block),
                            .moe = moe(prefix + "ffn.", block)});
    if (config_.is_mtp(block)) {
      tree_.mtp.push_back({.e_proj = matrix(prefix + "e_proj"),
                           .h_proj = matrix(prefix + "h_proj"),
                           .enorm = vector(prefix + "enorm.weight"),
                           .hnorm = vector(prefix + "hnorm.weight"),
                           .norm = vector(prefix + "norm.weight"),
                           .hc_head = hyper_connection(prefix + "hc_head")});
    }
  }
}

void ModelWeights::check_scales() const {
  std::int64_t total = 0;
  for (const TensorInfo& tensor : checkpoint_.tensors()) {
    if (is_scale(tensor)) total += tensor.size_bytes();
  }
  for (const TensorInfo& tensor : checkpoint_.tensors()) {
    const bool expert = tensor.name.find(".experts.") != std::string::npos;
    if (is_scale(tensor) && (!expert || total <= kScaleBytesReadAtLoad)) check_scale(tensor);
  }
}

std::span<const float> ModelWeights::widened(const TensorInfo& tensor) {
  std::vector<float>& values = floats_.emplace_back(static_cast<std::size_t>(tensor.num_elements()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::byte* from = tensor.bytes.data() + i * static_cast<std::size_t>(dtype_bytes(tensor.dtype));
    if (tensor.dtype == DType::kF32) {
      std::memcpy(&values[i], from, sizeof(float));
    } else if (tensor.dtype == DType::kBF16) {
      Bf16Bits bits;
      std::memcpy(&bits, from, sizeof(bits));
      values[i] = bf16_to_float(bits);
    } else {
      BALEEN_CHECK(tensor.dtype == DType::kF8E8M0);
      values[i] = e8m0_to_float(static_cast<std::uint8_t>(*from));
    }
  }
  owned_bytes_ += static_cast<std::int64_t>(values.size() * sizeof(float));
  return values;
}

std::span<const float> ModelWeights::vector(const std::string& name) { return widened(checkpoint_.at(name)); }

WeightMatrix ModelWeights::matrix(const std::string& stem) {
  const TensorInfo& tensor = checkpoint_.at(stem + ".weight");
  WeightMatrix weight{.rows = tensor.shape[0], .cols = tensor.shape[1], .data = tensor.bytes.data()};
  switch (tensor.dtype) {
    case DType::kBF16:
      weight.format = WeightFormat::kBF16;
      break;
    case DType::kF32:
      weight.format = WeightFormat::kF32;
      break;
    case DType::kF8E4M3:
      weight.format = WeightFormat::kFp8;
      weight.block_scales = vector(stem + ".scale").data();
      break;
    case DType::kI8:
      weight.format = WeightFormat::kFp4;
      weight.cols *= 2;
      weight.group_scales =
          reinterpret_cast<const std::uint8_t*>(checkpoint_.at(stem + ".scale").bytes.data());
      break;
    default:
      fail("{}: tensor \"{}\": {} cannot be a matrix", tensor.file, tensor.name, tensor.type_text());
  }
  return weight;
}

HcWeights ModelWeights::hyper_connection(const std::string& stem) {
  const TensorInfo& fn = checkpoint_.at(stem + "_fn");
  const auto* values = reinterpret_cast<const float*>(fn.bytes.data());
  if (reinterpret_cast<std::uintptr_t>(values) % alignof(float) != 0) values = widened(fn).data();
  return {.fn = {values, {fn.shape[0], fn.shape[1]}},
          .base = vector(stem + "_base"),
          .scale = vector(stem + "_scale")};
}

CompressorWeights ModelWeights::compressor(const std::string& prefix) {
  const TensorInfo& ape = checkpoint_.at(prefix + "ape");
  return {.ape = {widened(ape).data(), {ape.shape[0], ape.shape[1]}},
          .wkv = matrix(prefix + "wkv"),
          .wgate = matrix(prefix + "wgate"),
          .norm = vector(prefix + "norm.weight")};
}

AttentionWeights ModelWeights::attention(const std::string& prefix, std::int64_t block) {
  AttentionWeights weights{.sink = vector(prefix + "attn_sink"),
                           .wq_a = matrix(prefix + "wq_a"),
                           .q_norm = vector(prefix + "q_norm.weight"),
                           .wq_b = matrix(prefix + "wq_b"),
                           .wkv = matrix(prefix + "wkv"),
                           .kv_norm = vector(prefix + "kv_norm.weight"),
                           .wo_a = matrix(prefix + "wo_a"),
                           .wo_b = matrix(prefix + "wo_b"),
                           .compressor = {},
                           .indexer = {}};
  const AttentionShape shape = config_.attention(block);
  if (shape.compresses()) weights.compressor = compressor(prefix + "compressor.");
  if (shape.indexed) {
    weights.indexer = {.wq_b = matrix(prefix + "indexer.wq_b"),
                       .weights_proj = matrix(prefix + "indexer.weights_proj"),
                       .compressor = compressor(prefix + "indexer.compressor.")};
  }
  return weights;
}

ExpertWeights ModelWeights::expert(const std::string& prefix) {
  return {.w1 = matrix(prefix + "w1"), .w2 = matrix(prefix + "w2"), .w3 = matrix(prefix + "w3")};
}

MoeWeights ModelWeights::moe(const std::string& prefix, std::int64_t block) {
  MoeWeights weights;
  weights.gate = matrix(prefix + "gate");
  if (config_.is_hash_routed(block)) {
    weights.hash_table = hash_table(checkpoint_.at(prefix + "gate.tid2eid"));
  } else {
    weights.bias = vector(prefix + "gate.bias");
  }
  for (std::int64_t e = 0; e < config_.n_routed_experts; ++e) {
    weights.routed.push_back(expert(fmt::format("{}experts.{}.", prefix, e)));
  }
  weights.has_shared = config_.n_shared_experts > 0;
  if (weights.has_shared) weights.shared = expert(prefix + "shared_experts.");
  return weights;
}

View<const std::int32_t, 2> ModelWeights::hash_table(const TensorInfo& tensor) {
  check_hash_table(tensor, config_);
  std::vector<std::int32_t>& table = tables_.emplace_back(static_cast<std::size_t>(tensor.num_elements()));
  for (std::size_t i = 0; i < table.size(); ++i) {
    std::int64_t id;
    std::memcpy(&id, tensor.bytes.data() + i * sizeof(id), sizeof(id));
    table[i] = static_cast<std::int32_t>(id);
  }
  owned_bytes_ += static_cast<std::int64_t>(table.size() * sizeof(std::int32_t));
  return {table.data(), {tensor.shape[0], tensor.shape[1]}};
}

}  // namespace baleen
