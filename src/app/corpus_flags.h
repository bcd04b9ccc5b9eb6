/// The options of commands that read a corpus.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app/options.h"
#include "training_data/corpus.h"
#include "training_data/training_text.h"

namespace baleen {

struct CorpusFlags {
  std::vector<std::string> files;
  std::string format = "auto";
  RecordRules rules;
  std::string thinking_mode = "chat";

  /// FILES, --format, --field, --thinking-mode.
  void add_to(Options& command);
  [[nodiscard]] std::optional<CorpusFormat> corpus_format() const;
  [[nodiscard]] RecordRules record_rules() const;
};

[[nodiscard]] std::vector<std::filesystem::path> paths_of(const std::vector<std::string>& names);

}  // namespace baleen
