#include "model/config.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/json.h"
#include "base/nearest_name.h"
#include "model/config_fields.h"
#include "model/config_reader.h"
#include "model/model_family.h"
#include "model/v41_config.h"
#include "numeric/block_scale.h"

namespace baleen {

using namespace config_json;

namespace {

/// config.json says it by having a "quantization_config" or none.
constexpr const char* kDenseDtype = "dense_dtype";
constexpr std::array<std::pair<WeightFormat, std::string_view>, 2> kDenseFormatNames{
    {{WeightFormat::kBF16, "bf16"}, {WeightFormat::kFp8, "fp8"}}};

void check_ratios(const ModelConfig& config, std::string_view label) {
  const auto num_ratios = static_cast<std::int64_t>(config.compress_ratios.size());
  if (num_ratios < config.num_blocks()) {
    fail("{}: \"compress_ratios\" has {} entries, {} layers and {} blocks of the draft head need {}", label,
         num_ratios, config.num_hidden_layers, config.num_draft_blocks(), config.num_blocks());
  }
  // Shared streams have rules of their own.
  for (std::int64_t block = 0; block < num_ratios && !config.streams; ++block) {
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

bool ModelConfig::lags_mixing() const { return !family->has_head_mixing; }

int ModelConfig::activation_group() const { return family->activation_group; }

WeightFormat ModelConfig::fp8_format() const { return family->fp8_format; }

std::optional<std::size_t> ModelConfig::engram_table(std::int64_t block) const {
  if (!engram) return std::nullopt;
  const auto found = std::ranges::find(engram->layer_ids, block);
  if (found == engram->layer_ids.end()) return std::nullopt;
  return static_cast<std::size_t>(found - engram->layer_ids.begin());
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
  if (c.streams) {
    check_selected_experts(c, label);
    check_shared_streams(c, label);
  }
  if (c.engram) check_engram(c, label);
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

namespace {

Json parse_object(std::string_view text, std::string_view label) {
  Result<Json> parsed = parse_ordered_json(text);
  if (!parsed) fail("{}: not a JSON object: {}; is the file complete?", label, parsed.error());
  if (!parsed.value().is_object()) fail("{}: not a JSON object; is the file complete?", label);
  return std::move(parsed.value());
}

bool is_v41(const Json& object) {
  const auto type = object.find("model_type");
  return type != object.end() && type->is_string() &&
         type->get_ref<const std::string&>().starts_with(kV41ModelType);
}

ModelConfig read_v4_config(const Json& object, std::string_view label,
                           const std::optional<DraftBlocks>& drafts) {
  FieldReader reader(object, label);
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
  if (quantization != nullptr) read_quantization(*quantization, label, config);
  return config;
}

}  // namespace

bool is_v41_config(std::string_view text) {
  const Result<Json> parsed = parse_ordered_json(text);
  return parsed && parsed.value().is_object() && is_v41(parsed.value());
}

ModelConfig parse_config(std::string_view text, std::string_view label,
                         const std::optional<DraftBlocks>& drafts) {
  const Json object = parse_object(text, label);
  ModelConfig config =
      is_v41(object) ? read_v41_config(object, label, drafts) : read_v4_config(object, label, drafts);
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
  if (config.streams) return v41_config_object(config).dump(2) + "\n";
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

const nlohmann::ordered_json& text_fields(const nlohmann::ordered_json& object) {
  const auto text = object.find(kTextConfig);
  return is_v41(object) && text != object.end() && text->is_object() ? *text : object;
}

nlohmann::ordered_json& text_fields(nlohmann::ordered_json& object) {
  return const_cast<Json&>(text_fields(std::as_const(object)));
}

void write_expert_format(nlohmann::ordered_json& object, WeightFormat format) {
  constexpr const char* kQuantization = "quantization_config";
  const bool has_quantization = object.contains(kQuantization) && object[kQuantization].is_object();
  const bool is_nvfp4 = has_quantization && format == WeightFormat::kNvfp4;
  const bool is_within = has_quantization && is_v41(object);
  if (is_within) object.erase(kExpertDtype);
  (is_within ? object[kQuantization] : object)[kExpertDtype] =
      weight_format_name(is_nvfp4 ? WeightFormat::kFp4 : format);
  if (!has_quantization) return;
  object[kQuantization].erase(kExpertAlgorithm);
  if (is_nvfp4) object[kQuantization][kExpertAlgorithm] = kNvfp4Algorithm;
}

}  // namespace baleen
