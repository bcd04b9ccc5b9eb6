/// By which rules prompts are made for a checkpoint. Neither config.json nor the tokenizer says so of V4:
/// V4-Flash-DSpark and V4-Flash-0731 share both and differ in the encoder that lies beside them, a Python
/// file. It is read as text and never run. V4.1 is named by config.json; its encoder says which numbers its
/// efforts are. (source: releases specification 1.5, 3)
#pragma once

#include <filesystem>
#include <span>
#include <string_view>

#include "chat/prompt_profile.h"
#include "model/finding.h"

namespace baleen {

/// Where releases have their encoder: "encoding/encoding_dsv4.py" (V4), "encoding/encoding.py" (V4.1).
[[nodiscard]] std::span<const std::filesystem::path> encoder_paths();

struct FoundPromptProfile {
  Finding<PromptProfile> profile{PromptProfile::kPreview, {}};
  bool is_assumed =
      false;  ///< there is no encoder, or none that is known: preview, or the numbers of V4.1-Flash
};

/// The key of GGUF files with the chat template.
inline constexpr std::string_view kGgufTemplateKey = "tokenizer.chat_template";

/// By config.json where it is V4.1's, and the encoder in `folder`; where there is none, by its
/// chat_template.jinja, which has the efforts' texts of its release. Of a GGUF model (`find_gguf`) by its own
/// template. `is_v41`: something else says so.
[[nodiscard]] FoundPromptProfile find_prompt_profile(const std::filesystem::path& folder,
                                                     bool is_v41 = false);

/// What a user's choice makes of it: the numbers that were found stay where the format is the same.
[[nodiscard]] FoundPromptProfile imposed_profile(const PromptProfile& chosen,
                                                 const FoundPromptProfile& found);

}  // namespace baleen
