#include "tokenizer_training/pair_merges.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "tokenizer/byte_level.h"

namespace baleen {
namespace {

/// left << 32 | right: numbers in the order of pairs.
using Pair = std::uint64_t;

Pair pair_of(TokenId left, TokenId right) {
  return (Pair{static_cast<std::uint32_t>(left)} << 32) | static_cast<std::uint32_t>(right);
}
TokenId left_of(Pair pair) { return static_cast<TokenId>(pair >> 32); }
TokenId right_of(Pair pair) { return static_cast<TokenId>(pair & 0xFFFFFFFF); }

struct PairHash {
  std::size_t operator()(Pair pair) const {
    const Pair mixed = pair * 0x9E3779B97F4A7C15;
    return static_cast<std::size_t>(mixed ^ (mixed >> 32));
  }
};

/// Words as tokens. A word only ever shrinks, so it stays where it was laid.
class Words {
 public:
  Words(std::span<const WordCount> words, const std::array<TokenId, 256>& id_of_byte) {
    std::size_t num_bytes = 0;
    for (const WordCount& word : words) num_bytes += word.word.size();
    tokens_.reserve(num_bytes);
    words_.reserve(words.size());
    for (const WordCount& word : words) {
      words_.push_back({tokens_.size(), word.word.size(), word.count});
      for (const char byte : word.word) tokens_.push_back(id_of_byte[static_cast<unsigned char>(byte)]);
    }
  }

  [[nodiscard]] std::size_t size() const { return words_.size(); }
  [[nodiscard]] std::int64_t count(std::size_t word) const { return words_[word].count; }
  [[nodiscard]] std::span<const TokenId> tokens(std::size_t word) const {
    return {tokens_.data() + words_[word].begin, words_[word].size};
  }

  /// Puts `merged` in the place of every left, right in the word, from its beginning on, and calls
  /// `change(pair, difference)` for the neighbours that each replacement takes apart and brings together.
  template <class Change>
  void merge(std::size_t word, TokenId left, TokenId right, TokenId merged, Change&& change) {
    TokenId* const tokens = tokens_.data() + words_[word].begin;
    const std::size_t size = words_[word].size;
    std::size_t written = 0;
    for (std::size_t at = 0; at < size;) {
      if (at + 1 == size || tokens[at] != left || tokens[at + 1] != right) {
        tokens[written++] = tokens[at++];
        continue;
      }
      if (written > 0) {
        change(pair_of(tokens[written - 1], left), -1);
        change(pair_of(tokens[written - 1], merged), +1);
      }
      tokens[written++] = merged;
      at += 2;
      if (at < size) {
        change(pair_of(right, tokens[at]), -1);
        change(pair_of(merged, tokens[at]), +1);
      }
    }
    words_[word].size = written;
  }

 private:
  struct Word {
    std::size_t begin = 0, size = 0;
    std::int64_t count = 0;
  };
  std::vector<TokenId> tokens_;
  std::vector<Word> words_;
};

using PairCounts = std::unordered_map<Pair, std::int64_t, PairHash>;

/// Pairs with the words they were seen in, in the order of first sight. A word is noted once in a row, which
/// makes its places distinct: all changes of a word come together.
class PairPlaces {
 public:
  void add(Pair pair, std::uint32_t word) {
    const auto [place, is_new] = index_.try_emplace(pair, entries_.size());
    if (is_new) entries_.push_back({pair, {}});
    std::vector<std::uint32_t>& words = entries_[place->second].words;
    if (words.empty() || words.back() != word) words.push_back(word);
  }

  struct Entry {
    Pair pair = 0;
    std::vector<std::uint32_t> words;
  };
  std::vector<Entry> take() {
    index_.clear();
    return std::exchange(entries_, {});
  }

 private:
  std::unordered_map<Pair, std::size_t, PairHash> index_;
  std::vector<Entry> entries_;
};

/// Candidates, the one to merge next on top. Counts are those of the time they were added.
class Candidates {
 public:
  struct Entry {
    std::int64_t count = 0;
    Pair pair = 0;
    std::vector<std::uint32_t> words;
  };

  [[nodiscard]] bool empty() const { return heap_.empty(); }
  void add(Entry entry) {
    heap_.push_back(std::move(entry));
    std::ranges::push_heap(heap_, later);
  }
  Entry take() {
    std::ranges::pop_heap(heap_, later);
    Entry entry = std::move(heap_.back());
    heap_.pop_back();
    return entry;
  }

 private:
  static bool later(const Entry& a, const Entry& b) {
    return a.count != b.count ? a.count < b.count : a.pair > b.pair;
  }
  std::vector<Entry> heap_;
};

class MergeTrainer {
 public:
  explicit MergeTrainer(std::span<const WordCount> words)
      : tokens_(byte_alphabet()), words_(words, index_alphabet()) {
    for (std::size_t word = 0; word < words_.size(); ++word) {
      const std::span<const TokenId> tokens = words_.tokens(word);
      for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
        const Pair pair = pair_of(tokens[i], tokens[i + 1]);
        counts_[pair] += words_.count(word);
        places_.add(pair, static_cast<std::uint32_t>(word));
      }
    }
    add_candidates();
  }

  TrainedMerges run(const MergeTrainingOptions& options) {
    while (static_cast<std::int64_t>(tokens_.size()) < options.num_tokens && !candidates_.empty()) {
      Candidates::Entry best = candidates_.take();
      if (const std::int64_t now = counts_[best.pair]; best.count != now) {
        best.count = now;
        candidates_.add(std::move(best));
        continue;
      }
      if (best.count < std::max<std::int64_t>(1, options.min_count)) break;
      merge(best);
      if (options.progress && rules_.size() % 16 == 0)
        options.progress(static_cast<std::int64_t>(tokens_.size()));
    }
    return {std::move(tokens_), last_of_each_pair()};
  }

 private:
  std::array<TokenId, 256> index_alphabet() {
    std::array<TokenId, 256> id_of_byte{};
    for (std::size_t id = 0; id < tokens_.size(); ++id) {
      id_of_byte[static_cast<unsigned char>(tokens_[id].front())] = static_cast<TokenId>(id);
      id_of_text_[tokens_[id]] = static_cast<TokenId>(id);
    }
    return id_of_byte;
  }

  void merge(const Candidates::Entry& best) {
    const TokenId left = left_of(best.pair), right = right_of(best.pair);
    std::string text = tokens_[static_cast<std::size_t>(left)] + tokens_[static_cast<std::size_t>(right)];
    const auto [place, is_new] = id_of_text_.try_emplace(text, static_cast<TokenId>(tokens_.size()));
    const TokenId merged = place->second;
    if (is_new) tokens_.push_back(std::move(text));
    rules_.push_back(best.pair);
    for (const std::uint32_t word : best.words) {
      words_.merge(word, left, right, merged, [&](Pair pair, int difference) {
        counts_[pair] += difference * words_.count(word);
        if (difference > 0) places_.add(pair, word);
      });
    }
    add_candidates();
  }

  void add_candidates() {
    for (PairPlaces::Entry& entry : places_.take()) {
      const std::int64_t count = counts_[entry.pair];
      if (count > 0) candidates_.add({count, entry.pair, std::move(entry.words)});
    }
  }

  /// A pair that was merged twice has its later rank.
  [[nodiscard]] std::vector<TrainedMerges::Rule> last_of_each_pair() const {
    std::vector<TrainedMerges::Rule> rules;
    std::unordered_set<Pair, PairHash> seen;
    for (auto pair = rules_.rbegin(); pair != rules_.rend(); ++pair) {
      if (seen.insert(*pair).second) rules.push_back({left_of(*pair), right_of(*pair)});
    }
    std::ranges::reverse(rules);
    return rules;
  }

  std::vector<std::string> tokens_;
  std::unordered_map<std::string, TokenId> id_of_text_;
  Words words_;
  PairCounts counts_;
  PairPlaces places_;
  Candidates candidates_;
  std::vector<Pair> rules_;
};

}  // namespace

std::vector<std::string> byte_alphabet() {
  std::map<std::string, char> by_character;  // UTF-8 sorts as its code points do
  for (int byte = 0; byte < 256; ++byte)
    by_character[byte_level_character(static_cast<std::uint8_t>(byte))] = static_cast<char>(byte);
  std::vector<std::string> alphabet;
  for (const auto& [character, byte] : by_character) alphabet.emplace_back(1, byte);
  return alphabet;
}

TrainedMerges train_merges(std::span<const WordCount> words, const MergeTrainingOptions& options) {
  BALEEN_CHECK(words.size() <= std::size_t{1} << 32);
  return MergeTrainer(words).run(options);
}

}  // namespace baleen
