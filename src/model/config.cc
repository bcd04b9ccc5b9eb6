#include "model/config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/nearest_name.h"
#include "model/config_fields.h"
#include "numeric/block_scale.h"

namespace baleen {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::pair<ScoringFunc, std::string_view>, 3> kScoringFuncNames{
    {{ScoringFunc::kSqrtSoftplus, "sqrtsoftplus"},
     {ScoringFunc::kSigmoid, "sigmoid"},
     {ScoringFunc::kSoftmax, "softmax"}}};
constexpr std::array<std::pair<WeightFormat, std::string_view>, 4> kWeightFormatNames{
    {{WeightFormat::kBF16, "bf16"},
     {WeightFormat::kFp8, "fp8"},
     {WeightFormat::kFp4, "fp4"},
     {WeightFormat::kNvfp4, "nvfp4"}}};

/// ModelOpt's, in "quantization_config", which says of FP4 experts which they are.
constexpr const char* kExpertAlgorithm = "moe_quant_algo";
/// Of int4 experts: its "quantization_config" lists targets and says nothing of the dense matrices' FP8.
constexpr const char* kCompressedTensors = "compressed-tensors";
constexpr std::string_view kNvfp4Algorithm = "NVFP4";

/// config.json says it by having a "quantization_config" or none.
constexpr const char* kDenseDtype = "dense_dtype";
constexpr std::array<std::pair<WeightFormat, std::string_view>, 2> kDenseFormatNames{
    {{WeightFormat::kBF16, "bf16"}, {WeightFormat::kFp8, "fp8"}}};

/// Of a config whose checkpoint has a DSpark head.
constexpr const char* kDsparkField = "dspark_block_size";

enum class Presence : bool { kRequired, kOptional };

/// Inclusive limits of a number: far beyond any model, near enough that products of a few of them fit in 64
/// bits.
template <class T>
struct Range {
  T min;
  T max;
};

constexpr Range<std::int64_t> kWidth{1, 1 << 20};
constexpr Range<std::int64_t> kCount{1, 1 << 14};
constexpr Range<std::int64_t> kCountOrNone{0, 1 << 14};
constexpr Range<std::int64_t> kPositions{1, std::int64_t{1} << 31};
constexpr Range<std::int64_t> kTokenIds{1, 1 << 24};
constexpr Range<double> kEpsilon{1e-30, 1.0};
constexpr Range<double> kPositive{1e-6, 1e12};

/// The one list of fields, their limits and their order; reading and writing both walk it.
template <class Config, class Visitor>
void visit_fields(Config& c, Visitor&& field) {
  field("vocab_size", c.vocab_size, kTokenIds);
  field("hidden_size", c.hidden_size, kWidth);
  field("num_hidden_layers", c.num_hidden_layers, kCount);
  field("compress_ratios", c.compress_ratios);
  field("num_attention_heads", c.num_attention_heads, kCount);
  field("head_dim", c.head_dim, kWidth);
  field("qk_rope_head_dim", c.qk_rope_head_dim, kWidth);
  field("q_lora_rank", c.q_lora_rank, kWidth);
  field("o_groups", c.o_groups, kCount);
  field("o_lora_rank", c.o_lora_rank, kWidth);
  field("sliding_window", c.sliding_window, kWidth);
  field("rope_theta", c.rope_theta, kPositive);
  field("compress_rope_theta", c.compress_rope_theta, kPositive);
  field("rope_scaling", c.rope_scaling);
  field("max_position_embeddings", c.max_position_embeddings, kPositions);
  field("index_n_heads", c.index_n_heads, kCount);
  field("index_head_dim", c.index_head_dim, kWidth);
  field("index_topk", c.index_topk, kWidth);
  field("n_routed_experts", c.n_routed_experts, kCount);
  field("n_shared_experts", c.n_shared_experts, kCount);
  field("num_experts_per_tok", c.num_experts_per_tok, kCount);
  field("moe_intermediate_size", c.moe_intermediate_size, kWidth);
  field("num_hash_layers", c.num_hash_layers, kCountOrNone);
  field("scoring_func", c.scoring_func, kScoringFuncNames);
  field("n_group", c.n_group, kCount, Presence::kOptional);
  field("topk_group", c.topk_group, kCount, Presence::kOptional);
  field("norm_topk_prob", c.norm_topk_prob);
  field("routed_scaling_factor", c.routed_scaling_factor, kPositive);
  field("swiglu_limit", c.swiglu_limit, kPositive);
  field("hc_mult", c.hc_mult, kCount);
  field("hc_sinkhorn_iters", c.hc_sinkhorn_iters, kCount);
  field("hc_eps", c.hc_eps, kEpsilon);
  field("rms_norm_eps", c.rms_norm_eps, kEpsilon);
  field("num_nextn_predict_layers", c.num_nextn_predict_layers, kCountOrNone);
  field("expert_dtype", c.expert_format, kWeightFormatNames, Presence::kOptional);
  field("bos_token_id", c.bos_token_id, Range<std::int64_t>{0, kTokenIds.max});
  field("eos_token_id", c.eos_token_id, Range<std::int64_t>{0, kTokenIds.max});
}

/// Of a DSpark head.
template <class Config, class Visitor>
void visit_dspark(Config& c, Visitor&& field) {
  field(kDsparkField, c.dspark.block_size, kCount);
  field("dspark_noise_token_id", c.dspark.noise_token_id, Range<std::int64_t>{0, kTokenIds.max});
  field("dspark_target_layer_ids", c.dspark.target_layer_ids);
  field("dspark_markov_rank", c.dspark.markov_rank, kWidth);
}

template <class Scaling, class Visitor>
void visit_rope_scaling(Scaling& scaling, Visitor&& field) {
  field("factor", scaling.factor, Range<double>{1.0, 1e6});
  field("original_max_position_embeddings", scaling.original_max_position_embeddings, kPositions);
  field("beta_fast", scaling.beta_fast, kPositive);
  field("beta_slow", scaling.beta_slow, kPositive);
}

/// Reads fields of one JSON object; a sentence for each way in which a field can be wrong.
class FieldReader {
 public:
  using Where = std::function<std::string(std::string_view)>;

  FieldReader(const Json& object, std::string_view label)
      : FieldReader(object, label,
                    [label](std::string_view name) { return fmt::format("{}: \"{}\"", label, name); }) {}
  /// `where(name)` begins the sentence about a field. Without `all_required` fields that are absent stay as
  /// they are.
  FieldReader(const Json& object, std::string_view label, Where where, bool all_required = true)
      : object_(object), label_(label), where_(std::move(where)), all_required_(all_required) {}

  void operator()(const char* name, std::int64_t& value, Range<std::int64_t> range,
                  Presence presence = Presence::kRequired) {
    const Json* found = find(name, presence);
    if (found == nullptr) return;
    if (!found->is_number_integer()) refuse(name, "a whole number", *found);
    const bool too_large =
        found->is_number_unsigned() && found->get<std::uint64_t>() > std::uint64_t{INT64_MAX};
    if (too_large || found->get<std::int64_t>() < range.min || found->get<std::int64_t>() > range.max) {
      refuse(name, fmt::format("a number from {} to {}", range.min, range.max), *found);
    }
    value = found->get<std::int64_t>();
  }

  void operator()(const char* name, double& value, Range<double> range) {
    const Json* found = find(name, Presence::kRequired);
    if (found == nullptr) return;
    if (!found->is_number()) refuse(name, "a number", *found);
    value = found->get<double>();
    if (!(value >= range.min && value <= range.max)) {
      refuse(name, fmt::format("a number from {} to {}", range.min, range.max), *found);
    }
  }

  void operator()(const char* name, bool& value) {
    const Json* found = find(name, Presence::kRequired);
    if (found == nullptr) return;
    if (!found->is_boolean()) refuse(name, "true or false", *found);
    value = found->get<bool>();
  }

  template <class T, std::size_t N>
  void operator()(const char* name, T& value, const std::array<std::pair<T, std::string_view>, N>& names,
                  Presence presence = Presence::kRequired) {
    const Json* found = find(name, presence);
    if (found == nullptr) return;
    std::string expected;
    for (const auto& [key, text] : names) {
      if (*found == text) {
        value = key;
        return;
      }
      expected += fmt::format("{}\"{}\"", expected.empty() ? "" : " or ", text);
    }
    refuse(name, expected, *found);
  }

  void operator()(const char* name, std::vector<std::int64_t>& values) {
    const Json* found = find(name, Presence::kRequired);
    if (found == nullptr) return;
    if (!found->is_array()) refuse(name, "a list of whole numbers", *found);
    values.clear();
    for (const Json& element : *found) {
      const bool too_large =
          element.is_number_unsigned() && element.get<std::uint64_t>() > std::uint64_t{INT64_MAX};
      if (!element.is_number_integer() || too_large) refuse(name, "a list of whole numbers", element);
      values.push_back(element.get<std::int64_t>());
    }
  }

  void operator()(const char* name, RopeScaling& scaling) {
    const Json* found = find(name, Presence::kRequired);
    if (found == nullptr) return;
    if (!found->is_object()) refuse(name, "an object", *found);
    FieldReader inner(*found, label_, where_, all_required_);
    inner.expect(found->contains("rope_type") ? "rope_type" : "type", "yarn");
    visit_rope_scaling(scaling, inner);
  }

  /// The field, if there, has this value; the forward pass knows no other.
  void expect(const char* name, const Json& value) {
    const Json* found = find(name, Presence::kOptional);
    if (found != nullptr && *found != value) refuse(name, value.dump(), *found);
  }

  const Json* find(const char* name, Presence presence) {
    const auto place = object_.find(name);
    if (place != object_.end()) return &*place;
    if (presence == Presence::kRequired && all_required_) {
      fail("{}: \"{}\" is missing; is this the config.json of a DeepSeek-V4 checkpoint?", label_, name);
    }
    return nullptr;
  }

 private:
  [[noreturn]] void refuse(const char* name, std::string_view expected, const Json& found) const {
    std::string text = found.dump(-1, ' ', true);
    if (text.size() > 60) text = text.substr(0, 57) + "...";
    fail("{}: expected {}, found {}", where_(name), expected, text);
  }

  const Json& object_;
  std::string_view label_;
  Where where_;
  bool all_required_;
};

class FieldWriter {
 public:
  explicit FieldWriter(Json& object) : object_(object) {}

  template <class T, class... Limits>
  void operator()(const char* name, const T& value, const Limits&...) {
    object_[name] = value;
  }
  template <class T, std::size_t N, class... Limits>
  void operator()(const char* name, const T& value,
                  const std::array<std::pair<T, std::string_view>, N>& names, const Limits&...) {
    for (const auto& [key, text] : names) {
      if (key == value) object_[name] = text;
    }
  }
  void operator()(const char* name, const RopeScaling& scaling) {
    Json inner = {{"type", "yarn"}};
    visit_rope_scaling(scaling, FieldWriter(inner));
    object_[name] = inner;
  }

 private:
  Json& object_;
};

/// The sentence about a config of a release that is known and cannot be run.
std::optional<std::string> unsupported_release(const Json& object) {
  constexpr std::string_view kType = "deepseek_v41";
  const auto type = object.find("model_type");
  if (type == object.end() || !type->is_string() || !type->get_ref<const std::string&>().starts_with(kType))
    return std::nullopt;
  return fmt::format("\"model_type\" is {}: {}", type->dump(), kV41NotSupported);
}

void check_ratios(const ModelConfig& config, std::string_view label) {
  const auto num_ratios = static_cast<std::int64_t>(config.compress_ratios.size());
  if (num_ratios < config.num_blocks()) {
    fail("{}: \"compress_ratios\" has {} entries, {} layers and {} blocks of the draft head need {}", label,
         num_ratios, config.num_hidden_layers, config.num_draft_blocks(), config.num_blocks());
  }
  for (std::int64_t block = 0; block < num_ratios; ++block) {
    const std::string why_not = why_not_runnable(attention_of(config, block));
    if (!why_not.empty()) fail("{}: \"compress_ratios\", entry {}: {}", label, block, why_not);
  }
  for (std::int64_t block = config.num_hidden_layers; block < config.num_blocks(); ++block) {
    if (config.compress_ratio(block) != 0) {
      fail(
          "{}: \"compress_ratios\", entry {}: a draft head's block sees the window only, expected 0, found "
          "{}",
          label, block, config.compress_ratio(block));
    }
  }
}

bool has_dspark(const ModelConfig& config) {
  return config.draft_kind == DraftKind::kDspark && config.num_draft_blocks() > 0;
}

void check_dspark(const ModelConfig& config, std::string_view label) {
  const std::vector<std::int64_t>& targets = config.dspark.target_layer_ids;
  const bool ascending = std::ranges::adjacent_find(targets, std::greater_equal<>()) == targets.end();
  if (targets.empty() || !ascending || targets.front() < 0 || targets.back() >= config.num_hidden_layers) {
    fail("{}: \"dspark_target_layer_ids\": expected ascending layers from 0 to {}, found [{}]", label,
         config.num_hidden_layers - 1, fmt::join(targets, ", "));
  }
  if (config.dspark.noise_token_id >= config.vocab_size) {
    fail("{}: \"dspark_noise_token_id\": expected a token below \"vocab_size\" {}, found {}", label,
         config.vocab_size, config.dspark.noise_token_id);
  }
}

}  // namespace

std::int64_t ModelConfig::num_layers_of(LayerKind kind) const {
  std::int64_t count = 0;
  for (std::int64_t layer = 0; layer < num_hidden_layers; ++layer) count += layer_kind(layer) == kind ? 1 : 0;
  return count;
}

void validate(const ModelConfig& c, std::string_view label) {
  const auto require = [&](bool holds, const char* rule, std::string_view found) {
    if (!holds) fail("{}: expected {}, found {}", label, rule, found);
  };
  const auto require_multiple = [&](std::int64_t value, std::int64_t unit, const char* what) {
    if (value % unit != 0) fail("{}: {} must be a multiple of {}, found {}", label, what, unit, value);
  };
  require(c.hc_mult == 4, "\"hc_mult\" 4", fmt::to_string(c.hc_mult));
  require(c.sliding_window == 128, "\"sliding_window\" 128", fmt::to_string(c.sliding_window));
  require(c.index_head_dim == 128, "\"index_head_dim\" 128", fmt::to_string(c.index_head_dim));
  check_ratios(c, label);
  if (has_dspark(c)) check_dspark(c, label);
  require(c.n_shared_experts == 1, "\"n_shared_experts\" 1", fmt::to_string(c.n_shared_experts));
  // A scale covers kWeightBlock inputs, so every matrix has a multiple of them.
  require_multiple(c.hidden_size, kWeightBlock, "\"hidden_size\"");
  require_multiple(c.q_lora_rank, kWeightBlock, "\"q_lora_rank\"");
  require_multiple(c.moe_intermediate_size, kWeightBlock, "\"moe_intermediate_size\"");
  require(c.num_attention_heads % c.o_groups == 0, "\"num_attention_heads\" to be a multiple of \"o_groups\"",
          fmt::format("{} heads in {} groups", c.num_attention_heads, c.o_groups));
  require_multiple(c.group_dim(), kWeightBlock, "heads per group x \"head_dim\"");
  require_multiple(c.o_lora_rank, kWeightBlock, "\"o_lora_rank\"");
  require(c.qk_rope_head_dim < c.head_dim, "\"qk_rope_head_dim\" below \"head_dim\"",
          fmt::format("{} of {}", c.qk_rope_head_dim, c.head_dim));
  // Vectors of 16 values pass over the rotated part and over the rest of a head without tails.
  require_multiple(c.qk_rope_head_dim, 32, "\"qk_rope_head_dim\"");
  require_multiple(c.head_dim, 64, "\"head_dim\"");
  require_multiple(c.nope_dim(), 64, "\"head_dim\" - \"qk_rope_head_dim\" (cache rows have a scale per 64)");
  require(c.qk_rope_head_dim <= c.index_head_dim, "\"qk_rope_head_dim\" within \"index_head_dim\"",
          fmt::format("{} of {}", c.qk_rope_head_dim, c.index_head_dim));
  require(c.num_experts_per_tok <= c.n_routed_experts, "\"num_experts_per_tok\" within \"n_routed_experts\"",
          fmt::format("{} of {}", c.num_experts_per_tok, c.n_routed_experts));
  require(c.num_hash_layers <= c.num_hidden_layers, "\"num_hash_layers\" within \"num_hidden_layers\"",
          fmt::format("{} of {}", c.num_hash_layers, c.num_hidden_layers));
  require(c.n_routed_experts % c.n_group == 0, "\"n_routed_experts\" to be a multiple of \"n_group\"",
          fmt::format("{} experts in {} groups", c.n_routed_experts, c.n_group));
  require(c.topk_group <= c.n_group, "\"topk_group\" within \"n_group\"",
          fmt::format("{} of {}", c.topk_group, c.n_group));
  require(c.num_experts_per_tok <= c.n_routed_experts / c.n_group * c.topk_group,
          "\"num_experts_per_tok\" within the experts of \"topk_group\" groups",
          fmt::format("{} of {}", c.num_experts_per_tok, c.n_routed_experts / c.n_group * c.topk_group));
  require(c.bos_token_id < c.vocab_size && c.eos_token_id < c.vocab_size,
          "\"bos_token_id\" and \"eos_token_id\" within \"vocab_size\"",
          fmt::format("{} and {} of {}", c.bos_token_id, c.eos_token_id, c.vocab_size));
}

ModelConfig without_drafts(ModelConfig config) {
  config.num_nextn_predict_layers = 0;
  config.draft_kind = DraftKind::kMtp;
  config.dspark = {};
  return config;
}

ModelConfig parse_config(std::string_view text, std::string_view label,
                         const std::optional<DraftBlocks>& drafts) {
  const Result<Json> parsed = parse_ordered_json(text);
  if (!parsed) fail("{}: not a JSON object: {}; is the file complete?", label, parsed.error());
  const Json& object = parsed.value();
  if (!object.is_object()) fail("{}: not a JSON object; is the file complete?", label);
  FieldReader reader(object, label);
  if (const auto refused = unsupported_release(object)) fail("{}: {}", label, *refused);
  reader.find("model_type", Presence::kRequired);
  reader.expect("model_type", "deepseek_v4");
  ModelConfig config;
  visit_fields(config, reader);
  if (drafts && drafts->count > 0) {
    config.num_nextn_predict_layers = drafts->count;
    config.draft_kind = drafts->kind;
    if (drafts->kind == DraftKind::kDspark) visit_dspark(config, reader);
  } else if (drafts || object.contains(kDsparkField)) {
    config = without_drafts(std::move(config));
  }
  reader.expect("num_key_value_heads", 1);
  reader.expect("topk_method", "noaux_tc");
  reader.expect("hidden_act", "silu");
  reader.expect("attention_bias", false);
  reader.expect("tie_word_embeddings", false);
  const Json* quantization = reader.find("quantization_config", Presence::kOptional);
  config.dense_format = quantization == nullptr ? WeightFormat::kBF16 : WeightFormat::kFp8;
  if (quantization != nullptr) {
    if (!quantization->is_object()) fail("{}: \"quantization_config\": expected an object", label);
    FieldReader inner(*quantization, label);
    const Json* method = inner.find("quant_method", Presence::kOptional);
    if (method == nullptr || *method != kCompressedTensors) {
      inner.expect("quant_method", "fp8");
      inner.expect("fmt", "e4m3");
      inner.expect("weight_block_size", {kWeightBlock, kWeightBlock});
    }
    const Json* algorithm = inner.find(kExpertAlgorithm, Presence::kOptional);
    if (algorithm != nullptr && *algorithm == kNvfp4Algorithm && config.expert_format == WeightFormat::kFp4)
      config.expert_format = WeightFormat::kNvfp4;
  }
  validate(config, label);
  return config;
}

std::vector<std::string> config_field_names() {
  std::vector<std::string> names{kDenseDtype};
  ModelConfig config;
  visit_fields(config, [&names](const char* name, const auto&...) { names.emplace_back(name); });
  return names;
}

void set_config_fields(ModelConfig& config, const nlohmann::ordered_json& fields,
                       const std::function<std::string(std::string_view)>& where) {
  const std::vector<std::string> known = config_field_names();
  for (const auto& [name, value] : fields.items()) {
    if (std::ranges::find(known, name) == known.end())
      fail("{}: no such field{}", where(name), did_you_mean(name, known));
  }
  FieldReader reader(fields, "", where, false);
  visit_fields(config, reader);
  reader(kDenseDtype, config.dense_format, kDenseFormatNames, Presence::kOptional);
}

std::string config_text(const ModelConfig& config) {
  Json object = {{"architectures", {"DeepseekV4ForCausalLM"}}, {"model_type", "deepseek_v4"}};
  visit_fields(config, FieldWriter(object));
  if (has_dspark(config)) visit_dspark(config, FieldWriter(object));
  object["topk_method"] = "noaux_tc";
  object["num_key_value_heads"] = 1;
  object["hidden_act"] = "silu";
  object["attention_bias"] = false;
  object["attention_dropout"] = 0.0;
  object["tie_word_embeddings"] = false;
  object["initializer_range"] = 0.02;
  object["torch_dtype"] = "bfloat16";
  object["use_cache"] = true;
  if (config.dense_format == WeightFormat::kFp8) {
    object["quantization_config"] = {{"activation_scheme", "dynamic"},
                                     {"fmt", "e4m3"},
                                     {"quant_method", "fp8"},
                                     {"scale_fmt", "ue8m0"},
                                     {"weight_block_size", {kWeightBlock, kWeightBlock}}};
  }
  write_expert_format(object, config.expert_format);
  return object.dump(2) + "\n";
}

void write_expert_format(nlohmann::ordered_json& object, WeightFormat format) {
  const auto quantization = object.find("quantization_config");
  const bool has_quantization = quantization != object.end() && quantization->is_object();
  object["expert_dtype"] = weight_format_name(format);
  if (!has_quantization) return;
  quantization->erase(kExpertAlgorithm);
  if (format != WeightFormat::kNvfp4) return;
  object["expert_dtype"] = weight_format_name(WeightFormat::kFp4);
  (*quantization)[kExpertAlgorithm] = kNvfp4Algorithm;
}

}  // namespace baleen
