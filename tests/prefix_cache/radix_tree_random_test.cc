// Sequences come, grow, share, leave and are cancelled at random, on pools that are too small for them. The
// tree and its naive twin must agree after every step, down to the order of use.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>

#include "naive_tree.h"
#include "prefix_cache/radix_tree.h"

namespace baleen {
namespace {

using test::NaiveTree;
using Tokens = std::vector<TokenId>;

/// The tree's content in the twin's terms.
NaiveTree::Records records_of(const RadixNode& root, std::int64_t page_tokens) {
  NaiveTree::Records records;
  for (const auto& [first_page, child] : root.children) {
    Tokens prefix = tokens_to(root);
    for (std::size_t i = 0; i < child->pages.size(); ++i) {
      const auto begin = child->tokens.begin() + static_cast<std::int64_t>(i) * page_tokens;
      prefix.insert(prefix.end(), begin, begin + page_tokens);
      const bool last = i + 1 == child->pages.size();
      records[prefix] = {.page = child->pages[i],
                         .window = child->tombstone() ? PageId::kNone : child->window_pages[i],
                         .full_lock = child->full_lock,
                         .window_lock = child->window_lock,
                         .ends_node = last,
                         .ends_insertion = last && child->ends_insertion,
                         .kept_tail = last && child->kept_tail,
                         .lost_window = child->lost_windows,
                         .last_access = child->last_access};
    }
    records.merge(records_of(*child, page_tokens));
  }
  return records;
}

/// A running sequence. The first `num_protected` pages are the tree's.
struct Sequence {
  Tokens tokens;  ///< whole pages
  std::vector<PageId> pages, window_pages;
  std::int64_t num_protected = 0, num_evicted = 0;
  PrefixLock lock;
  NaiveTree::Lock twin_lock;
};

class RandomUse {
 public:
  RandomUse(std::uint32_t seed, RadixTreeOptions options)
      : random_(seed), options_(options), tree_(pages_, window_pages_, options), twin_(options) {
    tail_pages_ = (options.window_tokens + options.page_tokens - 1) / options.page_tokens;
    tree_.observe_evictions([this](const RadixNode& node, bool window_only) {
      EXPECT_EQ(window_only ? node.window_lock : node.full_lock, 0);
      observed_.window_pages += static_cast<std::int64_t>(node.window_pages.size());
      if (!window_only) observed_.pages += node.num_pages();
    });
  }

  ~RandomUse() {
    while (!sequences_.empty()) cancel(0);
    check();
  }

  void step() {
    const int action = draw(0, 15);
    if (sequences_.empty() || (action <= 2 && sequences_.size() < 5)) return start();
    const auto which = static_cast<std::size_t>(draw(0, static_cast<int>(sequences_.size()) - 1));
    if (action <= 6) return grow(sequences_[which]);
    if (action <= 8) return leave_window_behind(sequences_[which]);
    if (action == 9) return release_window(sequences_[which]);
    if (action <= 11) return share(sequences_[which]);
    if (action == 12) return finish(which);
    if (action == 13) return cancel(which);
    if (action == 14) return evict(draw(0, 4), draw(0, 6));
    (void)match(random_tokens());
  }

  /// How often a match ended for each reason.
  std::array<std::int64_t, kPrefixEndNames.size()> ends{};

  void check() {
    tree_.check_integrity();
    pages_.check_integrity();
    window_pages_.check_integrity();
    const RadixNode& root = *tree_.match({}).node;
    const NaiveTree::Records records = records_of(root, options_.page_tokens);
    ASSERT_TRUE(records == twin_.records());
    check_owners(records);
    for (const Sequence& sequence : sequences_) check_lock(sequence);
  }

 private:
  int draw(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  /// A beginning that others had, then something new.
  Tokens random_tokens() {
    Tokens tokens;
    if (!history_.empty() && draw(0, 3) > 0) {
      tokens = history_[static_cast<std::size_t>(draw(0, static_cast<int>(history_.size()) - 1))];
      tokens.resize(static_cast<std::size_t>(draw(0, static_cast<int>(tokens.size()))));
    }
    const int more = draw(0, 8);
    for (int i = 0; i < more; ++i) tokens.push_back(draw(0, 1));
    return tokens;
  }

  PrefixMatch match(const Tokens& tokens) {
    PrefixMatch found = tree_.match(tokens);
    EXPECT_EQ(found.num_tokens, twin_.match(tokens) * options_.page_tokens);
    EXPECT_EQ(tokens_to(*found.node), Tokens(tokens.begin(), tokens.begin() + found.num_tokens));
    Tokens prompt = tokens;  // whose last token is never looked for
    prompt.push_back(draw(0, 1));
    explain(prompt, found.num_tokens);
    return found;
  }

  void explain(const Tokens& prompt, std::int64_t found_tokens) {
    PrefixLookup lookup = tree_.explain(prompt, found_tokens);
    ++ends[static_cast<std::size_t>(lookup.end)];
    const auto difference = static_cast<std::size_t>(lookup.first_difference);
    EXPECT_LE(std::ssize(lookup.cached_tokens), PrefixLookup::kMaxCachedTokens);
    if (!lookup.cached_tokens.empty() && difference < prompt.size()) {
      EXPECT_NE(lookup.cached_tokens.front(), prompt[difference]);
    }
    if (!lookup.cached_tokens.empty()) {
      Tokens cached(prompt.begin(), prompt.begin() + lookup.first_difference);
      cached.insert(cached.end(), lookup.cached_tokens.begin(), lookup.cached_tokens.end());
      EXPECT_TRUE(std::ranges::any_of(twin_.records(), [&](const auto& one) {
        return std::ranges::mismatch(cached, one.first).in1 == cached.end();
      })) << "no such sequence is cached";
    }
    lookup.cached_tokens.clear();
    EXPECT_EQ(lookup, twin_.explain(prompt, found_tokens / options_.page_tokens));
  }

  void start() {
    const PrefixMatch found = match(random_tokens());
    Sequence sequence{.tokens = tokens_to(*found.node),
                      .pages = found.pages,
                      .window_pages = found.window_pages,
                      .num_protected = static_cast<std::int64_t>(found.pages.size()),
                      .lock = tree_.lock(found.node),
                      .twin_lock = twin_.lock(tokens_to(*found.node))};
    sequences_.push_back(std::move(sequence));
  }

  void evict(std::int64_t num_pages, std::int64_t num_window_pages) {
    observed_ = {};
    const EvictedPages freed = tree_.evict(num_pages, num_window_pages);
    const EvictedPages expected = twin_.evict(num_pages, num_window_pages);
    EXPECT_EQ(freed.pages, expected.pages);
    EXPECT_EQ(freed.window_pages, expected.window_pages);
    EXPECT_EQ(observed_.pages, freed.pages);
    EXPECT_EQ(observed_.window_pages, freed.window_pages);
    EXPECT_TRUE(freed.pages >= num_pages || tree_.evictable_pages() == 0);
    EXPECT_TRUE(freed.window_pages >= num_window_pages || tree_.evictable_window_pages() == 0);
  }

  void grow(Sequence& sequence) {
    if (draw(0, 2) == 0) history_.push_back(sequence.tokens);
    for (int page = draw(1, 3); page > 0; --page) {
      evict(pages_.num_free() == 0 ? 1 : 0, window_pages_.num_free() == 0 ? 1 : 0);
      if (pages_.num_free() == 0 || window_pages_.num_free() == 0) return;
      sequence.pages.push_back(pages_.allocate().value());
      sequence.window_pages.push_back(window_pages_.allocate().value());
      for (std::int64_t i = 0; i < options_.page_tokens; ++i) sequence.tokens.push_back(draw(0, 1));
    }
  }

  void drop_window_pages(Sequence& sequence, std::int64_t end) {
    for (; sequence.num_evicted < end; ++sequence.num_evicted) {
      PageId& page = sequence.window_pages[static_cast<std::size_t>(sequence.num_evicted)];
      if (sequence.num_evicted >= sequence.num_protected) window_pages_.free(page);
      page = PageId::kNone;
    }
  }

  std::int64_t window_begin(const Sequence& sequence) const {
    return static_cast<std::int64_t>(sequence.pages.size()) - tail_pages_;
  }

  void leave_window_behind(Sequence& sequence) { drop_window_pages(sequence, window_begin(sequence)); }

  void release_window(Sequence& sequence) {
    if (sequence.lock.window_released || window_begin(sequence) < sequence.num_protected) return;
    leave_window_behind(sequence);
    tree_.release_window(sequence.lock);
    twin_.release_window(sequence.twin_lock);
  }

  PrefixInsertion insert(const Sequence& sequence) {
    const std::int64_t page_tokens = options_.page_tokens;
    PrefixInsertion inserted =
        tree_.insert(sequence.tokens, sequence.pages, sequence.window_pages,
                     sequence.num_protected * page_tokens, sequence.num_evicted * page_tokens);
    const auto [existing, end] = twin_.insert(sequence.tokens, sequence.pages, sequence.window_pages,
                                              sequence.num_protected, sequence.num_evicted);
    EXPECT_EQ(inserted.existing_tokens, existing * page_tokens);
    EXPECT_EQ(inserted.path.num_tokens, end * page_tokens);
    EXPECT_EQ(inserted.path.pages.size(), static_cast<std::size_t>(end));
    EXPECT_EQ(inserted.path.window_pages.size(), static_cast<std::size_t>(end));
    return inserted;
  }

  void share(Sequence& sequence) {
    const PrefixMatch path = insert(sequence).path;
    ASSERT_EQ(path.num_tokens, static_cast<std::int64_t>(sequence.tokens.size()));
    for (auto i = std::max<std::int64_t>(window_begin(sequence), 0); i < std::ssize(path.pages); ++i) {
      EXPECT_NE(path.window_pages[static_cast<std::size_t>(i)], PageId::kNone);
    }
    const PrefixLock lock = tree_.lock(path.node);
    NaiveTree::Lock twin_lock = twin_.lock(sequence.tokens);
    unlock(sequence);
    sequence.lock = lock;
    sequence.twin_lock = std::move(twin_lock);
    if (draw(0, 1) == 0) {
      tree_.keep_tail(path.node);
      twin_.keep_tail(sequence.tokens);
    }
    sequence.pages = path.pages;
    sequence.window_pages = path.window_pages;
    sequence.num_protected = static_cast<std::int64_t>(path.pages.size());
    for (std::int64_t i = 0; i < sequence.num_evicted; ++i) {
      sequence.window_pages[static_cast<std::size_t>(i)] = PageId::kNone;
    }
  }

  void unlock(const Sequence& sequence) {
    tree_.unlock(sequence.lock);
    twin_.unlock(sequence.twin_lock);
  }

  void finish(std::size_t which) {
    Sequence& sequence = sequences_[which];
    if (draw(0, 3) == 0) drop_window_pages(sequence, static_cast<std::int64_t>(sequence.pages.size()));
    (void)insert(sequence);
    unlock(sequence);
    sequences_.erase(sequences_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  void cancel(std::size_t which) {
    Sequence& sequence = sequences_[which];
    for (auto i = static_cast<std::size_t>(sequence.num_protected); i < sequence.pages.size(); ++i) {
      pages_.free(sequence.pages[i]);
      if (sequence.window_pages[i] != PageId::kNone) window_pages_.free(sequence.window_pages[i]);
    }
    unlock(sequence);
    sequences_.erase(sequences_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  /// Free, cached and in use are all there is, and no page has two owners.
  void check_owners(const NaiveTree::Records& records) {
    std::multiset<PageId> owned, window_owned;
    for (const auto& [prefix, record] : records) {
      owned.insert(record.page);
      if (record.window != PageId::kNone) window_owned.insert(record.window);
    }
    ASSERT_EQ(static_cast<std::int64_t>(owned.size()), tree_.num_pages());
    ASSERT_EQ(static_cast<std::int64_t>(window_owned.size()), tree_.num_window_pages());
    for (const Sequence& sequence : sequences_) {
      for (auto i = static_cast<std::size_t>(sequence.num_protected); i < sequence.pages.size(); ++i) {
        owned.insert(sequence.pages[i]);
        if (sequence.window_pages[i] != PageId::kNone) window_owned.insert(sequence.window_pages[i]);
      }
    }
    const auto check_pool = [](const std::multiset<PageId>& all, const PageAllocator& pool) {
      ASSERT_EQ(std::set<PageId>(all.begin(), all.end()).size(), all.size());
      ASSERT_EQ(static_cast<std::int64_t>(all.size()) + pool.num_free(), pool.num_pages());
    };
    check_pool(owned, pages_);
    check_pool(window_owned, window_pages_);
  }

  /// What a sequence reads of the tree's is still there.
  void check_lock(const Sequence& sequence) {
    std::int64_t page = sequence.num_protected;
    std::int64_t window_left = sequence.lock.window_released ? 0 : options_.window_tokens;
    for (const RadixNode* node = sequence.lock.node; !node->is_root(); node = node->parent) {
      ASSERT_GT(node->full_lock, 0);
      ASSERT_TRUE(window_left <= 0 || node->window_lock > 0);
      for (auto i = node->pages.size(); i-- > 0;) {
        ASSERT_EQ(node->pages[i], sequence.pages[static_cast<std::size_t>(--page)]);
        if (window_left <= 0) continue;
        window_left -= options_.page_tokens;
        const PageId window_page = sequence.window_pages[static_cast<std::size_t>(page)];
        ASSERT_TRUE(window_page == PageId::kNone || window_page == node->window_pages[i]);
      }
    }
    ASSERT_EQ(page, 0);
  }

  std::mt19937 random_;
  RadixTreeOptions options_;
  std::int64_t tail_pages_;
  PageAllocator pages_{40}, window_pages_{24};
  RadixTree tree_;
  NaiveTree twin_;
  std::vector<Sequence> sequences_;
  std::vector<Tokens> history_{Tokens{0, 0, 0, 0, 1, 1, 1, 1}};
  EvictedPages observed_;
};

void use_at_random(RadixTreeOptions options) {
  std::array<std::int64_t, kPrefixEndNames.size()> ends{};
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    RandomUse use(seed, options);
    for (int step = 0; step < 250; ++step) {
      SCOPED_TRACE(step);
      use.step();
      use.check();
      if (testing::Test::HasFailure()) return;
    }
    for (std::size_t end = 0; end < ends.size(); ++end) ends[end] += use.ends[end];
  }
  // Every reason was met, but that of a cache which is not there.
  for (std::size_t end = 1; end < ends.size(); ++end) EXPECT_GT(ends[end], 0) << kPrefixEndNames[end];
}

TEST(RadixTreeRandom, PagesOfOneToken) { use_at_random({.page_tokens = 1, .window_tokens = 4}); }

TEST(RadixTreeRandom, WindowsThatAreNotWholePages) { use_at_random({.page_tokens = 2, .window_tokens = 3}); }

TEST(RadixTreeRandom, PagesLongerThanTheWindow) { use_at_random({.page_tokens = 2, .window_tokens = 1}); }

TEST(RadixTreeRandom, WithFewKeptTails) {
  for (const std::int64_t kept : {0, 1, 3}) {
    use_at_random({.page_tokens = 1, .window_tokens = 2, .max_kept_tails = kept});
    use_at_random({.page_tokens = 2, .window_tokens = 3, .reserved_tails = 2, .max_kept_tails = kept});
  }
}

TEST(RadixTreeRandom, WithReservedTails) {
  for (const std::int64_t reserved : {1, 2, 5}) {
    use_at_random({.page_tokens = 1, .window_tokens = 2, .reserved_tails = reserved});
  }
}

}  // namespace
}  // namespace baleen
