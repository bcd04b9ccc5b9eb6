/// A pool of pages and a prefix cache of whole pages, as simple as can be: a page's key is the hash of all
/// tokens up to its end.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "engine/step_engine.h"
#include "tests/scheduler/fake_model.h"

namespace baleen {

class ToyCache {
 public:
  explicit ToyCache(std::int64_t num_pages) : use_{.total = num_pages, .free = num_pages} {}

  /// Locks the longest cached beginning of these pages; how many.
  [[nodiscard]] std::size_t match(std::span<const History> page_keys);
  void unlock(std::span<const History> page_keys);
  /// Takes private pages, evicting what is not locked. False, taking nothing, when there are too few.
  [[nodiscard]] bool take(std::int64_t num_pages);
  void give_back(std::int64_t num_pages);
  /// A private page becomes the cache's, locked; where the cache has it already, the private one is freed.
  void insert(History parent, History key);

  [[nodiscard]] const PoolUse& use() const { return use_; }

 private:
  struct Page {
    History parent = kNoHistory;
    std::int64_t locks = 0, children = 0, last_use = 0;
  };
  bool evict_one();

  PoolUse use_;
  std::map<History, Page> pages_;
  std::int64_t now_ = 0;
};

}  // namespace baleen
