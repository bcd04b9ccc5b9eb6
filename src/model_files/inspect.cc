#include "model_files/inspect.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "base/error.h"
#include "base/number.h"
#include "base/size_text.h"
#include "model/cache_geometry.h"
#include "model/model_folder.h"
#include "tokenizer/compressed_vocabulary.h"

namespace baleen {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<LayerKind, 5> kLayerKinds{LayerKind::kSlidingWindow, LayerKind::kCsa, LayerKind::kHca,
                                               LayerKind::kReindexed, LayerKind::kReused};

/// Layers that share keys are named where there are some.
bool is_shown(const ModelConfig& config, LayerKind kind) {
  return kind <= LayerKind::kHca || config.num_layers_of(kind) > 0;
}

std::string format_text(const TensorInfo& tensor, const CheckpointKind& kind) {
  const auto are_experts = [&](MatrixFormat format) {
    return kind.experts.format == format || kind.draft_experts.format == format;
  };
  switch (tensor.dtype) {
    case DType::kI8:
      if (!are_experts(MatrixFormat::kMxfp4)) break;
      return "FP4 (packed in I8)";
    case DType::kU8:
      if (!are_experts(MatrixFormat::kNvfp4)) break;
      return "FP4 (packed in U8)";
    case DType::kF8E4M3:
      return tensor.name.ends_with("_scale") ? "E4M3 scales" : "FP8 E4M3";
    case DType::kF8E8M0:
      return "E8M0 scales";
    default:
      break;
  }
  return std::string(dtype_name(tensor.dtype));
}

/// One finding for people and for JSON.
struct FindingLine {
  const char* key;
  const char* name;
  std::string value;
  std::string evidence;
};

std::vector<FindingLine> findings_of(const CheckpointKind& kind) {
  const std::int64_t num_blocks = kind.draft_blocks.value;
  std::string head(draft_head_name(kind.draft_head.value)), head_evidence = kind.draft_head.evidence;
  if (num_blocks > 0) {
    head +=
        fmt::format(", {} {}{}", num_blocks, kind.draft_head.value == DraftKind::kDspark ? "stage" : "block",
                    num_blocks == 1 ? "" : "s");
    head_evidence += fmt::format("; {}", kind.draft_blocks.evidence);
  }
  std::vector<FindingLine> lines{
      {"release", "release", std::string(release_name(kind.release.value)), kind.release.evidence},
      {"published", "  published as", kind.published.value, kind.published.evidence},
      {"names", "names", std::string(tensor_names_name(kind.names.value)), kind.names.evidence},
      {"draft_head", "draft head", std::move(head), std::move(head_evidence)},
      {"routed_experts", "routed experts", kind.experts.text(), kind.experts.evidence},
      {"dense_matrices", "dense matrices", kind.dense.text(), kind.dense.evidence}};
  if (kind.draft_experts.format != MatrixFormat::kAbsent)
    lines.push_back(
        {"draft_experts", "draft head's experts", kind.draft_experts.text(), kind.draft_experts.evidence});
  if (kind.draft_dense.format != MatrixFormat::kAbsent)
    lines.push_back(
        {"draft_dense", "  and dense matrices", kind.draft_dense.text(), kind.draft_dense.evidence});
  lines.push_back({"vision", "vision", kind.vision.value ? "yes" : "no", kind.vision.evidence});
  lines.push_back({"prompt_profile", "prompt profile",
                   std::string(prompt_profile_name(kind.prompts.profile.value)),
                   kind.prompts.profile.evidence});
  std::erase_if(lines, [](const FindingLine& line) { return line.value.empty(); });
  return lines;
}

Json kind_json(const CheckpointKind& kind) {
  Json object = Json::object();
  for (const FindingLine& line : findings_of(kind))
    object[line.key] = {{"is", line.value}, {"evidence", line.evidence}};
  object["draft_blocks"] = kind.draft_blocks.value;
  object["usable_draft_blocks"] = kind.num_usable_draft_blocks;
  object["contradictions"] = kind.contradictions;
  object["left_out"] = Json::array();
  for (const LeftOut& part : kind.left_out)
    object["left_out"].push_back({{"what", part.what}, {"tensors", part.num_tensors}, {"bytes", part.bytes}});
  object["why_not_runnable"] = kind.why_not.empty() ? Json() : Json(kind.why_not);
  return object;
}

std::string line_text(std::string_view name, std::string_view value) {
  return fmt::format("{:<22}{}\n", name, value);
}

std::string bytes_text(const CheckpointReport& report) {
  std::string text = "bytes by number format\n";
  for (const auto& [format, total] : report.by_format) {
    text += line_text(fmt::format("  {}", format),
                      fmt::format("{:>19} in {} tensors", grouped(total.bytes), grouped(total.num_tensors)));
  }
  return text;
}

std::string parts_text(const CheckpointReport& report) {
  std::string text = "parts\n";
  for (const PartTotal& part : report.parts) {
    const std::string parameters =
        part.parameters > 0 ? fmt::format(", {} parameters", grouped(part.parameters)) : "";
    text += line_text(
        fmt::format("  {}", part.part),
        fmt::format("{:>19} in {} tensors{}", grouped(part.bytes), grouped(part.num_tensors), parameters));
  }
  return text;
}

std::string engram_text(const CheckpointReport& report) {
  const EngramReport& engram = report.engram;
  std::string text =
      line_text("  of Engram tables",
                fmt::format("{}, in {} before layers {}", grouped(report.parameters.engram_tables),
                            engram.num_tables, fmt::join(report.config.engram->layer_ids, ", ")));
  text += line_text("  read per token",
                    fmt::format("{} rows of {} values, {} bytes", engram.rows_per_token,
                                report.config.engram->head_dim, grouped(engram.bytes_per_token)));
  text += line_text("  n-grams are of", engram.vocabulary.empty()
                                            ? "compressed ids; there is no tokenizer.json to derive them from"
                                            : engram.vocabulary + ", derived from tokenizer.json");
  return text;
}

}  // namespace

ParameterCount count_parameters(const ModelConfig& config) {
  ParameterCount count;
  std::int64_t routed = 0;
  for (const TensorSpec& tensor : tensor_table(config)) {
    if (tensor.storage == Storage::kI64) continue;
    (config.is_draft_block(tensor.block) ? count.drafts : count.total) += tensor.num_elements();
    if (tensor.role == TensorRole::kEngramTable) count.engram_tables += tensor.num_elements();
    if (tensor.role == TensorRole::kRoutedExpert && !config.is_draft_block(tensor.block))
      routed += tensor.num_elements();
  }
  count.per_token = count.total - routed + routed / config.n_routed_experts * config.num_experts_per_tok;
  if (config.engram) {
    const EngramConfig& engram = *config.engram;
    count.per_token -= count.engram_tables;
    count.per_token += std::ssize(engram.layer_ids) * engram.num_hashes() * engram.head_dim;
  }
  return count;
}

namespace {

constexpr std::string_view kLeftUnread = "left unread";

std::string_view part_of(const TensorSpec& tensor) {
  return tensor.of_draft_head ? "draft head" : tensor_role_name(tensor.role);
}

/// In the order of a forward pass, then what is left unread.
std::vector<PartTotal> parts_of(const CheckpointReport& report) {
  std::vector<PartTotal> parts;
  const auto part_named = [&](std::string_view name) -> PartTotal& {
    const auto found = std::ranges::find(parts, name, &PartTotal::part);
    return found != parts.end() ? *found : parts.emplace_back(PartTotal{.part = std::string(name)});
  };
  for (const TensorSpec& tensor : tensor_table(report.config)) {
    PartTotal& part = part_named(part_of(tensor));
    if (tensor.storage != Storage::kI64) part.parameters += tensor.num_elements();
    for (const TensorHeader& stored : stored_tensors(tensor, report.formats)) {
      ++part.num_tensors;
      part.bytes += stored.size_bytes();
    }
  }
  for (const LeftOut& left_out : report.kind.left_out) {
    PartTotal& part = part_named(kLeftUnread);
    part.num_tensors += left_out.num_tensors;
    part.bytes += left_out.bytes;
  }
  return parts;
}

std::vector<TensorLine> tensor_lines(const CheckpointReport& report, const Checkpoint& checkpoint) {
  std::unordered_map<std::string, std::string_view> parts;
  for (const TensorSpec& spec : tensor_table(report.config))
    for (const TensorHeader& stored : stored_tensors(spec, report.formats))
      parts.emplace(stored.name, part_of(spec));
  std::vector<TensorLine> lines;
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    const auto part = parts.find(tensor.name);
    const bool is_unread = is_left_out(tensor.name, report.config.num_draft_blocks());
    lines.push_back({tensor.name, tensor.type_text(),
                     part != parts.end() ? part->second
                     : is_unread         ? kLeftUnread
                                         : "not known"});
  }
  return lines;
}

EngramReport engram_report(CheckpointReport& report) {
  EngramReport engram;
  if (!report.config.engram) return engram;
  const EngramConfig& config = *report.config.engram;
  std::int64_t num_rows = 0, row_bytes = 0;
  for (const TensorSpec& tensor : tensor_table(report.config)) {
    if (tensor.role != TensorRole::kEngramTable) continue;
    ++engram.num_tables;
    num_rows = tensor.shape[0];
    std::int64_t bytes = 0;
    for (const TensorHeader& stored : stored_tensors(tensor, report.formats)) bytes += stored.size_bytes();
    engram.bytes += bytes;
    row_bytes = bytes / num_rows;
  }
  engram.rows_per_token = engram.num_tables * config.num_hashes();
  engram.bytes_per_token = engram.rows_per_token * row_bytes;
  const std::filesystem::path tokenizer = report.folder / "tokenizer.json";
  if (!std::filesystem::exists(tokenizer)) return engram;
  const CompressedVocabulary vocabulary = compress_vocabulary(Tokenizer::load(report.folder));
  engram.vocabulary =
      fmt::format("{} of {} tokens", grouped(vocabulary.size), grouped(std::ssize(vocabulary.of_token)));
  if (auto why_not = why_not_vocabulary(vocabulary, config.compressed_vocab_size); !why_not.empty())
    report.mismatches.push_back(fmt::format("{}: {}", tokenizer.string(), why_not));
  return engram;
}

/// The config of what the files hold; nothing, and the sentence, of a V4.1 that has what is not known.
std::optional<ModelConfig> described_config(const ModelFiles& files, CheckpointReport& report) {
  const std::optional<DraftBlocks> drafts = stored_drafts(report.kind);
  if (!is_v41_config(files.config_text)) {
    if (!report.kind.why_not.empty()) return std::nullopt;
    return parse_config(files.config_text, files.config_label, drafts);
  }
  try {
    return parse_config(files.config_text, files.config_label, drafts);
  } catch (const Error& error) {
    report.why_not_described = error.what();
    return std::nullopt;
  }
}

}  // namespace

CheckpointReport inspect_checkpoint(const std::filesystem::path& folder) {
  CheckpointReport report;
  report.folder = folder;
  ModelFiles files = read_model_files(folder);
  const Checkpoint& checkpoint = files.checkpoint;
  report.kind = std::move(files.kind);
  report.num_files = static_cast<std::int64_t>(checkpoint.num_files());
  const auto add = [&report](const std::string& format, std::int64_t bytes) {
    FormatTotal& total = report.by_format[format];
    ++total.num_tensors;
    total.bytes += bytes;
    ++report.num_tensors;
    report.total_bytes += bytes;
  };
  for (const ForeignFiles::Stored& tensor : checkpoint.stored()) add(tensor.format, tensor.bytes);
  if (!checkpoint.is_foreign()) {
    for (const TensorInfo& tensor : checkpoint.tensors())
      add(format_text(tensor, report.kind), tensor.size_bytes());
  }
  auto config = described_config(files, report);
  if (!config) return report;
  report.is_described = true;
  report.config = std::move(*config);
  report.formats = detect_formats(report.config, checkpoint);
  report.parameters = count_parameters(report.config);
  report.parts = parts_of(report);
  report.tensors = tensor_lines(report, checkpoint);
  report.kv = cache_geometry(report.config, Precision::kReleased);
  report.mismatches = mismatches(report.config, checkpoint);
  report.engram = engram_report(report);
  for (const std::string& name : checkpoint.unlisted()) {
    report.mismatches.push_back(
        fmt::format("tensor \"{}\" lies in a shard where the index does not list it", name));
  }
  return report;
}

std::string tensors_text(const CheckpointReport& report) {
  std::string text;
  for (const TensorLine& tensor : report.tensors)
    text += fmt::format("{}  {}  {}\n", tensor.name, tensor.type, tensor.part);
  return text;
}

std::string report_text(const CheckpointReport& report, std::size_t max_mismatches) {
  const ModelConfig& c = report.config;
  std::string text;
  const auto line = [&](std::string_view name, const std::string& value) { text += line_text(name, value); };
  line("checkpoint", fmt::format("{} ({} files, {} tensors, {})", report.folder.string(), report.num_files,
                                 grouped(report.num_tensors), size_text(report.total_bytes)));
  for (const FindingLine& finding : findings_of(report.kind))
    line(finding.name, fmt::format("{}; {}", finding.value, finding.evidence));
  if (!report.kind.left_out.empty() && report.is_described)
    line("left unread", left_out_text(report.kind.left_out));
  for (const std::string& sentence : report.kind.contradictions) line("contradiction", sentence);
  if (!report.is_described) {
    text += bytes_text(report);
    if (!report.why_not_described.empty()) line("not known", report.why_not_described);
    if (!report.kind.why_not.empty()) line("cannot be run", report.kind.why_not);
    return text;
  }
  line("layers", fmt::format("{}, of which {} hash routed; {} of the draft head", c.num_hidden_layers,
                             c.num_hash_layers, c.num_draft_blocks()));
  for (const LayerKind kind : kLayerKinds) {
    if (is_shown(c, kind))
      line(fmt::format("  {}", layer_kind_name(kind)), fmt::to_string(c.num_layers_of(kind)));
  }
  line("width", fmt::format("{}, {} heads x {}, {} rotary", c.hidden_size, c.num_attention_heads, c.head_dim,
                            c.qk_rope_head_dim));
  line("experts", fmt::format("{} routed, {} a token, {} shared, inner width {}", c.n_routed_experts,
                              c.num_experts_per_tok, c.n_shared_experts, c.moe_intermediate_size));
  if (c.dspark.n_routed_experts > 0)
    line("  of the draft head",
         fmt::format("{} routed, {} a token", c.dspark.n_routed_experts, c.dspark.num_experts_per_tok));
  line("vocabulary, context",
       fmt::format("{}, {}", grouped(c.vocab_size), grouped(c.max_position_embeddings)));
  line("parameters", grouped(report.parameters.total));
  line("  used per token", grouped(report.parameters.per_token));
  line("  draft head, beside", grouped(report.parameters.drafts));
  if (c.engram) text += engram_text(report);
  text += parts_text(report);
  text += bytes_text(report);
  line("KV bytes", fmt::format("{:.2f} a token at long context ({} a vector, {} an indexer key)",
                               report.kv.bytes_per_token(), report.kv.entry_row_bytes(),
                               report.kv.index_key.row_bytes()));
  line("  and a sequence", fmt::format("window {} (+ {} draft head), compressor states {}",
                                       size_text(c.num_hidden_layers * report.kv.window_bytes()),
                                       size_text(c.num_draft_blocks() * report.kv.window_bytes()),
                                       size_text(report.kv.state_slot_bytes())));
  if (!report.kind.why_not.empty()) line("cannot be run", report.kind.why_not);
  if (report.mismatches.empty()) {
    line("config and tensors", "fit together");
    return text;
  }
  line("mismatches", grouped(static_cast<std::int64_t>(report.mismatches.size())));
  const std::size_t shown = std::min(max_mismatches, report.mismatches.size());
  for (std::size_t i = 0; i < shown; ++i) text += fmt::format("  {}\n", report.mismatches[i]);
  if (shown < report.mismatches.size()) {
    text += fmt::format("  and {} more; ‹JSON› lists all\n", report.mismatches.size() - shown);
  }
  return text;
}

std::string report_json(const CheckpointReport& report) {
  const ModelConfig& c = report.config;
  Json by_format = Json::object();
  for (const auto& [format, total] : report.by_format)
    by_format[format] = {{"tensors", total.num_tensors}, {"bytes", total.bytes}};
  Json object = {{"folder", report.folder.string()}, {"files", report.num_files},
                 {"tensors", report.num_tensors},    {"bytes", report.total_bytes},
                 {"kind", kind_json(report.kind)},   {"bytes_by_format", by_format}};
  const auto text = [&] { return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; };
  if (!report.why_not_described.empty()) object["why_not_described"] = report.why_not_described;
  if (!report.is_described) return text();
  Json layers = {{"total", c.num_hidden_layers}};
  for (const LayerKind kind : kLayerKinds)
    if (is_shown(c, kind)) layers[std::string(layer_kind_name(kind))] = c.num_layers_of(kind);
  Json parts = Json::object();
  for (const PartTotal& part : report.parts)
    parts[part.part] = {
        {"tensors", part.num_tensors}, {"parameters", part.parameters}, {"bytes", part.bytes}};
  object["parts"] = std::move(parts);
  if (c.engram) {
    object["engram"] = {{"tables", report.engram.num_tables},
                        {"parameters", report.parameters.engram_tables},
                        {"bytes", report.engram.bytes},
                        {"rows_per_token", report.engram.rows_per_token},
                        {"bytes_per_token", report.engram.bytes_per_token}};
  }
  layers["hash_routed"] = c.num_hash_layers;
  layers["draft_head"] = c.num_draft_blocks();
  object.update(Json{
      {"layers", layers},
      {"expert_format", weight_format_name(report.formats.experts)},
      {"dense_format", weight_format_name(report.formats.dense)},
      {"parameters",
       {{"total", report.parameters.total},
        {"per_token", report.parameters.per_token},
        {"draft_head", report.parameters.drafts}}},
      {"kv",
       {{"bytes_per_token", report.kv.bytes_per_token()},
        {"latent_row_bytes", report.kv.entry_row_bytes()},
        {"window_row_bytes", report.kv.window_row_bytes()},
        {"indexer_row_bytes", report.kv.index_key.row_bytes()},
        {"page_tokens", std::int64_t{kPageTokens}},
        {"page_bytes", report.kv.page_bytes()},
        {"window_bytes_per_sequence", c.num_hidden_layers * report.kv.window_bytes()},
        {"draft_window_bytes_per_sequence", c.num_draft_blocks() * report.kv.window_bytes()},
        {"state_bytes_per_sequence", report.kv.state_slot_bytes()}}},
      {"mismatches", report.mismatches},
  });
  return text();
}

}  // namespace baleen
