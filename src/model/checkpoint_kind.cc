#include "model/checkpoint_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/number.h"
#include "base/quoted_text.h"
#include "base/size_text.h"
#include "model/config_contradictions.h"
#include "model/model_family.h"
#include "model/published_release.h"

namespace baleen {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kMtp = "mtp.";
constexpr std::string_view kTakeReleased = "take the checkpoint as DeepSeek publishes it";

bool contains(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

/// N and the rest of "mtp.N.rest"; nothing for another name.
struct DraftName {
  std::int64_t block = 0;
  std::string_view rest;
};

std::optional<DraftName> draft_name(std::string_view name) {
  if (!name.starts_with(kMtp)) return std::nullopt;
  name.remove_prefix(kMtp.size());
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const auto block = read_whole(name.substr(0, dot), {0, 1 << 20});
  if (!block) return std::nullopt;
  return DraftName{block.value(), name.substr(dot + 1)};
}

enum class Part : std::uint8_t { kUsed, kDraftHead, kVocabularyCopy, kVision, kInputScale };

Part part_of(std::string_view name, std::int64_t num_draft_blocks) {
  if (is_vision_tensor(name)) return Part::kVision;  // also of a draft head's routers
  if (const auto draft = draft_name(name)) {
    if (draft->block >= num_draft_blocks) return Part::kDraftHead;
    // The official converter drops them too: a block shares the main embedding and head.
    if (draft->rest.starts_with("emb") || draft->rest == "head.weight") return Part::kVocabularyCopy;
  }
  if (name.ends_with(".input_scale") && contains(name, ".ffn.experts.")) return Part::kInputScale;
  return Part::kUsed;
}

std::string_view part_text(Part part) {
  switch (part) {
    case Part::kUsed:
      break;
    case Part::kDraftHead:
      return "of the draft head ";
    case Part::kVocabularyCopy:
      return "the MTP block's copies of embedding and head (mtp.*.emb, mtp.*.head)";
    case Part::kVision:
      return "vision (vision.*, aligner.*, image_*, gate.bias_vl)";
    case Part::kInputScale:
      return "scales for activations in FP4 (*.input_scale), which here are FP8";
  }
  return "";
}

/// What one pass over the names finds: of each kind the first name, empty if there is none.
struct NameScan {
  std::string engram, hc_head, released, prefixed, transformers, vision;
  std::string expert_stem, dense_stem, draft_expert_stem, draft_dense_stem;
  std::map<std::int64_t, std::string> mtp_blocks, dspark_stages, draft_blocks;  ///< a name of each block
};

void note(std::string& first, std::string_view name) {
  if (first.empty()) first = name;
}

void scan_draft(NameScan& scan, const DraftName& draft, std::string_view name) {
  scan.draft_blocks.try_emplace(draft.block, name);
  for (const std::string_view part : {"enorm.", "hnorm.", "e_proj.", "h_proj."})
    if (draft.rest.starts_with(part)) scan.mtp_blocks.try_emplace(draft.block, name);
  for (const std::string_view part : {"main_proj.", "main_norm.", "markov_head.", "confidence_head."})
    if (draft.rest.starts_with(part)) scan.dspark_stages.try_emplace(draft.block, name);
}

void scan_name(NameScan& scan, std::string_view name) {
  // Nearly all names are those of experts in the released layout, of which one is as telling as all.
  if (!scan.expert_stem.empty() && !scan.released.empty() && name.starts_with("layers.") &&
      contains(name, ".ffn.experts."))
    return;
  if (is_vision_tensor(name)) return note(scan.vision, name);
  if (contains(name, ".engram.")) note(scan.engram, name);
  if (name == "hc_head_fn") note(scan.hc_head, name);
  const auto draft = draft_name(name);
  if (draft) scan_draft(scan, *draft, name);
  if (contains(name, ".self_attn.") || contains(name, ".mlp.") || contains(name, "embed_tokens")) {
    if (!draft) note(scan.transformers, name);
  } else if (contains(name, ".attn.") || contains(name, ".ffn.")) {
    note(name.starts_with("model.") ? scan.prefixed : scan.released, name);
  }
  const auto stem = matrix_stem(name);
  if (!stem) return;
  const bool expert =
      (contains(name, ".experts.") || contains(name, ".switch_mlp.")) && !contains(name, ".shared_experts.");
  if (expert) note(draft ? scan.draft_expert_stem : scan.expert_stem, *stem);
  if (stem->ends_with(".attn.wq_a") || stem->ends_with(".self_attn.q_a_proj"))
    note(draft ? scan.draft_dense_stem : scan.dense_stem, *stem);
}

std::string tensor_text(std::string_view name) { return fmt::format("tensor {}", quoted_text(name, 120)); }

Finding<Release> release_of(const Json& config, const NameScan& scan) {
  const auto type = config.find("model_type");
  if (type != config.end() && type->is_string()) {
    const auto& name = type->get_ref<const std::string&>();
    const std::string evidence = fmt::format("config.json, \"model_type\": {}", quoted_text(name));
    if (name.starts_with("deepseek_v41")) return {Release::kV41, evidence};
    return {name == "deepseek_v4" ? Release::kV4 : Release::kUnknown, evidence};
  }
  if (!scan.engram.empty() && scan.hc_head.empty())
    return {Release::kV41, tensor_text(scan.engram) + ", and no \"hc_head_fn\""};
  if (!scan.hc_head.empty()) return {Release::kV4, tensor_text(scan.hc_head)};
  return {Release::kUnknown, "neither \"model_type\" nor tensors say"};
}

Finding<TensorNames> names_of(const NameScan& scan) {
  if (!scan.transformers.empty()) return {TensorNames::kTransformers, tensor_text(scan.transformers)};
  if (!scan.prefixed.empty()) return {TensorNames::kPrefixed, tensor_text(scan.prefixed)};
  if (!scan.released.empty()) return {TensorNames::kReleased, tensor_text(scan.released)};
  return {TensorNames::kUnknown, "no tensor of a layer"};
}

Finding<DraftKind> draft_head_of(const NameScan& scan) {
  if (scan.draft_blocks.empty()) return {DraftKind::kNone, "no tensor \"mtp.*\""};
  if (!scan.dspark_stages.empty() && !scan.mtp_blocks.empty()) {
    return {DraftKind::kUnknown, fmt::format("{} beside {}", tensor_text(scan.dspark_stages.begin()->second),
                                             tensor_text(scan.mtp_blocks.begin()->second))};
  }
  if (!scan.dspark_stages.empty())
    return {DraftKind::kDspark, tensor_text(scan.dspark_stages.begin()->second)};
  if (!scan.mtp_blocks.empty()) return {DraftKind::kMtp, tensor_text(scan.mtp_blocks.begin()->second)};
  return {DraftKind::kUnknown, tensor_text(scan.draft_blocks.begin()->second)};
}

/// "mtp.0 to mtp.2"
std::string blocks_text(const NameScan& scan) {
  const std::int64_t first = scan.draft_blocks.begin()->first, last = scan.draft_blocks.rbegin()->first;
  return first == last ? fmt::format("mtp.{}", first) : fmt::format("mtp.{} to mtp.{}", first, last);
}

std::vector<LeftOut> left_out_of(const Checkpoint& checkpoint, const CheckpointKind& kind,
                                 const std::string& draft_text) {
  std::map<Part, LeftOut> parts;
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    const Part part = part_of(tensor.name, kind.num_usable_draft_blocks);
    if (part == Part::kUsed) continue;
    ++parts[part].num_tensors;
    parts[part].bytes += tensor.size_bytes();
  }
  std::vector<LeftOut> left_out;
  for (auto& [part, group] : parts) {
    group.is_draft_head = part == Part::kDraftHead;
    group.is_vision = part == Part::kVision;
    group.what = part_text(part);
    if (part == Part::kDraftHead) group.what += draft_text;
    left_out.push_back(std::move(group));
  }
  if (const auto count = std::ssize(checkpoint.unlisted()); count > 0)
    left_out.push_back({.what = "in shards where the index does not list them", .num_tensors = count});
  return left_out;
}

enum class Matrices : std::uint8_t { kRoutedExperts, kDense };

std::string_view matrices_name(Matrices what) {
  return what == Matrices::kRoutedExperts ? "routed experts" : "dense matrices";
}

/// What FP8 matrices are in a release's files.
WeightFormat fp8_format(Release release) {
  return (release == Release::kV41 ? kDeepSeekV41 : kDeepSeekV4).fp8_format;
}

/// `fp8`: what FP8 matrices are.
std::string why_no_format(Matrices what, const MatrixKind& kind, WeightFormat fp8) {
  const bool experts = what == Matrices::kRoutedExperts;
  const auto sentence = [&](const std::string& found) {
    return fmt::format("{} are {} ({}); expected {}: {}", matrices_name(what), found, kind.evidence,
                       experts ? "MXFP4, NVFP4 as ModelOpt writes it, int4 of compressed-tensors, FP8 or BF16"
                               : "FP8 or BF16",
                       kTakeReleased);
  };
  const auto format = kind.weight_format();
  if (kind.format == MatrixFormat::kAbsent) return "";  // the table names what is missing
  // One that is not as int4_checkpoint.h reads it is refused there, whichever matrix it is.
  if (kind.format == MatrixFormat::kPackedInt4) return "";
  if (!format) {
    return sentence(
        fmt::format("{}{}", matrix_format_name(kind.format),
                    kind.format == MatrixFormat::kUnknown ? "" : ", which baleen does not read yet"));
  }
  if (format == WeightFormat::kNvfp4)
    return experts ? "" : sentence("NVFP4, which baleen reads of routed experts alone");
  if (!kind.scale) return "";
  if (kind.scale_name != "scale")
    return sentence(fmt::format("{} with scales named \"{}\", not \"scale\"", kind.text(), kind.scale_name));
  if (kind.format != MatrixFormat::kFp8) return "";
  const bool may_be_f32 = fp8 == WeightFormat::kFp8;
  if (kind.scale != DType::kF8E8M0 && (kind.scale != DType::kF32 || !may_be_f32))
    return sentence(fmt::format("{}; scales may be E8M0{}", kind.text(), may_be_f32 ? " or F32" : ""));
  const std::int64_t block = format_layout(fp8).scale_rows;
  const bool known_block =
      kind.block[0] > 0 && kind.block[1] > 0;  // others are shapes that the table refuses
  if (known_block && kind.block != std::array{block, block})
    return sentence(fmt::format("{}; blocks have {} x {}", kind.text(), block, block));
  return "";
}

/// Matrices of a draft head that are in a format which is not read. What is missing of a block is the table's
/// question.
std::optional<std::string> unread_draft_format(const CheckpointKind& kind) {
  for (const auto& [what, matrices] :
       {std::pair(Matrices::kRoutedExperts, &kind.draft_experts), {Matrices::kDense, &kind.draft_dense}})
    if (!why_no_format(what, *matrices, fp8_format(kind.release.value)).empty())
      return fmt::format("{} {}, which is not read", matrices_name(what), matrices->text());
  return std::nullopt;
}

/// A name and what it is beside: tensors of one checkpoint that cannot be together.
std::string why_not_together(const NameScan& scan, const CheckpointKind& kind) {
  if (kind.release.value == Release::kV4 && !scan.engram.empty()) {
    return fmt::format("{} is DeepSeek-V4.1's, and the checkpoint says that it is V4 ({}): {}",
                       tensor_text(scan.engram), kind.release.evidence, kTakeReleased);
  }
  if (kind.draft_head.value != DraftKind::kUnknown) return "";
  const std::string expected =
      "MTP's (as \"mtp.0.enorm.weight\") or DSpark's (as \"mtp.0.main_proj.weight\")";
  if (!scan.dspark_stages.empty()) {
    return fmt::format("tensors of two draft heads, {}; expected {}, not both: {}", kind.draft_head.evidence,
                       expected, kTakeReleased);
  }
  return fmt::format("tensors of a draft head that is not known here, as {}; expected {}: {}",
                     kind.draft_head.evidence, expected, kTakeReleased);
}

std::string why_not_runnable(const NameScan& scan, const CheckpointKind& kind) {
  if (kind.release.value == Release::kUnknown) return "";  // config.json's reader says what it expected
  for (const auto& [what, matrices] :
       {std::pair(Matrices::kRoutedExperts, &kind.experts), {Matrices::kDense, &kind.dense}})
    if (std::string why = why_no_format(what, *matrices, fp8_format(kind.release.value)); !why.empty())
      return why;
  const bool foreign =
      kind.names.value == TensorNames::kPrefixed || kind.names.value == TensorNames::kTransformers;
  if (!foreign) return why_not_together(scan, kind);
  return fmt::format("tensors have {} ({}); expected DeepSeek's own, as \"layers.0.attn.wq_a.weight\": {}",
                     tensor_names_name(kind.names.value), kind.names.evidence, kTakeReleased);
}

}  // namespace

std::string_view release_name(Release release) {
  if (release == Release::kV4) return "DeepSeek-V4";
  return release == Release::kV41 ? "DeepSeek-V4.1" : "unknown";
}

bool is_computed(DraftKind kind) { return kind == DraftKind::kMtp || kind == DraftKind::kDspark; }

std::string_view draft_head_name(DraftKind head) {
  switch (head) {
    case DraftKind::kNone:
      return "none";
    case DraftKind::kMtp:
      return "MTP";
    case DraftKind::kDspark:
      return "DSpark";
    case DraftKind::kUnknown:
      break;
  }
  return "unknown";
}

std::string_view tensor_names_name(TensorNames names) {
  switch (names) {
    case TensorNames::kReleased:
      return "DeepSeek's names";
    case TensorNames::kPrefixed:
      return "DeepSeek's names behind \"model.\"";
    case TensorNames::kTransformers:
      return "the module names of Hugging Face transformers";
    case TensorNames::kGguf:
      return "GGUF's names";
    case TensorNames::kUnknown:
      break;
  }
  return "unknown names";
}

CheckpointKind detect_kind(const Checkpoint& checkpoint, std::string_view config_text) {
  NameScan scan;
  for (const TensorInfo& tensor : checkpoint.tensors()) scan_name(scan, tensor.name);
  const Result<Json> parsed = parse_ordered_json(config_text);
  const Json config = parsed && parsed.value().is_object() ? parsed.value() : Json::object();
  CheckpointKind kind;
  kind.release = release_of(config, scan);
  kind.names = names_of(scan);
  kind.draft_head = draft_head_of(scan);
  kind.vision = {!scan.vision.empty(), scan.vision.empty() ? "no such tensor" : tensor_text(scan.vision)};
  kind.experts = matrix_kind(checkpoint, scan.expert_stem);
  kind.dense = matrix_kind(checkpoint, scan.dense_stem);
  kind.draft_experts = matrix_kind(checkpoint, scan.draft_expert_stem);
  kind.draft_dense = matrix_kind(checkpoint, scan.draft_dense_stem);
  kind.prompts = find_prompt_profile(checkpoint.folder(), kind.release.value == Release::kV41);
  std::string draft_text;
  if (!scan.draft_blocks.empty()) {
    kind.draft_blocks = {std::ssize(scan.draft_blocks), blocks_text(scan)};
    const auto unread = unread_draft_format(kind);
    const bool is_contiguous = scan.draft_blocks.rbegin()->first + 1 == kind.draft_blocks.value;
    if (is_computed(kind.draft_head.value) && is_contiguous && !unread)
      kind.num_usable_draft_blocks = kind.draft_blocks.value;
    draft_text = fmt::format("{}, {}{}", draft_head_name(kind.draft_head.value), blocks_text(scan),
                             unread ? " (" + *unread + ")" : "");
  }
  kind.left_out = left_out_of(checkpoint, kind, draft_text);
  kind.contradictions = config_contradictions(config, kind);
  kind.published = published_release(config, kind);
  kind.why_not = why_not_runnable(scan, kind);
  kind.converts = kind.why_not.empty();
  return kind;
}

std::string left_out_text(const std::vector<LeftOut>& parts) {
  std::string text;
  for (const LeftOut& part : parts) {
    text += fmt::format("{}{}, {} tensor{}", text.empty() ? "" : "; ", part.what, grouped(part.num_tensors),
                        part.num_tensors == 1 ? "" : "s");
    if (part.bytes > 0) text += fmt::format(", {}", size_text(part.bytes));
  }
  return text;
}

bool is_vision_tensor(std::string_view name) {
  return name.starts_with("vision.") || name.starts_with("aligner.") || name.starts_with("image_") ||
         name.ends_with("ffn.gate.bias_vl");
}

bool is_draft_tensor(std::string_view name) { return draft_name(name).has_value(); }

bool is_left_out(std::string_view name, std::int64_t num_draft_blocks) {
  return part_of(name, num_draft_blocks) != Part::kUsed;
}

}  // namespace baleen
