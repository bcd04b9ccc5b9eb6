/// The keys that a query scores, ascending: all that it sees, or of those the ones in the blocks it is given.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "ops/indexer/indexer.h"

namespace baleen {

class KeyList {
 public:
  KeyList(const IndexerArgs& args, std::int64_t row) : block_size_(args.blocks.size) {
    const SequenceSlice& slice = args.batch.slice_of(row);
    num_visible_ = size_ = (slice.start + row - slice.first_row + 1) / args.ratio;
    if (!args.blocks.are_given()) return;
    blocks_ = args.blocks.given.row(row);
    // Blocks ascend, so those that exist and begin among what is visible come first, and the last one alone
    // may reach beyond.
    const auto end = std::ranges::find_if(
        blocks_, [this](std::int32_t block) { return block < 0 || block * block_size_ >= num_visible_; });
    blocks_ = blocks_.first(static_cast<std::size_t>(end - blocks_.begin()));
    size_ = std::ssize(blocks_) * block_size_;
    if (size_ > 0) size_ -= std::max<std::int64_t>(0, (blocks_.back() + 1) * block_size_ - num_visible_);
    given_ = true;
  }

  [[nodiscard]] std::int64_t size() const { return size_; }
  /// Blocks of what the query sees.
  [[nodiscard]] std::int64_t num_blocks() const { return (num_visible_ + block_size_ - 1) / block_size_; }
  /// Number of the i-th in the sequence.
  [[nodiscard]] std::int64_t operator[](std::int64_t i) const {
    return given_ ? blocks_[static_cast<std::size_t>(i / block_size_)] * block_size_ + i % block_size_ : i;
  }
  /// Whether `count` from the i-th on are neighbours in the sequence.
  [[nodiscard]] bool is_run(std::int64_t i, std::int64_t count) const {
    return !given_ || (*this)[i + count - 1] - (*this)[i] == count - 1;
  }

 private:
  std::int64_t block_size_;
  std::int64_t num_visible_ = 0, size_ = 0;
  bool given_ = false;
  std::span<const std::int32_t> blocks_;
};

}  // namespace baleen
