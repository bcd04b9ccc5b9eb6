/// A model's folder, opened: what it is, its config and its tensors. The one door to a checkpoint on disk.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "model/checkpoint_kind.h"
#include "model/config.h"

namespace baleen {

/// A model's files as they are: config.json, or what stands for it, tensors, and what they are.
struct ModelFiles {
  std::string config_text;
  std::string config_label;  ///< what sentences call it
  Checkpoint checkpoint;
  CheckpointKind kind;
};

/// Of a folder, or of a GGUF model (`find_gguf`). Reads config.json, headers and the encoder, no weights.
/// Throws `Error` with a sentence for what is neither, or is damaged.
[[nodiscard]] ModelFiles read_model_files(const std::filesystem::path& path);

/// Whether there are weights at `path`: a folder of safetensors, or a GGUF model.
[[nodiscard]] bool has_weights(const std::filesystem::path& path);

struct ModelFolder {
  /// Of what runs: it has as many draft blocks as the engine can draft with, whatever config.json says.
  ModelConfig config;
  /// Of what the files hold: also the draft head that is left unread.
  ModelConfig stored;
  CheckpointKind kind;
  Checkpoint checkpoint;
};

/// Reads config.json, headers and the encoder, no weights. Throws `Error` with a sentence for what is no
/// checkpoint folder, is damaged, or is of a kind that cannot be run (`CheckpointKind::why_not`). Whether
/// tensors fit the config is not asked here (`check_tensors` of `stored`). `profile` is what prompts are made
/// by, whatever the encoder says. Cost: 0.3 s of one core for Pro.
[[nodiscard]] ModelFolder open_model_folder(const std::filesystem::path& folder,
                                            std::optional<PromptProfile> profile = {});

/// What the table has of a checkpoint's draft head: nothing where its matrices are in formats not read here.
[[nodiscard]] DraftBlocks stored_drafts(const CheckpointKind& kind);

/// `folder`/config.json as text, or what stands for it in a GGUF model. Throws `Error` as
/// `check_checkpoint_folder` does.
[[nodiscard]] std::string config_text_of(const std::filesystem::path& folder);

/// The config of `open_model_folder`, or of config.json alone where the folder has no weights.
[[nodiscard]] ModelConfig load_config(const std::filesystem::path& folder);

}  // namespace baleen
