/// The fields of config.json that V4 and V4.1 have in common, their limits, and how fields of a JSON object
/// are read and written: for the files that read such configs.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/config.h"

namespace baleen::config_json {

using Json = nlohmann::ordered_json;

inline constexpr std::array<std::pair<ScoringFunc, std::string_view>, 3> kScoringFuncNames{
    {{ScoringFunc::kSqrtSoftplus, "sqrtsoftplus"},
     {ScoringFunc::kSigmoid, "sigmoid"},
     {ScoringFunc::kSoftmax, "softmax"}}};
inline constexpr std::array<std::pair<WeightFormat, std::string_view>, 4> kWeightFormatNames{
    {{WeightFormat::kBF16, "bf16"},
     {WeightFormat::kFp8, "fp8"},
     {WeightFormat::kFp4, "fp4"},
     {WeightFormat::kNvfp4, "nvfp4"}}};

inline constexpr const char* kExpertDtype = "expert_dtype";
/// ModelOpt's, in "quantization_config", which says of FP4 experts which they are.
inline constexpr const char* kExpertAlgorithm = "moe_quant_algo";
inline constexpr std::string_view kNvfp4Algorithm = "NVFP4";
/// Of int4 experts: its "quantization_config" lists targets and says nothing of the dense matrices' FP8.
inline constexpr const char* kCompressedTensors = "compressed-tensors";
/// The text model's fields of a V4.1.
inline constexpr const char* kTextConfig = "text_config";
/// Of a config whose checkpoint has a DSpark head.
inline constexpr const char* kDsparkField = "dspark_block_size";

enum class Presence : bool { kRequired, kOptional };

/// Inclusive limits of a number: far beyond any model, near enough that products of a few of them fit in 64
/// bits.
template <class T>
struct Range {
  T min;
  T max;
};

inline constexpr Range<std::int64_t> kWidth{1, 1 << 20};
inline constexpr Range<std::int64_t> kCount{1, 1 << 14};
inline constexpr Range<std::int64_t> kCountOrNone{0, 1 << 14};
inline constexpr Range<std::int64_t> kPositions{1, std::int64_t{1} << 31};
inline constexpr Range<std::int64_t> kTokenIds{1, 1 << 24};
inline constexpr Range<double> kEpsilon{1e-30, 1.0};
inline constexpr Range<double> kPositive{1e-6, 1e12};

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
  field(kExpertDtype, c.expert_format, kWeightFormatNames, Presence::kOptional);
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

[[nodiscard]] inline bool is_compressed_tensors(const Json& quantization) {
  const auto method = quantization.find("quant_method");
  return method != quantization.end() && *method == kCompressedTensors;
}

/// "quantization_config" of either family: what FP8 is has to be what `config`'s family has.
inline void read_quantization(const Json& quantization, std::string_view label, ModelConfig& config) {
  if (!quantization.is_object()) fail("{}: \"quantization_config\": expected an object", label);
  FieldReader reader(quantization, label);
  if (!is_compressed_tensors(quantization)) {
    const WeightFormat fp8 = config.fp8_format();
    const int block = format_layout(fp8).scale_rows;
    reader.expect("quant_method", "fp8");
    reader.expect("fmt", "e4m3");
    if (fp8 == WeightFormat::kFp8x32) {
      reader.expect("scale_fmt", "ue8m0");  // others may have F32 scales
      reader.expect("activation_scheme", "dynamic");
    }
    reader.expect("weight_block_size", {block, block});
  }
  const Json* algorithm = reader.find(kExpertAlgorithm, Presence::kOptional);
  if (algorithm != nullptr && *algorithm == kNvfp4Algorithm && config.expert_format == WeightFormat::kFp4)
    config.expert_format = WeightFormat::kNvfp4;
}

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

}  // namespace baleen::config_json
