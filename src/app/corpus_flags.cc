#include "app/corpus_flags.h"

namespace baleen {

void CorpusFlags::add_to(Options& command) {
  command.texts("files", files, "Text, JSON lines, or either compressed with zstd; pipes too").required();
  command.choice("--format", format, {"auto", "text", "jsonl"},
                 "What the files are; auto: .jsonl, .ndjson and .json (also with .zst) are JSON lines");
  command.text("--field", rules.field, "Member of a JSON line that is its text, unless it has \"messages\"");
  command.choice("--thinking-mode", thinking_mode, {"chat", "thinking"},
                 "Mode of conversations (\"messages\") that have no \"thinking_mode\"");
  prompts.add_to(command, "those of the encoder beside the tokenizer, preview without one");
}

std::optional<CorpusFormat> CorpusFlags::corpus_format() const {
  if (format == "auto") return std::nullopt;
  return format == "text" ? CorpusFormat::kText : CorpusFormat::kJsonLines;
}

RecordRules CorpusFlags::record_rules(const std::filesystem::path& folder) const {
  RecordRules result = rules;
  result.thinking_mode = thinking_mode == "chat" ? ThinkingMode::kChat : ThinkingMode::kThinking;
  result.prompt_profile = prompts.of(folder);
  return result;
}

std::vector<std::filesystem::path> paths_of(const std::vector<std::string>& names) {
  return {names.begin(), names.end()};
}

}  // namespace baleen
