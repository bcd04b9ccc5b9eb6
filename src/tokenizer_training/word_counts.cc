#include "tokenizer_training/word_counts.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "tokenizer/split_pattern.h"

namespace baleen {

WordCounter::WordCounter(const PreTokenizer& pre_tokenizer, int num_threads)
    : pre_tokenizer_(pre_tokenizer), tables_(static_cast<std::size_t>(num_threads)) {}

std::optional<Failure> WordCounter::add(std::string_view text, int thread) {
  if (const auto invalid = find_invalid_utf8(text)) {
    return failure("byte {} is not UTF-8 (0x{:02X}); is this text?", *invalid,
                   static_cast<unsigned char>(text[*invalid]));
  }
  Table& table = tables_[static_cast<std::size_t>(thread)];
  MatchScratch scratch(text.size());
  const auto gave_up = pre_tokenizer_.split(text, scratch, [&table](std::string_view word) {
    const auto place = table.find(word);
    if (place != table.end()) {
      ++place->second;
    } else {
      table.emplace(word, 1);
    }
  });
  if (gave_up) return failure("at byte {}: {}", gave_up->at - text.data(), gave_up->why);
  return std::nullopt;
}

std::int64_t WordCounter::num_words() const {
  std::size_t total = 0;
  for (const Table& table : tables_) total += table.size();
  return static_cast<std::int64_t>(total);
}

std::vector<WordCount> WordCounter::take() {
  Table& all = tables_.front();
  for (std::size_t thread = 1; thread < tables_.size(); ++thread) {
    for (const auto& [word, count] : tables_[thread]) all[word] += count;
    tables_[thread] = {};
  }
  std::vector<WordCount> words;
  words.reserve(all.size());
  while (!all.empty()) {
    auto node = all.extract(all.begin());
    words.push_back({std::move(node.key()), node.mapped()});
  }
  std::ranges::sort(words, {}, &WordCount::word);
  return words;
}

}  // namespace baleen
