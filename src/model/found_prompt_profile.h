/// By which rules prompts are made for a checkpoint. Neither config.json nor the tokenizer says so:
/// V4-Flash-DSpark and V4-Flash-0731 share both and differ in the encoder that lies beside them, a Python
/// file. It is read as text and never run. (source: releases specification 1.5, 3)
#pragma once

#include <filesystem>
#include <string_view>

#include "chat/prompt_profile.h"
#include "model/finding.h"

namespace baleen {

/// Where releases have their encoder: "encoding/encoding_dsv4.py".
[[nodiscard]] std::filesystem::path encoder_path();

struct FoundPromptProfile {
  Finding<PromptProfile> profile;
  bool is_assumed = false;  ///< there is no encoder, or none that is known: preview
};

/// The key of GGUF files with the chat template.
inline constexpr std::string_view kGgufTemplateKey = "tokenizer.chat_template";

/// By the encoder in `folder`; where there is none, by its chat_template.jinja, which has the efforts' texts
/// of its release. Of a GGUF model (`find_gguf`) by its own template.
[[nodiscard]] FoundPromptProfile find_prompt_profile(const std::filesystem::path& folder);

}  // namespace baleen
