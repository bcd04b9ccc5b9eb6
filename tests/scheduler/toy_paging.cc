#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "tests/scheduler/fake_paging.h"
#include "tests/scheduler/toy_cache.h"

namespace baleen {
namespace {

/// As many as a sequence sees behind it.
constexpr std::int64_t kWindowTokens = 128;

std::int64_t pages_of(std::int64_t num_tokens) { return (num_tokens + kPageTokens - 1) / kPageTokens; }

class ToyPaging : public FakePaging {
 public:
  explicit ToyPaging(const FakePools& pools) : pools_(pools), cache_(pools.num_pages) {}

  std::optional<SequenceId> open(std::span<const TokenId> prompt) override {
    if (std::ssize(sequences_) == pools_.max_sequences) return std::nullopt;
    const SequenceId id{next_id_++};
    Sequence& sequence = sequences_[id];
    std::vector<History> keys;
    for (std::int64_t end = kPageTokens; end < std::ssize(prompt); end += kPageTokens) {
      keys.push_back(after(keys.empty() ? kNoHistory : keys.back(),
                           prompt.subspan(static_cast<std::size_t>(end - kPageTokens), kPageTokens)));
    }
    keys.resize(cache_.match(keys));
    const auto found = prompt.first(keys.size() * kPageTokens);
    sequence.tokens.assign(found.begin(), found.end());
    sequence.page_keys = std::move(keys);
    sequence.settled = std::ssize(sequence.tokens);
    return id;
  }

  std::span<const TokenId> tokens(SequenceId id) const override { return sequences_.at(id).tokens; }

  bool reserve(SequenceId id, std::int64_t num_tokens) override {
    Sequence& sequence = sequences_.at(id);
    const std::int64_t end = std::ssize(sequence.tokens) + num_tokens;
    const std::int64_t more_window_pages = window_pages_for(sequence, end) - sequence.window_pages;
    if (window_pages_in_use_ + more_window_pages > pools_.num_window_pages) return false;
    const std::int64_t missing = pages_of(end) - pages_of(reserved(id));
    if (missing > 0) {
      if (!cache_.take(missing)) return false;
      sequence.private_pages += missing;
    }
    set_window(sequence, end);
    return true;
  }

  std::int64_t reserved(SequenceId id) const override {
    const Sequence& sequence = sequences_.at(id);
    return (std::ssize(sequence.page_keys) + sequence.private_pages) * kPageTokens;
  }

  void commit(SequenceId id, std::span<const TokenId> tokens) override {
    extend(id, tokens);
    settle(id, std::ssize(sequences_.at(id).tokens));
  }
  void extend(SequenceId id, std::span<const TokenId> tokens) override {
    Sequence& sequence = sequences_.at(id);
    sequence.tokens.insert(sequence.tokens.end(), tokens.begin(), tokens.end());
  }
  void name(SequenceId id, std::int64_t position, TokenId token) override {
    sequences_.at(id).tokens.at(static_cast<std::size_t>(position)) = token;
  }
  void settle(SequenceId id, std::int64_t length) override {
    Sequence& sequence = sequences_.at(id);
    sequence.settled = length;
    set_window(sequence, std::ssize(sequence.tokens));
  }

  void truncate(SequenceId id, std::int64_t length) override {
    Sequence& sequence = sequences_.at(id);
    BALEEN_CHECK_LE(std::ssize(sequence.page_keys) * kPageTokens, length);
    sequence.tokens.resize(static_cast<std::size_t>(length));
    sequence.settled = std::min(sequence.settled, length);
    set_window(sequence, length);
  }

  void share(SequenceId id) override {
    Sequence& sequence = sequences_.at(id);
    for (std::int64_t begin;
         (begin = std::ssize(sequence.page_keys) * kPageTokens) + kPageTokens <= sequence.settled;) {
      const History parent = sequence.page_keys.empty() ? kNoHistory : sequence.page_keys.back();
      const auto page = std::span(sequence.tokens).subspan(static_cast<std::size_t>(begin), kPageTokens);
      sequence.page_keys.push_back(after(parent, page));
      cache_.insert(parent, sequence.page_keys.back());
      --sequence.private_pages;
    }
  }

  void close(SequenceId id, bool keep) override {
    if (keep) share(id);
    const Sequence& sequence = sequences_.at(id);
    cache_.unlock(sequence.page_keys);
    cache_.give_back(sequence.private_pages);
    window_pages_in_use_ -= sequence.window_pages;
    sequences_.erase(id);
  }

  CacheUse cache_use() const override {
    const std::int64_t open = std::ssize(sequences_);
    return {
        .pages = cache_.use(),
        .window_pages = {.total = pools_.num_window_pages,
                         .free = pools_.num_window_pages - window_pages_in_use_,
                         .in_use = window_pages_in_use_},
        .state_slots = {.total = pools_.max_sequences, .free = pools_.max_sequences - open, .in_use = open}};
  }

 private:
  struct Sequence {
    std::vector<TokenId> tokens;
    std::vector<History> page_keys;  ///< of the pages that the cache owns, all at the beginning
    std::int64_t private_pages = 0, window_pages = 0;
    std::int64_t settled = 0;
  };

  static std::int64_t window_pages_for(const Sequence& sequence, std::int64_t end) {
    const std::int64_t seen = std::max<std::int64_t>(0, sequence.settled - kWindowTokens);
    return pages_of(end) - seen / kPageTokens;
  }
  void set_window(Sequence& sequence, std::int64_t end) {
    const std::int64_t pages = window_pages_for(sequence, end);
    window_pages_in_use_ += pages - sequence.window_pages;
    sequence.window_pages = pages;
  }

  FakePools pools_;
  ToyCache cache_;
  std::map<SequenceId, Sequence> sequences_;
  std::int64_t next_id_ = 0, window_pages_in_use_ = 0;
};

}  // namespace

std::unique_ptr<FakePaging> make_toy_paging(const FakePools& pools) {
  return std::make_unique<ToyPaging>(pools);
}

}  // namespace baleen
