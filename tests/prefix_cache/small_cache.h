/// Two pools and a tree of one-token pages with a window of four, as in the specification's examples.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "prefix_cache/radix_tree.h"

namespace baleen::test {

using Tokens = std::vector<TokenId>;
using Pages = std::vector<PageId>;

inline Tokens token_range(TokenId begin, TokenId end) {
  Tokens tokens(static_cast<std::size_t>(end - begin));
  std::iota(tokens.begin(), tokens.end(), begin);
  return tokens;
}

inline Pages allocate_pages(PageAllocator& pool, std::int64_t count) {
  Pages pages;
  for (std::int64_t i = 0; i < count; ++i) pages.push_back(pool.allocate().value());
  return pages;
}

class SmallCache {
 public:
  explicit SmallCache(std::int64_t reserved_tails = 0)
      : tree(pages, window_pages, {.page_tokens = 1, .window_tokens = 4, .reserved_tails = reserved_tails}) {}

  /// Pages of a finished sequence, lowest free numbers first, without the first `evicted` window pages.
  PrefixInsertion insert(const Tokens& tokens, std::int64_t evicted = 0) {
    const auto count = static_cast<std::int64_t>(tokens.size());
    Pages window(static_cast<std::size_t>(evicted), PageId::kNone);
    for (const PageId page : allocate_pages(window_pages, count - evicted)) window.push_back(page);
    return tree.insert(tokens, allocate_pages(pages, count), window, 0, evicted);
  }

  /// A sequence that began with all that `path` holds.
  PrefixInsertion extend(PrefixMatch path, const Tokens& tokens) {
    const auto count = static_cast<std::int64_t>(tokens.size());
    for (const PageId page : allocate_pages(pages, count - path.num_tokens)) path.pages.push_back(page);
    for (const PageId page : allocate_pages(window_pages, count - path.num_tokens)) {
      path.window_pages.push_back(page);
    }
    return tree.insert(tokens, path.pages, path.window_pages, path.num_tokens, 0);
  }

  PrefixMatch match(const Tokens& tokens) { return tree.match(tokens); }

  /// One line a node: tokens, pages, window pages or "dead"; children below, two columns in.
  std::string picture() {
    std::string text;
    draw(*tree.match({}).node, "", text);
    return text;
  }

  std::int64_t pages_in_use() const { return pages.num_pages() - pages.num_free(); }
  std::int64_t window_pages_in_use() const { return window_pages.num_pages() - window_pages.num_free(); }

  PageAllocator pages{100}, window_pages{100};
  RadixTree tree;

 private:
  static std::string numbers(const Pages& pages) {
    std::vector<int> values;
    for (const PageId page : pages) values.push_back(static_cast<int>(page));
    return fmt::format("{}", fmt::join(values, ","));
  }

  static void draw(const RadixNode& node, const std::string& indent, std::string& text) {
    if (!node.is_root()) {
      text += fmt::format("{}{} pages {} {}\n", indent, fmt::join(node.tokens, ","), numbers(node.pages),
                          node.tombstone() ? "dead" : "window " + numbers(node.window_pages));
    }
    for (const auto& [first_page, child] : node.children) {
      draw(*child, node.is_root() ? indent : indent + "  ", text);
    }
  }
};

}  // namespace baleen::test
