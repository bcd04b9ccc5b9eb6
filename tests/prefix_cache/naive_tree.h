/// The prefix cache without a tree: one record a cached page, found by all the tokens up to its end. Nodes
/// are runs of records; whatever is asked is looked up in all of them. Freed pages are simply forgotten.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "prefix_cache/radix_tree.h"

namespace baleen::test {

class NaiveTree {
 public:
  using Prefix = std::vector<TokenId>;

  struct Record {
    PageId page = PageId::kNone;
    PageId window = PageId::kNone;  ///< kNone: dead
    std::int64_t full_lock = 0, window_lock = 0;
    bool ends_node = false, ends_insertion = false, kept_tail = false, lost_window = false;
    std::int64_t last_access = 0;
    [[nodiscard]] friend bool operator==(const Record&, const Record&) = default;
  };
  using Records = std::map<Prefix, Record>;

  /// What a lock holds, one by one.
  struct Lock {
    Prefix end;
    std::vector<Prefix> full, window;
  };

  explicit NaiveTree(RadixTreeOptions options) : options_(options) {}

  [[nodiscard]] const Records& records() const { return records_; }

  /// Pages that match.
  std::int64_t match(const Prefix& tokens) {
    const std::int64_t known = known_pages(tokens);
    if (known > 0) cut(first(tokens, known));
    std::int64_t best = known;
    while (!is_safe(tokens, best)) --best;
    for (std::int64_t begin = 0; begin < best;) {
      const Node node = node_at(first(tokens, begin + 1));
      touch(node);
      begin += static_cast<std::int64_t>(node.size());
    }
    return best;
  }

  Lock lock(const Prefix& tokens) {
    Lock lock{.end = tokens};
    std::int64_t covered = 0;
    for (std::int64_t end = count_pages(tokens); end > 0;) {
      const Node node = node_at(first(tokens, end));
      const bool in_window = covered < options_.window_tokens;
      for (const Prefix& page : node) {
        lock.full.push_back(page);
        if (in_window) lock.window.push_back(page);
        covered += options_.page_tokens;
      }
      end -= static_cast<std::int64_t>(node.size());
    }
    for (const Prefix& page : lock.full) ++records_.at(page).full_lock;
    for (const Prefix& page : lock.window) ++records_.at(page).window_lock;
    return lock;
  }

  void unlock(Lock lock) {
    for (const Prefix& page : lock.window) --records_.at(page).window_lock;
    for (const Prefix& page : lock.full) --records_.at(page).full_lock;
    EvictedPages freed;
    remove_if_dead(lock.end, freed);
  }

  void release_window(Lock& lock) {
    for (const Prefix& page : lock.window) --records_.at(page).window_lock;
    lock.window.clear();
    EvictedPages freed;
    if (!lock.end.empty() && is_leaf(lock.end) && records_.at(lock.end).window_lock == 0) {
      kill(node_at(lock.end), freed);
    }
  }

  /// Pages that were there, and pages of the path afterwards.
  std::pair<std::int64_t, std::int64_t> insert(const Prefix& tokens, const std::vector<PageId>& pages,
                                               const std::vector<PageId>& window,
                                               std::int64_t protected_pages, std::int64_t evicted) {
    const std::int64_t total = count_pages(tokens), known = known_pages(tokens);
    for (std::int64_t begin = 0; begin < known;) {
      Node node = node_at(first(tokens, begin + 1));
      if (begin + static_cast<std::int64_t>(node.size()) > known) cut(first(tokens, known));
      node = node_at(first(tokens, begin + 1));
      touch(node);
      const std::int64_t end = begin + static_cast<std::int64_t>(node.size());
      if (end > protected_pages && is_dead(node.back()) && evicted > begin && evicted < end) {
        cut(first(tokens, evicted));
      }
      begin = end;
    }
    for (std::int64_t i = std::max(protected_pages, evicted); i < known; ++i) {
      Record& record = records_.at(first(tokens, i + 1));
      if (record.window != PageId::kNone) continue;
      record.window = window[static_cast<std::size_t>(i)];
      record.lost_window = false;
      if (record.full_lock == 0) record.page = pages[static_cast<std::size_t>(i)];
    }
    const bool dropped = evicted == total;
    if (!dropped) {
      for (std::int64_t i = known; i < total; ++i) {
        const bool is_new_node = i == known || i == evicted;
        records_[first(tokens, i + 1)] = {.page = pages[static_cast<std::size_t>(i)],
                                          .window = window[static_cast<std::size_t>(i)],
                                          .ends_node = i + 1 == total || i + 1 == evicted,
                                          .last_access = is_new_node ? ++clock_ : clock_};
      }
    }
    const std::int64_t end = dropped ? known : total;
    if (end > 0) finish_tail(first(tokens, end));
    return {known, end};
  }

  void keep_tail(const Prefix& end) {
    if (end.empty() || is_dead(end)) return;
    records_.at(end).kept_tail = true;
    std::vector<std::pair<std::int64_t, Prefix>> kept;  // by use, the latest last
    for (const auto& [key, record] : records_) {
      if (record.kept_tail && !is_leaf(key) && record.window_lock == 0)
        kept.emplace_back(record.last_access, key);
    }
    std::sort(kept.begin(), kept.end());
    EvictedPages freed;
    for (; static_cast<std::int64_t>(kept.size()) > options_.max_kept_tails; kept.erase(kept.begin()))
      kill(node_at(kept.front().second), freed);
  }

  /// `found` pages. Of the nearest cached sequence all that agree longest are equal here: its tokens are left
  /// out.
  [[nodiscard]] PrefixLookup explain(const Prefix& prompt, std::int64_t found) const {
    PrefixLookup lookup{.prompt_tokens = static_cast<std::int64_t>(prompt.size()),
                        .found_tokens = found * options_.page_tokens};
    bool goes_on = false;
    for (const auto& [key, record] : records_) {
      const auto end = std::mismatch(key.begin(), key.end(), prompt.begin(), prompt.end()).first;
      const std::int64_t agreeing = end - key.begin();
      if (agreeing > lookup.first_difference) goes_on = false;
      lookup.first_difference = std::max(lookup.first_difference, agreeing);
      goes_on |= agreeing == lookup.first_difference && end != key.end();
    }
    const std::int64_t useful = prompt.empty() ? 0 : (lookup.prompt_tokens - 1) / options_.page_tokens;
    const std::int64_t known = std::min(useful, lookup.first_difference / options_.page_tokens);
    lookup.lost_tokens = std::max<std::int64_t>(known - found, 0) * options_.page_tokens;
    if (found >= useful) {
      lookup.end = PrefixEnd::kWhole;
    } else if (found < known) {
      const bool lost = records_.at(first(prompt, known)).lost_window;
      lookup.end = lost ? PrefixEnd::kTailEvicted : PrefixEnd::kNoTail;
    } else if (evicted_.contains(first(prompt, found + 1))) {
      lookup.end = PrefixEnd::kEvicted;
    } else if (records_.empty()) {
      lookup.end = PrefixEnd::kEmpty;
    } else {
      lookup.end = goes_on ? PrefixEnd::kDiffers : PrefixEnd::kEnds;
    }
    return lookup;
  }

  EvictedPages evict(std::int64_t num_pages, std::int64_t num_window_pages) {
    EvictedPages freed;
    while (freed.pages < num_pages) {
      const std::optional<Node> victim = oldest(
          [&](const Node& node) { return is_leaf(node.back()) && records_.at(node.back()).full_lock == 0; });
      if (!victim) break;
      remove(*victim, freed);
    }
    if (options_.reserved_tails > 0) {
      const std::int64_t reserved_from = oldest_reserved_access();
      evict_windows(num_window_pages, freed, [&](const Node& node) {
        return !is_tail(node) || records_.at(node.back()).last_access < reserved_from;
      });
    }
    evict_windows(num_window_pages, freed, [](const Node&) { return true; });
    return freed;
  }

 private:
  using Node = std::vector<Prefix>;  ///< its pages, the root's end first

  [[nodiscard]] std::int64_t count_pages(const Prefix& tokens) const {
    return static_cast<std::int64_t>(tokens.size()) / options_.page_tokens;
  }
  [[nodiscard]] Prefix first(const Prefix& tokens, std::int64_t num_pages) const {
    return {tokens.begin(), tokens.begin() + num_pages * options_.page_tokens};
  }
  [[nodiscard]] std::int64_t known_pages(const Prefix& tokens) const {
    std::int64_t known = 0;
    while (known < count_pages(tokens) && records_.contains(first(tokens, known + 1))) ++known;
    return known;
  }
  [[nodiscard]] bool is_dead(const Prefix& page) const { return records_.at(page).window == PageId::kNone; }
  [[nodiscard]] bool is_safe(const Prefix& tokens, std::int64_t num_pages) const {
    for (std::int64_t i = num_pages; i > 0; --i) {
      if ((num_pages - i) * options_.page_tokens >= options_.window_tokens) return true;
      if (is_dead(first(tokens, i))) return false;
    }
    return true;
  }
  [[nodiscard]] std::vector<Prefix> extensions(const Prefix& prefix) const {
    std::vector<Prefix> found;
    for (const auto& [key, record] : records_) {
      const bool one_page_more = key.size() == prefix.size() + static_cast<std::size_t>(options_.page_tokens);
      if (one_page_more && std::equal(prefix.begin(), prefix.end(), key.begin())) found.push_back(key);
    }
    return found;
  }
  [[nodiscard]] bool is_leaf(const Prefix& end) const { return extensions(end).empty(); }
  [[nodiscard]] bool is_tail(const Node& node) const {
    const std::size_t num_children = extensions(node.back()).size();
    return num_children == 0 || (num_children > 1 && records_.at(node.back()).ends_insertion);
  }

  /// The node that holds `page`.
  [[nodiscard]] Node node_at(const Prefix& page) const {
    Node node{page};
    while (count_pages(node.front()) > 1) {
      const Prefix before = first(node.front(), count_pages(node.front()) - 1);
      if (records_.at(before).ends_node) break;
      node.insert(node.begin(), before);
    }
    while (!records_.at(node.back()).ends_node) node.push_back(extensions(node.back()).at(0));
    return node;
  }

  template <class Wanted>
  [[nodiscard]] std::optional<Node> oldest(Wanted wanted) const {
    std::optional<Node> best;
    for (const auto& [key, record] : records_) {
      if (!record.ends_node || (best && records_.at(best->back()).last_access < record.last_access)) continue;
      if (Node node = node_at(key); wanted(node)) best = std::move(node);
    }
    return best;
  }

  void touch(const Node& node) {
    ++clock_;
    for (const Prefix& page : node) records_.at(page).last_access = clock_;
  }

  /// Lets a node end at `end`.
  void cut(const Prefix& end) {
    if (records_.at(end).ends_node) return;
    const Prefix after = extensions(end).at(0);
    records_.at(end).ends_node = true;
    touch(node_at(end));
    touch(node_at(after));
  }

  void finish_tail(const Prefix& end) {
    records_.at(end).ends_insertion = true;
    const Node node = node_at(end);
    const std::int64_t tail_pages =
        (options_.window_tokens + options_.page_tokens - 1) / options_.page_tokens;
    const std::int64_t body = static_cast<std::int64_t>(node.size()) - tail_pages;
    if (!is_dead(end) && body > 0) cut(node[static_cast<std::size_t>(body - 1)]);
  }

  template <class MayEvict>
  void evict_windows(std::int64_t num_window_pages, EvictedPages& freed, MayEvict may_evict) {
    while (freed.window_pages < num_window_pages) {
      const std::optional<Node> victim = oldest([&](const Node& node) {
        return !is_dead(node.back()) && records_.at(node.back()).window_lock == 0 && may_evict(node);
      });
      if (!victim) return;
      if (is_leaf(victim->back()) && records_.at(victim->back()).full_lock == 0) {
        remove(*victim, freed);
      } else {
        kill(*victim, freed);
      }
    }
  }

  [[nodiscard]] std::int64_t oldest_reserved_access() const {
    std::vector<std::int64_t> accesses;
    for (const auto& [key, record] : records_) {
      if (!record.ends_node || is_dead(key) || record.window_lock > 0 || !is_tail(node_at(key))) continue;
      accesses.push_back(record.last_access);
    }
    std::sort(accesses.rbegin(), accesses.rend());
    const auto reserved = static_cast<std::size_t>(options_.reserved_tails);
    return accesses.size() < reserved ? 0 : accesses[reserved - 1];
  }

  void kill(const Node& node, EvictedPages& freed) {
    for (const Prefix& page : node) {
      Record& record = records_.at(page);
      if (!is_dead(page)) {
        ++freed.window_pages;
        record.lost_window = true;
      }
      record.window = PageId::kNone;
      record.kept_tail = false;
    }
  }

  void remove(const Node& node, EvictedPages& freed) {
    kill(node, freed);
    evicted_.insert(node.front());
    for (const Prefix& page : node) records_.erase(page);
    freed.pages += static_cast<std::int64_t>(node.size());
    remove_if_dead(first(node.front(), count_pages(node.front()) - 1), freed);
  }

  void remove_if_dead(const Prefix& end, EvictedPages& freed) {
    if (end.empty() || !is_leaf(end) || !is_dead(end) || records_.at(end).full_lock > 0) return;
    remove(node_at(end), freed);
  }

  RadixTreeOptions options_;
  Records records_;
  std::set<Prefix> evicted_;  ///< to the end of the first page of every node that was removed
  std::int64_t clock_ = 0;
};

}  // namespace baleen::test
