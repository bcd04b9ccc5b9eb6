// Why no more of a prompt was found: for people, so nothing here decides anything.
#include <xxhash.h>

#include <algorithm>

#include "prefix_cache/radix_tree.h"

namespace baleen {
namespace {

/// Evicted pages that are remembered.
constexpr std::size_t kMaxRemembered = 4096;

std::int64_t common_tokens(std::span<const TokenId> a, std::span<const TokenId> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

}  // namespace

PrefixLookup RadixTree::explain(std::span<const TokenId> prompt, std::int64_t found_tokens) const {
  const auto whole_pages = [&](std::int64_t tokens) {
    return std::max<std::int64_t>(tokens, 0) / options_.page_tokens * options_.page_tokens;
  };
  PrefixLookup lookup{.prompt_tokens = std::ssize(prompt), .found_tokens = found_tokens};

  // As far as whole pages agree; `node` is where that ends, `nearest` what is cached from there on.
  const RadixNode* node = &root_;
  std::vector<const RadixNode*> path;
  std::span<const TokenId> rest = prompt, nearest;
  while (const RadixNode* child = child_at(*node, rest)) {
    path.push_back(child);
    const std::int64_t common = shared_pages(*child, rest) * options_.page_tokens;
    rest = rest.subspan(static_cast<std::size_t>(common));
    nearest = std::span(child->tokens).subspan(static_cast<std::size_t>(common));
    if (!nearest.empty()) break;
    node = child;
  }
  // In the next page the child agrees longest that is next to the prompt in their order.
  if (nearest.empty() && !node->children.empty()) {
    auto next = node->children.lower_bound(rest);
    const auto consider = [&](const RadixNode& child) {
      if (nearest.empty() || common_tokens(rest, child.tokens) > common_tokens(rest, nearest))
        nearest = child.tokens;
    };
    if (next != node->children.end()) consider(*next->second);
    if (next != node->children.begin()) consider(*std::prev(next)->second);
  }
  const std::int64_t agreeing = common_tokens(rest, nearest);
  lookup.first_difference = std::ssize(prompt) - std::ssize(rest) + agreeing;
  const auto differing = nearest.subspan(static_cast<std::size_t>(agreeing));
  const auto shown = std::min<std::size_t>(differing.size(), PrefixLookup::kMaxCachedTokens);
  lookup.cached_tokens.assign(differing.begin(), differing.begin() + static_cast<std::ptrdiff_t>(shown));

  const std::int64_t useful = whole_pages(std::ssize(prompt) - 1);
  const std::int64_t known = std::min(whole_pages(lookup.first_difference), useful);
  lookup.lost_tokens = std::max<std::int64_t>(known - found_tokens, 0);
  // Pages from elsewhere, a disk, may reach beyond the tree's.
  lookup.first_difference = std::max(lookup.first_difference, found_tokens);
  const auto next_was_evicted = [&] {
    const std::int64_t end = found_tokens + options_.page_tokens;
    return end <= std::ssize(prompt) &&
           evicted_set_.contains(hash_pages(0, prompt.first(static_cast<std::size_t>(end))));
  };
  if (found_tokens >= useful) {
    lookup.end = PrefixEnd::kWhole;
  } else if (found_tokens < known) {
    std::int64_t end = 0;
    const auto last =
        std::ranges::find_if(path, [&](const RadixNode* at) { return (end += at->num_tokens()) >= known; });
    lookup.end = (*last)->lost_windows ? PrefixEnd::kTailEvicted : PrefixEnd::kNoTail;
  } else if (next_was_evicted()) {
    lookup.end = PrefixEnd::kEvicted;
  } else if (root_.is_leaf()) {
    lookup.end = PrefixEnd::kEmpty;
  } else {
    lookup.end = differing.empty() || found_tokens > known ? PrefixEnd::kEnds : PrefixEnd::kDiffers;
  }
  return lookup;
}

std::uint64_t RadixTree::hash_pages(std::uint64_t before, std::span<const TokenId> pages) const {
  const auto page_tokens = static_cast<std::size_t>(options_.page_tokens);
  for (; !pages.empty(); pages = pages.subspan(page_tokens))
    before = XXH3_64bits_withSeed(pages.data(), page_tokens * sizeof(TokenId), before);
  return before;
}

void RadixTree::remember_evicted(const RadixNode& leaf) {
  evicted_.push_back(hash_pages(leaf.hash_before, first_page(leaf)));
  evicted_set_.insert(evicted_.back());
  if (evicted_.size() <= kMaxRemembered) return;
  evicted_set_.erase(evicted_set_.find(evicted_.front()));
  evicted_.pop_front();
}

}  // namespace baleen
