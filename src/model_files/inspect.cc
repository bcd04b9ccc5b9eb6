#include "model_files/inspect.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/number.h"
#include "base/size_text.h"
#include "model/forward.h"

namespace baleen {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<LayerKind, 3> kLayerKinds{LayerKind::kSlidingWindow, LayerKind::kCsa, LayerKind::kHca};

std::string format_text(DType dtype) {
  switch (dtype) {
    case DType::kI8:
      return "FP4 (packed in I8)";
    case DType::kF8E4M3:
      return "FP8 E4M3";
    case DType::kF8E8M0:
      return "E8M0 scales";
    default:
      return std::string(dtype_name(dtype));
  }
}

}  // namespace

ParameterCount count_parameters(const ModelConfig& config) {
  ParameterCount count;
  std::int64_t routed = 0;
  for (const TensorSpec& tensor : tensor_table(config)) {
    if (tensor.storage == Storage::kI64) continue;
    (config.is_mtp(tensor.block) ? count.mtp : count.total) += tensor.num_elements();
    if (tensor.role == TensorRole::kRoutedExpert && !config.is_mtp(tensor.block))
      routed += tensor.num_elements();
  }
  count.per_token = count.total - routed + routed / config.n_routed_experts * config.num_experts_per_tok;
  return count;
}

CheckpointReport inspect_checkpoint(const std::filesystem::path& folder) {
  CheckpointReport report;
  report.folder = folder;
  report.config = load_config(folder);
  const Checkpoint checkpoint(folder);
  report.formats = detect_formats(report.config, checkpoint);
  report.num_files = static_cast<std::int64_t>(checkpoint.num_files());
  report.num_tensors = static_cast<std::int64_t>(checkpoint.tensors().size());
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    FormatTotal& total = report.by_format[format_text(tensor.dtype)];
    ++total.num_tensors;
    total.bytes += tensor.size_bytes();
    report.total_bytes += tensor.size_bytes();
  }
  report.parameters = count_parameters(report.config);
  report.kv = cache_geometry(report.config, Precision::kReleased);
  report.mismatches = mismatches(report.config, checkpoint);
  for (const std::string& name : checkpoint.unlisted()) {
    report.mismatches.push_back(
        fmt::format("tensor \"{}\" lies in a shard where the index does not list it", name));
  }
  return report;
}

std::string report_text(const CheckpointReport& report, std::size_t max_mismatches) {
  const ModelConfig& c = report.config;
  std::string text;
  const auto line = [&](std::string_view name, const std::string& value) {
    text += fmt::format("{:<22}{}\n", name, value);
  };
  line("checkpoint", fmt::format("{} ({} files, {} tensors, {})", report.folder.string(), report.num_files,
                                 grouped(report.num_tensors), size_text(report.total_bytes)));
  line("layers", fmt::format("{}, of which {} hash routed; {} MTP", c.num_hidden_layers, c.num_hash_layers,
                             c.num_nextn_predict_layers));
  for (const LayerKind kind : kLayerKinds) {
    line(fmt::format("  {}", layer_kind_name(kind)), fmt::to_string(c.num_layers_of(kind)));
  }
  line("width", fmt::format("{}, {} heads x {}, {} rotary", c.hidden_size, c.num_attention_heads, c.head_dim,
                            c.qk_rope_head_dim));
  line("experts", fmt::format("{} routed, {} a token, {} shared, inner width {}", c.n_routed_experts,
                              c.num_experts_per_tok, c.n_shared_experts, c.moe_intermediate_size));
  line("vocabulary, context",
       fmt::format("{}, {}", grouped(c.vocab_size), grouped(c.max_position_embeddings)));
  line("formats", fmt::format("experts {}, dense {}", weight_format_name(report.formats.experts),
                              weight_format_name(report.formats.dense)));
  line("parameters", grouped(report.parameters.total));
  line("  used per token", grouped(report.parameters.per_token));
  line("  MTP, beside those", grouped(report.parameters.mtp));
  text += "bytes by number format\n";
  for (const auto& [format, total] : report.by_format) {
    line(fmt::format("  {}", format),
         fmt::format("{:>19} in {} tensors", grouped(total.bytes), grouped(total.num_tensors)));
  }
  line("KV bytes", fmt::format("{:.2f} a token at long context ({} a vector, {} an indexer key)",
                               report.kv.bytes_per_token(), report.kv.latent.row_bytes(),
                               report.kv.index_key.row_bytes()));
  line("  and a sequence", fmt::format("window {} (+ {} MTP), compressor states {}",
                                       size_text(c.num_hidden_layers * report.kv.window_bytes()),
                                       size_text(c.num_nextn_predict_layers * report.kv.window_bytes()),
                                       size_text(report.kv.state_slot_bytes())));
  if (report.mismatches.empty()) {
    line("config and tensors", "fit together");
    return text;
  }
  line("mismatches", grouped(static_cast<std::int64_t>(report.mismatches.size())));
  const std::size_t shown = std::min(max_mismatches, report.mismatches.size());
  for (std::size_t i = 0; i < shown; ++i) text += fmt::format("  {}\n", report.mismatches[i]);
  if (shown < report.mismatches.size()) {
    text += fmt::format("  and {} more; --json lists all\n", report.mismatches.size() - shown);
  }
  return text;
}

std::string report_json(const CheckpointReport& report) {
  const ModelConfig& c = report.config;
  Json layers = {{"total", c.num_hidden_layers}};
  for (const LayerKind kind : kLayerKinds) layers[std::string(layer_kind_name(kind))] = c.num_layers_of(kind);
  layers["hash_routed"] = c.num_hash_layers;
  layers["mtp"] = c.num_nextn_predict_layers;
  Json by_format = Json::object();
  for (const auto& [format, total] : report.by_format) {
    by_format[format] = {{"tensors", total.num_tensors}, {"bytes", total.bytes}};
  }
  const Json object = {
      {"folder", report.folder.string()},
      {"files", report.num_files},
      {"tensors", report.num_tensors},
      {"bytes", report.total_bytes},
      {"layers", layers},
      {"expert_format", weight_format_name(report.formats.experts)},
      {"dense_format", weight_format_name(report.formats.dense)},
      {"parameters",
       {{"total", report.parameters.total},
        {"per_token", report.parameters.per_token},
        {"mtp", report.parameters.mtp}}},
      {"bytes_by_format", by_format},
      {"kv",
       {{"bytes_per_token", report.kv.bytes_per_token()},
        {"latent_row_bytes", report.kv.latent.row_bytes()},
        {"indexer_row_bytes", report.kv.index_key.row_bytes()},
        {"page_tokens", std::int64_t{kPageTokens}},
        {"page_bytes", report.kv.page_bytes()},
        {"window_bytes_per_sequence", c.num_hidden_layers * report.kv.window_bytes()},
        {"mtp_window_bytes_per_sequence", c.num_nextn_predict_layers * report.kv.window_bytes()},
        {"state_bytes_per_sequence", report.kv.state_slot_bytes()}}},
      {"mismatches", report.mismatches},
  };
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace baleen
