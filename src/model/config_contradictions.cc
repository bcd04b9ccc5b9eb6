#include "model/config_contradictions.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/quoted_text.h"
#include "model/config_fields.h"
#include "model/config_reader.h"

namespace baleen {
namespace {

using config_json::Json, config_json::kExpertDtype;

const std::string* text_field(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get_ptr<const std::string*>() : nullptr;
}

/// The first field whose name begins so; empty: none.
std::string first_field(const Json& config, std::string_view prefix) {
  for (const auto& [name, value] : config.items())
    if (name.starts_with(prefix)) return name;
  return "";
}

}  // namespace

std::vector<std::string> config_contradictions(const Json& config, const CheckpointKind& kind) {
  std::vector<std::string> sentences;
  const auto differ = [&](const std::string& field, std::string_view what, const MatrixKind& found) {
    sentences.push_back(fmt::format("config.json has {}, the {} are {} ({}); the tensors decide", field, what,
                                    found.text(), found.evidence));
  };
  const auto experts = kind.experts.weight_format(), dense = kind.dense.weight_format();
  const Json& text = text_fields(config);
  const auto quantization = config.find("quantization_config");
  const bool says_fp8 = quantization != config.end() && quantization->is_object();
  const std::string* said = text_field(config, kExpertDtype);
  if (said == nullptr && says_fp8) said = text_field(*quantization, kExpertDtype);
  // Repacks in NVFP4 leave the field as it was, and it is not wrong.
  const bool says_fp4 =
      said != nullptr && experts == WeightFormat::kNvfp4 && *said == weight_format_name(WeightFormat::kFp4);
  if (said != nullptr && experts && *said != weight_format_name(*experts) && !says_fp4)
    differ(fmt::format("\"expert_dtype\": {}", quoted_text(*said)), "routed experts", kind.experts);
  const std::string* method = says_fp8 ? text_field(*quantization, "quant_method") : nullptr;
  const bool is_silent = method != nullptr && *method == "compressed-tensors";  // of the dense matrices
  if (dense && !is_silent && says_fp8 != is_fp8(*dense))
    differ(says_fp8 ? "\"quantization_config\"" : "no \"quantization_config\"", "dense matrices", kind.dense);
  const std::string* algorithm = says_fp8 ? text_field(*quantization, "moe_quant_algo") : nullptr;
  if (algorithm != nullptr && kind.experts.format != MatrixFormat::kAbsent &&
      *algorithm != matrix_format_name(kind.experts.format))
    differ(fmt::format("\"moe_quant_algo\": {}", quoted_text(*algorithm)), "routed experts", kind.experts);
  if (const std::string field = first_field(text, "dspark_");
      !field.empty() && kind.draft_head.value != DraftKind::kDspark) {
    sentences.push_back(fmt::format("config.json has \"{}\", the draft head is {} ({}); the tensors decide",
                                    field, draft_head_name(kind.draft_head.value), kind.draft_head.evidence));
  }
  if (const std::string field = first_field(config, "vision_"); !field.empty() && !kind.vision.value)
    sentences.push_back(
        fmt::format("config.json has \"{}\", and there is no tensor of a vision tower", field));
  return sentences;
}

}  // namespace baleen
