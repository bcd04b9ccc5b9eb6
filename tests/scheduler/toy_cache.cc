#include "tests/scheduler/toy_cache.h"

#include "base/check.h"

namespace baleen {

std::size_t ToyCache::match(std::span<const History> page_keys) {
  std::size_t num_pages = 0;
  ++now_;
  for (; num_pages < page_keys.size(); ++num_pages) {
    const auto found = pages_.find(page_keys[num_pages]);
    if (found == pages_.end()) break;
    ++found->second.locks;
    found->second.last_use = now_;
  }
  return num_pages;
}

void ToyCache::unlock(std::span<const History> page_keys) {
  for (const History key : page_keys) BALEEN_CHECK_LE(0, --pages_.at(key).locks);
}

bool ToyCache::take(std::int64_t num_pages) {
  while (use_.free < num_pages && evict_one()) {
  }
  if (use_.free < num_pages) return false;
  use_.free -= num_pages;
  use_.in_use += num_pages;
  return true;
}

void ToyCache::give_back(std::int64_t num_pages) {
  use_.in_use -= num_pages;
  use_.free += num_pages;
  BALEEN_CHECK_LE(0, use_.in_use);
}

void ToyCache::insert(History parent, History key) {
  --use_.in_use;
  BALEEN_CHECK_LE(0, use_.in_use);
  const auto [found, is_new] = pages_.try_emplace(key);
  Page& page = found->second;
  if (is_new) {
    page.parent = parent;
    if (parent != kNoHistory) ++pages_.at(parent).children;
    ++use_.cached;
  } else {
    ++use_.free;
  }
  ++page.locks;
  page.last_use = ++now_;
}

bool ToyCache::evict_one() {
  auto oldest = pages_.end();
  for (auto it = pages_.begin(); it != pages_.end(); ++it) {
    const Page& page = it->second;
    if (page.locks > 0 || page.children > 0) continue;
    if (oldest == pages_.end() || page.last_use < oldest->second.last_use) oldest = it;
  }
  if (oldest == pages_.end()) return false;
  if (oldest->second.parent != kNoHistory) --pages_.at(oldest->second.parent).children;
  pages_.erase(oldest);
  --use_.cached;
  ++use_.free;
  return true;
}

}  // namespace baleen
