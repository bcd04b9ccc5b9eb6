#include "grammar/split_cache.h"

#include <utility>

namespace baleen {

std::shared_ptr<const TokenSplit> SplitCache::find(std::string_view key) const {
  const std::lock_guard lock(mutex_);
  const auto found = splits_.find(key);
  return found == splits_.end() ? nullptr : found->second;
}

void SplitCache::insert(std::string_view key, std::shared_ptr<const TokenSplit> split,
                        std::size_t size_bytes) {
  const std::lock_guard lock(mutex_);
  if (used_bytes_ + size_bytes > kBudgetBytes) {
    splits_.clear();
    used_bytes_ = 0;
  }
  if (splits_.try_emplace(std::string(key), std::move(split)).second) used_bytes_ += size_bytes + key.size();
}

}  // namespace baleen
