/// Small corpora packed into a temporary folder, for tests.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "training_data/pack.h"

namespace baleen::test {

inline void write_lines(const std::filesystem::path& path, const std::vector<nlohmann::json>& lines) {
  std::ofstream file(path, std::ios::binary);
  for (const nlohmann::json& line : lines) file << line.dump() << '\n';
}

/// {"text": ...} lines of 1 to `max_words` words each.
inline std::vector<nlohmann::json> random_texts(std::uint64_t seed, int num_texts, int max_words) {
  std::mt19937_64 random(seed);
  const char* const kWords[] = {"fox", "the", "Zoë",        "你好", "<think>", "\n",
                                "  ",  "42",  "<｜User｜>", "é",    "tree."};
  std::vector<nlohmann::json> lines;
  for (int i = 0; i < num_texts; ++i) {
    std::string text = "t";
    const int num_words = 1 + static_cast<int>(random() % max_words);
    for (int w = 0; w < num_words; ++w) text += std::string(" ") + kWords[random() % std::size(kWords)];
    lines.push_back({{"text", text}});
  }
  return lines;
}

/// Options for `lines`, written to `folder`, with the bundled tokenizer.
inline PackOptions pack_options(const TemporaryFolder& folder, const std::vector<nlohmann::json>& lines) {
  write_lines(folder / "corpus.jsonl", lines);
  PackOptions options;
  options.files = {folder / "corpus.jsonl"};
  options.tokenizer = "models/stories";
  options.out = folder / "packed";
  return options;
}

}  // namespace baleen::test
