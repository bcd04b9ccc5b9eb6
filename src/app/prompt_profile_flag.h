/// By which release's rules prompts are made, for every command that makes some.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "app/options.h"
#include "chat/prompt_profile.h"

namespace baleen {

struct PromptProfileFlag {
  std::string name = "auto";

  /// `automatic`: what auto means.
  void add_to(Options& command, const std::string& automatic);
  /// Nothing for auto.
  [[nodiscard]] std::optional<PromptProfile> chosen() const { return prompt_profile_of(name); }
  /// For auto, and where it is the same, what the encoder in `folder` shows.
  [[nodiscard]] PromptProfile of(const std::filesystem::path& folder) const;
};

}  // namespace baleen
