#include "model_files/folder.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf/gguf_model.h"
#include "model/found_prompt_profile.h"
#include "model/gguf_checkpoint.h"
#include "tokenizer/gguf_tokenizer.h"
#include "tokenizer/v4_format.h"

namespace baleen {

namespace fs = std::filesystem;

namespace {

std::vector<TextFile> companions_of(const GgufModel& model) {
  std::vector<TextFile> files{{"tokenizer.json", v4_tokenizer_json(gguf_tokenizer(model.keys()))},
                              {"tokenizer_config.json", v4_tokenizer_config_json()}};
  if (const auto text = model.keys().text(kGgufTemplateKey))
    files.push_back({"chat_template.jinja", std::string(*text)});
  return files;
}

}  // namespace

std::vector<TextFile> companion_files(const fs::path& folder) {
  if (const auto gguf = find_gguf(folder)) return companions_of(GgufModel(*gguf));
  std::vector<TextFile> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const fs::path name = entry.path().filename();
    const fs::path extension = name.extension();
    const bool wanted =
        extension == ".json" || extension == ".txt" || extension == ".jinja" || name.stem() == "LICENSE";
    if (!wanted || name == "config.json" || name == kIndexFileName) continue;
    files.push_back({name.string(), read_text_file(entry.path())});
  }
  for (const fs::path& encoder : encoder_paths()) {
    if (fs::is_regular_file(folder / encoder))
      files.push_back({encoder.string(), read_text_file(folder / encoder)});
  }
  std::sort(files.begin(), files.end(), [](const TextFile& a, const TextFile& b) { return a.name < b.name; });
  return files;
}

std::vector<std::string> names_of(const std::vector<TextFile>& files) {
  std::vector<std::string> names;
  for (const TextFile& file : files) names.push_back(file.name);
  return names;
}

std::vector<TextFile> tokenizer_files(const fs::path& folder) {
  std::vector<TextFile> files{{"tokenizer.json", read_text_file(folder / "tokenizer.json")}};
  if (fs::exists(folder / "tokenizer_config.json")) {
    files.push_back({"tokenizer_config.json", read_text_file(folder / "tokenizer_config.json")});
  }
  return files;
}

}  // namespace baleen
