/// Byte-pair training as its documentation words it, without any index: every step looks at all candidates
/// and all words. For tests.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer_training/pair_merges.h"

namespace baleen::test {

class SlowTrainer {
 public:
  using Pair = std::pair<TokenId, TokenId>;

  explicit SlowTrainer(std::span<const WordCount> words) : tokens_(byte_alphabet()) {
    for (const WordCount& word : words) {
      Word laid{{}, word.count};
      for (const char byte : word.word) laid.tokens.push_back(id_of(std::string(1, byte)));
      words_.push_back(laid);
    }
    std::map<Pair, std::set<std::size_t>> places;
    for (std::size_t w = 0; w < words_.size(); ++w) {
      for (std::size_t i = 0; i + 1 < words_[w].tokens.size(); ++i) {
        const Pair pair{words_[w].tokens[i], words_[w].tokens[i + 1]};
        counts_[pair] += words_[w].count;
        places[pair].insert(w);
      }
    }
    add_candidates(places);
  }

  TrainedMerges run(std::int64_t num_tokens, std::int64_t min_count) {
    while (static_cast<std::int64_t>(tokens_.size()) < num_tokens && !candidates_.empty()) {
      const auto best = std::ranges::max_element(candidates_, [](const Candidate& a, const Candidate& b) {
        return a.count != b.count ? a.count < b.count : a.pair > b.pair;
      });
      if (best->count != counts_[best->pair]) {
        best->count = counts_[best->pair];
        continue;
      }
      if (best->count < std::max<std::int64_t>(1, min_count)) break;
      const Candidate taken = *best;
      candidates_.erase(best);
      merge(taken);
    }
    TrainedMerges result{tokens_, {}};
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      if (std::find(rules_.begin() + i + 1, rules_.end(), rules_[i]) == rules_.end())
        result.rules.push_back({rules_[i].first, rules_[i].second});
    }
    return result;
  }

 private:
  struct Word {
    std::vector<TokenId> tokens;
    std::int64_t count = 0;
  };
  struct Candidate {
    std::int64_t count = 0;
    Pair pair;
    std::set<std::size_t> words;
  };

  TokenId id_of(const std::string& text) {
    const auto place = std::ranges::find(tokens_, text);
    if (place == tokens_.end()) tokens_.push_back(text);
    return static_cast<TokenId>(std::ranges::find(tokens_, text) - tokens_.begin());
  }

  void merge(const Candidate& taken) {
    const auto [left, right] = taken.pair;
    const TokenId merged = id_of(tokens_[left] + tokens_[right]);
    rules_.push_back(taken.pair);
    std::map<Pair, std::set<std::size_t>> places;
    for (const std::size_t w : taken.words) {
      std::vector<TokenId>& tokens = words_[w].tokens;
      const auto change = [&](Pair pair, int difference) {
        counts_[pair] += difference * words_[w].count;
        if (difference > 0) places[pair].insert(w);
      };
      for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
        if (Pair{tokens[i], tokens[i + 1]} != taken.pair) continue;
        if (i > 0) {
          change({tokens[i - 1], left}, -1);
          change({tokens[i - 1], merged}, +1);
        }
        tokens[i] = merged;
        tokens.erase(tokens.begin() + i + 1);
        if (i + 1 < tokens.size()) {
          change({right, tokens[i + 1]}, -1);
          change({merged, tokens[i + 1]}, +1);
        }
      }
    }
    add_candidates(places);
  }

  void add_candidates(const std::map<Pair, std::set<std::size_t>>& places) {
    for (const auto& [pair, words] : places)
      if (counts_[pair] > 0) candidates_.push_back({counts_[pair], pair, words});
  }

  std::vector<std::string> tokens_;
  std::vector<Word> words_;
  std::map<Pair, std::int64_t> counts_;
  std::vector<Candidate> candidates_;
  std::vector<Pair> rules_;
};

}  // namespace baleen::test
