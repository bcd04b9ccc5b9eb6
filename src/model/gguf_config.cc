#include "model/gguf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/number.h"
#include "base/quoted_text.h"

namespace baleen {
namespace {

constexpr std::string_view kArchitectureKey = "general.architecture", kArchitecture = "deepseek4";
constexpr std::string_view kBlock = "blk.", kNextn = "nextn.";

void check_architecture(const GgufModel& model) {
  const auto architecture = model.keys().text(kArchitectureKey);
  if (architecture == kArchitecture) return;
  if (architecture == "dflash") {
    fail(
        "{}: a DSpark draft head (architecture dflash), which baleen does not read from a file of its own "
        "yet; "
        "pass the main model's file",
        model.path().string());
  }
  if (architecture == "deepseek41") {
    fail("{}: this is DeepSeek-V4.1 as a GGUF file, which is not read yet; expected a folder of safetensors",
         model.path().string());
  }
  fail("{}: a GGUF file of architecture {}, expected {}: baleen runs DeepSeek-V4", model.path().string(),
       architecture ? quoted_text(*architecture) : "that it does not name", quoted_text(kArchitecture));
}

/// The decimal number that a float stands for: 1e-06, not 9.99999997e-07.
double as_written(double value) {
  const auto single = static_cast<float>(value);
  if (static_cast<double>(single) != value) return value;
  return read_real(fmt::format("{}", single), {}).value();
}

/// Keys of the architecture that have to be there.
class Keys {
 public:
  explicit Keys(const GgufKeys& keys) : keys_(keys) {}

  [[nodiscard]] std::int64_t whole(std::string_view name) const {
    return required(keys_.whole(full(name)), name);
  }
  [[nodiscard]] double real(std::string_view name) const {
    return as_written(required(keys_.real(full(name)), name));
  }
  [[nodiscard]] bool flag(std::string_view name) const { return required(keys_.flag(full(name)), name); }
  [[nodiscard]] std::vector<std::int64_t> wholes(std::string_view name) const {
    return required(keys_.wholes(full(name)), name);
  }
  /// Of a value for each layer, all alike.
  [[nodiscard]] double common(std::string_view name) const {
    const std::vector<double> values = required(keys_.reals(full(name)), name);
    if (values.empty() || std::ranges::count(values, values.front()) != std::ssize(values)) {
      fail("{}: key \"{}\": expected the same number for every layer, found [{}]", keys_.label(), full(name),
           fmt::join(values, ", "));
    }
    return as_written(values.front());
  }
  [[nodiscard]] double real_or(std::string_view name, double otherwise) const {
    const auto found = keys_.real(full(name));
    return found ? as_written(*found) : otherwise;
  }
  [[nodiscard]] std::optional<std::int64_t> optional(std::string_view name) const {
    return keys_.whole(full(name));
  }
  void expect(std::string_view name, std::int64_t value) const {
    const auto found = keys_.whole(full(name));
    if (found && *found != value)
      fail("{}: key \"{}\": expected {}, found {}", keys_.label(), full(name), value, *found);
  }

 private:
  static std::string full(std::string_view name) { return fmt::format("{}.{}", kArchitecture, name); }
  template <class T>
  T required(std::optional<T> value, std::string_view name) const {
    if (!value)
      fail("{}: key \"{}\" is missing; is this a whole DeepSeek-V4 model?", keys_.label(), full(name));
    return std::move(*value);
  }

  const GgufKeys& keys_;
};

ScoringFunc scoring_func(const GgufKeys& keys, const Keys& own) {
  switch (own.optional("expert_gating_func").value_or(4)) {
    case 1:
      return ScoringFunc::kSoftmax;
    case 2:
      return ScoringFunc::kSigmoid;
    case 4:
      return ScoringFunc::kSqrtSoftplus;
    default:
      fail("{}: key \"{}.expert_gating_func\": expected 1, 2 or 4 (sqrtsoftplus)", keys.label(),
           kArchitecture);
  }
}

}  // namespace

GgufBlocks gguf_blocks(const GgufModel& model) {
  check_architecture(model);
  constexpr WholeRange kBlocks{0, 1 << 16};
  std::int64_t num_blocks = 0, first_mtp = INT64_MAX;
  for (const GgufTensor& tensor : model.tensors()) {
    const std::string_view name = tensor.name;
    if (!name.starts_with(kBlock)) continue;
    const std::size_t dot = name.find('.', kBlock.size());
    const auto block = read_whole(name.substr(kBlock.size(), dot - kBlock.size()), kBlocks);
    if (dot == std::string_view::npos || !block) continue;  // a name that no row has
    num_blocks = std::max(num_blocks, block.value() + 1);
    if (name.substr(dot + 1).starts_with(kNextn)) first_mtp = std::min(first_mtp, block.value());
  }
  const std::int64_t num_layers = std::min(num_blocks, first_mtp), num_mtp = num_blocks - num_layers;
  const std::int64_t said = Keys(model.keys()).whole("block_count");
  if (num_mtp > 0 && model.find("blk.0.attn_q_a.weight") == nullptr) {
    fail("{}: holds an MTP block alone (blk.{}.nextn.*); pass the main model's file", model.path().string(),
         num_layers);
  }
  if (said != num_layers && said != num_blocks) {
    fail(
        "{}: key \"{}.block_count\" is {}, there are tensors of {} layers and {} MTP blocks; is the download "
        "complete?",
        model.path().string(), kArchitecture, said, num_layers, num_mtp);
  }
  return {num_layers, num_mtp};
}

ModelConfig gguf_config(const GgufModel& model, const GgufBlocks& blocks) {
  check_architecture(model);
  const GgufKeys& keys = model.keys();
  const Keys own(keys);
  ModelConfig config;
  const auto tokens = keys.texts("tokenizer.ggml.tokens");
  config.vocab_size = own.optional("vocab_size").value_or(tokens ? std::ssize(*tokens) : 0);
  config.hidden_size = own.whole("embedding_length");
  config.num_hidden_layers = blocks.num_layers;
  config.num_nextn_predict_layers = blocks.num_mtp;
  config.compress_ratios = own.wholes("attention.compress_ratios");
  // A file without drafts may have no entry for theirs, which is 0.
  if (std::ssize(config.compress_ratios) == blocks.num_layers)
    config.compress_ratios.insert(config.compress_ratios.end(), static_cast<std::size_t>(blocks.num_mtp), 0);
  config.num_attention_heads = own.whole("attention.head_count");
  own.expect("attention.head_count_kv", 1);
  config.head_dim = own.whole("attention.key_length");
  own.expect("attention.value_length", config.head_dim);
  config.qk_rope_head_dim = own.whole("rope.dimension_count");
  config.q_lora_rank = own.whole("attention.q_lora_rank");
  config.o_groups = own.whole("attention.output_group_count");
  config.o_lora_rank = own.whole("attention.output_lora_rank");
  config.sliding_window = own.whole("attention.sliding_window");
  config.rope_theta = own.real("rope.freq_base");
  config.compress_rope_theta = own.real("attention.compress_rope_freq_base");
  config.rope_scaling = {
      .factor = own.real("rope.scaling.factor"),
      .original_max_position_embeddings = own.whole("rope.scaling.original_context_length"),
      .beta_fast = own.real_or("rope.scaling.yarn_beta_fast", config.rope_scaling.beta_fast),
      .beta_slow = own.real_or("rope.scaling.yarn_beta_slow", config.rope_scaling.beta_slow)};
  config.max_position_embeddings = own.whole("context_length");
  config.index_n_heads = own.whole("attention.indexer.head_count");
  config.index_head_dim = own.whole("attention.indexer.key_length");
  config.index_topk = own.whole("attention.indexer.top_k");
  config.n_routed_experts = own.whole("expert_count");
  config.n_shared_experts = own.whole("expert_shared_count");
  config.num_experts_per_tok = own.whole("expert_used_count");
  config.moe_intermediate_size = own.whole("expert_feed_forward_length");
  config.num_hash_layers = own.whole("hash_layer_count");
  config.scoring_func = scoring_func(keys, own);
  config.norm_topk_prob = own.flag("expert_weights_norm");
  config.routed_scaling_factor = own.real("expert_weights_scale");
  config.swiglu_limit = own.common("swiglu_clamp_exp");
  config.hc_mult = own.whole("hyper_connection.count");
  config.hc_sinkhorn_iters = own.whole("hyper_connection.sinkhorn_iterations");
  config.hc_eps = own.real("hyper_connection.epsilon");
  config.rms_norm_eps = own.real("attention.layer_norm_rms_epsilon");
  config.bos_token_id = keys.whole("tokenizer.ggml.bos_token_id").value_or(config.bos_token_id);
  config.eos_token_id = keys.whole("tokenizer.ggml.eos_token_id").value_or(config.eos_token_id);
  config.dense_format = WeightFormat::kBF16;
  return config;
}

}  // namespace baleen
