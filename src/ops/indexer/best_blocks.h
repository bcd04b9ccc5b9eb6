/// The best blocks of a stream of scored entries, by their best entry. (indexer.h)
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "ops/indexer/top_k.h"

namespace baleen {

class BestBlocks {
 public:
  /// Of `num_blocks` blocks the last one, which has the newest entry, is chosen in any case and not scored.
  /// `buffer`: at best twice `count` elements.
  BestBlocks(std::span<ScoredIndex> buffer, std::int64_t count, std::int64_t size, std::int64_t num_blocks)
      : top_(buffer, count - 1), size_(size), newest_(num_blocks - 1), takes_others_(count > 1) {}

  /// In ascending order of entry; a stream begins at the first entry of a block.
  void offer(float score, std::int64_t entry) {
    if (entry / size_ != block_) {
      end_block();
      block_ = entry / size_;
    }
    if (score > best_) best_ = score;  // not by NaN
  }
  /// Behind the last entry.
  void end_block() {
    if (block_ >= 0 && block_ < newest_ && takes_others_)
      top_.offer(best_, static_cast<std::int32_t>(block_));
    best_ = -std::numeric_limits<float>::infinity();
  }
  /// Without the newest entry's.
  [[nodiscard]] std::span<const ScoredIndex> best_others() { return top_.best(); }

 private:
  TopK top_;
  std::int64_t size_, newest_;
  bool takes_others_;
  std::int64_t block_ = -1;
  float best_ = -std::numeric_limits<float>::infinity();
};

/// `others` ascending, the block of the newest entry behind them, then -1.
inline void write_blocks(std::span<const ScoredIndex> others, std::int64_t newest,
                         std::span<std::int32_t> chosen) {
  write_selection(others, chosen);
  chosen[others.size()] = static_cast<std::int32_t>(newest);
}

}  // namespace baleen
