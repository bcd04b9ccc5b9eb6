/// Pages whose content follows from their number, so that what comes back can be judged.
#pragma once

#include <random>
#include <span>
#include <vector>

#include "disk_tier/page_file.h"

namespace baleen::test {

/// Page number `number` of the one prefix of all tests.
struct TestPage {
  std::vector<TokenId> tokens;
  PageKey key;
  StoredPage content;
};

inline std::vector<std::byte> random_bytes(std::mt19937_64& random, std::int64_t count) {
  std::vector<std::uint64_t> words(static_cast<std::size_t>(count) / sizeof(std::uint64_t) + 1);
  for (std::uint64_t& word : words) word = random();
  const auto bytes = std::as_bytes(std::span(words)).first(static_cast<std::size_t>(count));
  return {bytes.begin(), bytes.end()};
}

inline TestPage test_page(std::uint32_t number, const PageFileShape& shape, bool with_window = true) {
  std::mt19937_64 random(number);
  TestPage page;
  for (std::int64_t i = 0; i < kPageTokens; ++i) page.tokens.push_back(static_cast<TokenId>(random() % 1000));
  page.key = page_key(shape.root, page.tokens);
  page.content.page = random_bytes(random, shape.page_bytes);
  if (with_window) page.content.window = random_bytes(random, shape.window_page_bytes);
  return page;
}

inline bool same_content(const StoredPage& a, const StoredPage& b) {
  return a.page == b.page && a.window == b.window;
}

}  // namespace baleen::test
