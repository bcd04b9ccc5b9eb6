/// How often every word of a corpus occurs: all that byte-pair training needs to know of it. A word is a
/// piece of the pre-tokenizer, within which merges happen.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "tokenizer/pre_tokenizer.h"

namespace baleen {

struct WordCount {
  std::string word;  ///< its bytes
  std::int64_t count = 0;
  bool operator==(const WordCount&) const = default;
};

/// Each thread counts in a table of its own, so memory grows with the distinct words times the threads, never
/// with the corpus.
class WordCounter {
 public:
  /// `pre_tokenizer` outlives it.
  WordCounter(const PreTokenizer& pre_tokenizer, int num_threads);

  /// Counts the words of one text, which is cut as encoding would cut it. Threads may call it at once, each
  /// with its own number. Fails on text that is not UTF-8, or on which a pattern gives
  /// up; part of it may be counted then.
  [[nodiscard]] std::optional<Failure> add(std::string_view text, int thread);

  /// Distinct words so far, those of every thread counted apart.
  [[nodiscard]] std::int64_t num_words() const;

  /// All words in the order of their bytes, whatever thread counted them; leaves the counter empty.
  [[nodiscard]] std::vector<WordCount> take();

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view word) const { return std::hash<std::string_view>()(word); }
  };
  using Table = std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>>;

  const PreTokenizer& pre_tokenizer_;
  std::vector<Table> tables_;  ///< one a thread
};

}  // namespace baleen
