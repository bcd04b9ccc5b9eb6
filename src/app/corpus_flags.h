/// The options of commands that read a corpus.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app/options.h"
#include "app/prompt_profile_flag.h"
#include "training_data/corpus.h"
#include "training_data/training_text.h"

namespace baleen {

struct CorpusFlags {
  std::vector<std::string> files;
  std::string format = "auto";
  RecordRules rules;
  std::string thinking_mode = "chat";
  PromptProfileFlag prompts;

  /// FILES, --format, --field, --thinking-mode, --prompt-profile.
  void add_to(Options& command);
  [[nodiscard]] std::optional<CorpusFormat> corpus_format() const;
  /// `folder`: whose encoder `--prompt-profile auto` means.
  [[nodiscard]] RecordRules record_rules(const std::filesystem::path& folder) const;
};

[[nodiscard]] std::vector<std::filesystem::path> paths_of(const std::vector<std::string>& names);

}  // namespace baleen
