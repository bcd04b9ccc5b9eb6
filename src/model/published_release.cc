#include "model/published_release.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/presets.h"

namespace baleen {
namespace {

using Json = nlohmann::ordered_json;

bool has_sizes_of(const Json& config, const ModelConfig& preset) {
  const auto has = [&](const char* name, std::int64_t value) {
    const auto found = config.find(name);
    return found != config.end() && *found == value;
  };
  return has("hidden_size", preset.hidden_size) && has("num_hidden_layers", preset.num_hidden_layers) &&
         has("n_routed_experts", preset.n_routed_experts) && has("vocab_size", preset.vocab_size);
}

/// What follows "V4-Flash" or "V4-Pro" in a release's name, and what says so.
struct ReleaseName {
  std::string name;
  std::string evidence;
};

ReleaseName variant_of(const CheckpointKind& kind, bool is_pro) {
  const std::string& encoder = kind.prompts.profile.evidence;
  const bool official = kind.prompts.profile.value.format == PromptFormat::kOfficial;
  const std::string dated = is_pro ? "-0813" : "-0731";
  if (kind.vision.value) return {"-Vision-Exp", kind.vision.evidence};
  if (kind.draft_head.value == DraftKind::kDspark) {
    if (kind.prompts.is_assumed)
      return {fmt::format("-DSpark or {}", dated.substr(1)),
              "DSpark; only the encoder tells these apart, " + encoder};
    return {official ? dated : "-DSpark", fmt::format("DSpark; {}", encoder)};
  }
  const bool scales_are_f32 = kind.dense.scale == DType::kF32 && kind.experts.scale == DType::kF32;
  if (kind.draft_head.value == DraftKind::kMtp && kind.experts.format == MatrixFormat::kFp8 && scales_are_f32)
    return {"-Base, or FP8 experts in its form", "F32 scales of FP8 matrices and experts, MTP"};
  if (official) return {dated, encoder};
  return {"", fmt::format("draft head {}", draft_head_name(kind.draft_head.value))};
}

/// Of V4.1 one geometry is published, in September and in October; which differences the October release has,
/// if any, is not known.
Finding<std::string> published_v41(const Json& config, const CheckpointKind& kind) {
  struct Size {
    const char* name;
    std::int64_t value;
  };
  constexpr Size kSizes[] = {
      {"hidden_size", 5120}, {"num_hidden_layers", 40}, {"n_routed_experts", 384}, {"vocab_size", 129280}};
  const auto text = config.find("text_config");
  const auto has = [&](const Size& size) {
    if (text == config.end() || !text->is_object()) return false;
    const auto found = text->find(size.name);
    return found != text->end() && *found == size.value;
  };
  if (!std::ranges::all_of(kSizes, has))
    return {"V4.1 of another geometry than Flash", "config.json's sizes"};
  std::string name = "V4.1-Flash or V4.1-Flash-1017";
  if (kind.experts.format != MatrixFormat::kMxfp4 && kind.experts.format != MatrixFormat::kAbsent)
    name += fmt::format(" with {} experts (a repack)", matrix_format_name(kind.experts.format));
  if (kind.draft_head.value == DraftKind::kNone) name += " without a draft head";
  return {std::move(name),
          "config.json's sizes; nothing in config.json and headers is known to tell these apart"};
}

}  // namespace

Finding<std::string> published_release(const Json& config, const CheckpointKind& kind) {
  if (kind.release.value == Release::kV41) return published_v41(config, kind);
  if (kind.release.value != Release::kV4) return {};
  const bool is_pro = has_sizes_of(config, preset_config("pro"));
  if (!is_pro && !has_sizes_of(config, preset_config("flash")))
    return {"V4 of another geometry than Flash and Pro", "config.json's sizes"};
  const ReleaseName variant = variant_of(kind, is_pro);
  std::string name = fmt::format("V4-{}{}", is_pro ? "Pro" : "Flash", variant.name);
  const bool is_repack = kind.experts.format != MatrixFormat::kMxfp4 && !variant.name.starts_with("-Base");
  if (is_repack && kind.experts.format != MatrixFormat::kAbsent)
    name += fmt::format(" with {} experts (a repack)", matrix_format_name(kind.experts.format));
  if (kind.draft_head.value == DraftKind::kNone) name += " without a draft head";
  return {std::move(name), fmt::format("config.json's sizes; {}", variant.evidence)};
}

}  // namespace baleen
