#include "model/model_folder.h"

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/folder_check.h"
#include "checkpoint/gguf/gguf_model.h"
#include "model/gguf_checkpoint.h"
#include "model/int4_checkpoint.h"

namespace baleen {
namespace {

constexpr const char* kConfigName = "config.json";
constexpr std::size_t kMaxConfigBytes = 1 << 24;

}  // namespace

std::string config_text_of(const std::filesystem::path& folder) {
  if (const auto gguf = find_gguf(folder)) return open_gguf(*gguf).config_text;
  check_checkpoint_folder(folder);
  return read_text_file(folder / kConfigName, kMaxConfigBytes);
}

bool has_weights(const std::filesystem::path& path) {
  std::error_code ignored;
  return (std::filesystem::is_directory(path, ignored) && has_tensor_files(path)) ||
         find_gguf(path).has_value();
}

ModelFiles read_model_files(const std::filesystem::path& path) {
  if (const auto gguf = find_gguf(path)) {
    GgufCheckpoint opened = open_gguf(*gguf);
    return {std::move(opened.config_text), gguf->string(), std::move(opened.checkpoint),
            std::move(opened.kind)};
  }
  std::string text = config_text_of(path);
  std::string label = (path / kConfigName).string();
  // Of a folder without tensors the config's own faults come first.
  if (!has_tensor_files(path)) static_cast<void>(parse_config(text, label));
  Checkpoint checkpoint(path);
  CheckpointKind kind = detect_kind(checkpoint, text);
  return {std::move(text), std::move(label), with_int4_presented(std::move(checkpoint)), std::move(kind)};
}

DraftBlocks stored_drafts(const CheckpointKind& kind) {
  const auto is_read = [](const MatrixKind& matrices) {
    return matrices.format == MatrixFormat::kAbsent || matrices.weight_format().has_value();
  };
  if (!is_read(kind.draft_experts) || !is_read(kind.draft_dense)) return {};
  return {kind.draft_head.value, kind.draft_blocks.value};
}

ModelFolder open_model_folder(const std::filesystem::path& folder, std::optional<PromptProfile> profile) {
  ModelFiles files = read_model_files(folder);
  CheckpointKind& kind = files.kind;
  if (!kind.why_not.empty()) fail("{}: {}", folder.string(), kind.why_not);
  if (profile) kind.prompts = imposed_profile(*profile, kind.prompts);
  ModelConfig stored = parse_config(files.config_text, files.config_label, stored_drafts(kind));
  ModelConfig config = kind.num_usable_draft_blocks > 0 ? stored : without_drafts(stored);
  return {std::move(config), std::move(stored), std::move(kind), std::move(files.checkpoint)};
}

ModelConfig load_config(const std::filesystem::path& folder) {
  if (has_weights(folder)) return open_model_folder(folder).config;
  const std::string text = config_text_of(folder);
  // What is planned for weights that are there is said of no others.
  if (const auto sentence = other_weights_sentence(folder)) fail("{}", *sentence);
  return parse_config(text, (folder / kConfigName).string());
}

}  // namespace baleen
