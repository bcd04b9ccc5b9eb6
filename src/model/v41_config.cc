#include "model/v41_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "base/error.h"
#include "base/quoted_text.h"
#include "model/config_fields.h"
#include "model/config_reader.h"
#include "model/engram_tables.h"
#include "model/model_family.h"

namespace baleen {

using namespace config_json;

namespace {

constexpr const char* kArchitecture = "DeepseekV41ForCausalLM";
constexpr const char* kTextModelType = "deepseek_v41_text";

/// Known fields that say nothing of the text model's computation, or nothing that can be otherwise
/// (`expect`).
constexpr std::array<std::string_view, 16> kBesides{"model_type",          "dtype",
                                                    "torch_dtype",         "transformers_version",
                                                    "initializer_range",   "use_cache",
                                                    "attention_dropout",   "attention_bias",
                                                    "hidden_act",          "num_key_value_heads",
                                                    "tie_word_embeddings", "topk_method",
                                                    "bos_token_id",        "eos_token_id",
                                                    "pad_token_id",        "num_nextn_predict_layers"};
constexpr std::array<std::string_view, 13> kAtRoot{
    "architectures",       "model_type",   "dtype",        "torch_dtype",    "transformers_version",
    "bos_token_id",        "eos_token_id", "pad_token_id", "image_token_id", kExpertDtype,
    "quantization_config", kTextConfig,    "vision_config"};

/// There are no hash layers, and formats and tokens are said beside the text model.
bool is_beside_text(std::string_view field) {
  return field == "num_hash_layers" || field == kExpertDtype || field == "bos_token_id" ||
         field == "eos_token_id";
}

/// Reads each field where V4.1 has it, and notes which those are.
class V41Reader {
 public:
  V41Reader(FieldReader root, FieldReader text) : root_(std::move(root)), text_(std::move(text)) {}

  template <class... Rest>
  void operator()(const char* name, Rest&&... rest) {
    const std::string_view field = name;
    if (field == "bos_token_id" || field == "eos_token_id") return root_(name, std::forward<Rest>(rest)...);
    if (is_beside_text(field)) return;
    read_.insert(field);
    text_(name, std::forward<Rest>(rest)...);
  }
  [[nodiscard]] bool has_read(std::string_view name) const { return read_.contains(name); }

 private:
  FieldReader root_, text_;
  std::set<std::string_view> read_;
};

template <class Config, class Visitor>
void visit_streams(Config& streams, Visitor&& field) {
  field("kv_source_layer_ids", streams.kv_source_layer_ids);
  field("index_source_layer_ids", streams.index_source_layer_ids);
  field("candidate_source_layer_id", streams.candidate_source_layer_id, kCountOrNone);
  field("candidate_topk_blocks", streams.candidate_topk_blocks, kWidth);
  field("candidate_block_size", streams.candidate_block_size, kWidth);
}

template <class Config, class Visitor>
void visit_engram(Config& engram, Visitor&& field) {
  field("engram_layer_ids", engram.layer_ids);
  field("engram_num_embeddings", engram.num_embeddings);
  field("engram_max_ngram_size", engram.max_ngram_size, Range<std::int64_t>{2, 16});
  field("engram_vocab_size", engram.vocab_size, Range<std::int64_t>{2, std::int64_t{1} << 31});
  field("engram_n_heads", engram.n_heads, Range<std::int64_t>{1, 64});
  field("engram_head_dim", engram.head_dim, kWidth);
  field("engram_pad_token_id", engram.pad_token_id, Range<std::int64_t>{0, kTokenIds.max});
  field("engram_compressed_vocab_size", engram.compressed_vocab_size, kTokenIds);
}

template <class Config, class Visitor>
void visit_draft_experts(Config& dspark, Visitor&& field) {
  field("dspark_n_routed_experts", dspark.n_routed_experts, kCount);
  field("dspark_num_experts_per_tok", dspark.num_experts_per_tok, kCount);
}

constexpr std::array<std::string_view, 6> kOfRope{
    "type", "rope_type", "factor", "original_max_position_embeddings", "beta_fast", "beta_slow"};
constexpr std::array<std::string_view, 7> kOfQuantization{"quant_method",  "activation_scheme", "fmt",
                                                          "scale_fmt",     "weight_block_size", kExpertDtype,
                                                          kExpertAlgorithm};

template <class IsKnown>
void refuse_unknown(const Json& object, std::string_view label, std::string_view within,
                    const IsKnown& is_known) {
  for (const auto& [name, value] : object.items()) {
    if (is_known(name)) continue;
    fail("{}: {}{} is not known of DeepSeek-V4.1-Flash, and what it changes would be a guess", label, within,
         quoted_text(name));
  }
}

constexpr auto one_of = [](const auto& names) {
  return [&names](std::string_view name) { return std::ranges::find(names, name) != names.end(); };
};

/// The object `field` of `within` has no other fields than these.
template <class Names>
void refuse_unknown_in(const Json& within, const char* field, std::string_view label, const Names& names) {
  const auto found = within.find(field);
  if (found == within.end() || !found->is_object()) return;
  refuse_unknown(*found, label, fmt::format("of \"{}\" ", field), one_of(names));
}

/// What would say that it is another family's, whatever its fields are.
void check_names(FieldReader root, FieldReader text) {
  root.expect("model_type", kV41ModelType);
  root.expect("architectures", Json::array({kArchitecture}));
  text.expect("model_type", kTextModelType);
}

bool names_dspark(const Json& text) {
  for (const auto& field : text.items())
    if (field.key().starts_with("dspark_")) return true;
  return false;
}

/// Ascending layers of the model.
void check_layers(const ModelConfig& config, std::string_view label, const char* name,
                  const std::vector<std::int64_t>& layers) {
  const bool ascend = std::ranges::adjacent_find(layers, std::greater_equal<>()) == layers.end();
  if (!layers.empty() && ascend && layers.front() >= 0 && layers.back() < config.num_hidden_layers) return;
  fail("{}: \"{}\": expected ascending layers from 0 to {}, found [{}]", label, name,
       config.num_hidden_layers - 1, fmt::join(layers, ", "));
}

}  // namespace

ModelConfig read_v41_config(const Json& object, std::string_view label,
                            const std::optional<DraftBlocks>& drafts) {
  const auto text = object.find(kTextConfig);
  if (text == object.end() || !text->is_object())
    fail("{}: \"{}\": expected an object, as DeepSeek-V4.1 has it", label, kTextConfig);
  const auto within = [label](std::string_view name) {
    return fmt::format("{}: \"{}.{}\"", label, kTextConfig, name);
  };
  FieldReader root(object, label), inner(*text, label, within);
  V41Reader reader(root, inner);
  check_names(root, inner);
  ModelConfig config;
  config.family = &kDeepSeekV41;
  visit_fields(config, reader);
  config.num_hash_layers = 0;
  visit_streams(config.streams.emplace(), reader);
  visit_engram(config.engram.emplace(), reader);
  root("image_token_id", config.engram->image_token_id, Range<std::int64_t>{0, kTokenIds.max},
       Presence::kOptional);
  // A model that was written without its draft head names nothing of one.
  const bool has_dspark = drafts && drafts->kind == DraftKind::kDspark;
  if (has_dspark || names_dspark(*text)) {
    visit_dspark(config, reader);
    visit_draft_experts(config.dspark, reader);
  }
  inner.expect("num_key_value_heads", 1);
  inner.expect("topk_method", "noaux_tc");
  inner.expect("hidden_act", "silu");
  inner.expect("attention_bias", false);
  inner.expect("tie_word_embeddings", false);
  refuse_unknown(*text, label, fmt::format("of \"{}\" ", kTextConfig), [&](std::string_view name) {
    return reader.has_read(name) || std::ranges::find(kBesides, name) != kBesides.end();
  });
  refuse_unknown_in(*text, "rope_scaling", label, kOfRope);
  refuse_unknown(object, label, "", one_of(kAtRoot));
  const Json* quantization = root.find("quantization_config", Presence::kOptional);
  config.dense_format = quantization == nullptr ? WeightFormat::kBF16 : config.fp8_format();
  if (quantization != nullptr && !quantization->is_object())
    fail("{}: \"quantization_config\": expected an object", label);
  const bool says_experts = quantization != nullptr && quantization->contains(kExpertDtype);
  FieldReader(says_experts ? *quantization : object, label)(kExpertDtype, config.expert_format,
                                                            kWeightFormatNames, Presence::kOptional);
  if (quantization != nullptr) {
    read_quantization(*quantization, label, config);
    // Of int4 experts it lists what the tensors say.
    if (!is_compressed_tensors(*quantization))
      refuse_unknown_in(object, "quantization_config", label, kOfQuantization);
  }
  if (config.expert_format == WeightFormat::kFp8) config.expert_format = config.fp8_format();
  if (!has_dspark) return without_drafts(std::move(config));
  config.draft_kind = DraftKind::kDspark;
  config.num_nextn_predict_layers = drafts->count;
  return config;
}

nlohmann::ordered_json v41_config_object(const ModelConfig& config) {
  Json text = {{"model_type", kTextModelType}};
  const auto within_text = [&]<class... Rest>(const char* name, const Rest&... rest) {
    if (is_beside_text(name)) return;
    FieldWriter writer(text);
    writer(name, rest...);
  };
  visit_fields(config, within_text);
  visit_streams(*config.streams, within_text);
  visit_engram(*config.engram, within_text);
  if (config.draft_kind == DraftKind::kDspark) {
    visit_dspark(config, within_text);
    visit_draft_experts(config.dspark, within_text);
  }
  text["num_key_value_heads"] = 1;
  text["topk_method"] = "noaux_tc";
  text["hidden_act"] = "silu";
  text["attention_bias"] = false;
  text["attention_dropout"] = 0.0;
  text["tie_word_embeddings"] = false;
  text["initializer_range"] = 0.02;
  text["use_cache"] = true;
  Json object = {{"architectures", Json::array({kArchitecture})},
                 {"model_type", kV41ModelType},
                 {"dtype", "bfloat16"},
                 {"bos_token_id", config.bos_token_id},
                 {"eos_token_id", config.eos_token_id},
                 {"pad_token_id", config.engram->pad_token_id}};
  if (config.engram->image_token_id >= 0) object["image_token_id"] = config.engram->image_token_id;
  if (is_fp8(config.dense_format)) {
    const int block = format_layout(config.fp8_format()).scale_rows;
    object["quantization_config"] = {{"quant_method", "fp8"},
                                     {"activation_scheme", "dynamic"},
                                     {"scale_fmt", "ue8m0"},
                                     {"weight_block_size", {block, block}}};
  }
  object[kTextConfig] = std::move(text);
  write_expert_format(object, config.expert_format);
  return object;
}

void check_shared_streams(const ModelConfig& config, std::string_view label) {
  const SharedStreams& streams = *config.streams;
  check_layers(config, label, "kv_source_layer_ids", streams.kv_source_layer_ids);
  check_layers(config, label, "index_source_layer_ids", streams.index_source_layer_ids);
  const auto is_in = [](const std::vector<std::int64_t>& layers, std::int64_t layer) {
    return std::ranges::find(layers, layer) != layers.end();
  };
  std::int64_t source = -1;
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::int64_t ratio = config.compress_ratio(layer);
    const auto refuse = [&](std::string_view what) {
      fail("{}: \"compress_ratios\", entry {}: {}", label, layer, what);
    };
    if (ratio < 0 || ratio > 2) refuse(fmt::format("expected 0, 1 or 2, found {}", ratio));
    const bool makes = is_in(streams.kv_source_layer_ids, layer);
    const bool selects = is_in(streams.index_source_layer_ids, layer);
    if (makes) source = layer;
    if (ratio == 0 && (makes || selects))
      refuse("0, of a layer that \"kv_source_layer_ids\" or \"index_source_layer_ids\" name");
    if (makes && !selects)
      refuse("the layer makes entries, which \"index_source_layer_ids\" has to name too");
    if (ratio == 0) continue;
    if (source < 0) refuse(fmt::format("{}, before the first of \"kv_source_layer_ids\"", ratio));
    if (config.compress_ratio(source) != ratio)
      refuse(fmt::format("{}, and the entries that the layer reads, of layer {}, have {}", ratio, source,
                         config.compress_ratio(source)));
  }
  const std::int64_t candidates = streams.candidate_source_layer_id;
  if (!is_in(streams.index_source_layer_ids, candidates) || candidates < streams.kv_source_layer_ids.back()) {
    fail(
        "{}: \"candidate_source_layer_id\": expected one of \"index_source_layer_ids\" that is not before "
        "the "
        "last of \"kv_source_layer_ids\", whose entries the candidates are, found {}",
        label, candidates);
  }
}

void check_selected_experts(const ModelConfig& config, std::string_view label) {
  const auto check = [label](const char* name, std::int64_t count) {
    if (count > 1) return;
    fail(
        "{}: \"{}\": expected at least 2, found {}: a single expert's weight is not divided by itself, which "
        "is not computed here",
        label, name, count);
  };
  check("num_experts_per_tok", config.num_experts_per_tok);
  if (config.num_draft_blocks() > 0) check("dspark_num_experts_per_tok", config.dspark.num_experts_per_tok);
}

void check_engram(const ModelConfig& config, std::string_view label) {
  const EngramConfig& engram = *config.engram;
  check_layers(config, label, "engram_layer_ids", engram.layer_ids);
  if (engram.num_embeddings.size() != engram.layer_ids.size()) {
    fail("{}: \"engram_num_embeddings\": expected a number for each of the {} layers, found {}", label,
         engram.layer_ids.size(), engram.num_embeddings.size());
  }
  if (engram.pad_token_id >= config.vocab_size || engram.compressed_vocab_size > config.vocab_size) {
    fail(
        "{}: \"engram_pad_token_id\" {} and \"engram_compressed_vocab_size\" {}: expected numbers within "
        "\"vocab_size\" {}",
        label, engram.pad_token_id, engram.compressed_vocab_size, config.vocab_size);
  }
  const std::vector<EngramTable> tables = engram_tables(engram);
  for (std::size_t i = 0; i < tables.size(); ++i) {
    if (tables[i].num_rows() == engram.num_embeddings[i]) continue;
    fail(
        "{}: \"engram_num_embeddings\", entry {}: expected {}, the sum of the {} primes that follow from "
        "\"engram_vocab_size\" {}, found {}",
        label, i, tables[i].num_rows(), engram.num_hashes(), engram.vocab_size, engram.num_embeddings[i]);
  }
}

}  // namespace baleen
