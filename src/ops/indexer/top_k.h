/// The best `top_k` of a stream of scored indices, in memory that does not grow with the stream.
///
/// A buffer of twice top_k collects what beats the threshold. When it is full, the best top_k stay and the
/// worst of them is the new threshold; so an index costs one comparison, and rarely more. "Better" is a total
/// order (higher score first, then lower index; NaN is the lowest score), so the selection does not depend on
/// how the stream was cut.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>

namespace baleen {

struct ScoredIndex {
  float score = 0.0F;
  std::int32_t index = 0;
};

[[nodiscard]] inline bool better(const ScoredIndex& a, const ScoredIndex& b) {
  return a.score > b.score || (a.score == b.score && a.index < b.index);
}

class TopK {
 public:
  /// `buffer`: more than top_k elements, at best twice as many; top_k >= 1.
  TopK(std::span<ScoredIndex> buffer, std::int64_t top_k) : buffer_(buffer), top_k_(top_k) {}

  /// Only a score above it can still enter, once it `has_threshold`: until then everything does.
  [[nodiscard]] float threshold() const { return threshold_; }
  [[nodiscard]] bool has_threshold() const { return has_threshold_; }

  /// In ascending order of index.
  void offer(float score, std::int32_t index) {
    if (std::isnan(score)) score = -std::numeric_limits<float>::infinity();
    if (has_threshold_ && score <= threshold_) return;
    if (size_ == static_cast<std::int64_t>(buffer_.size())) {
      keep_best();
      threshold_ = std::max_element(buffer_.begin(), buffer_.begin() + top_k_, better)->score;
      has_threshold_ = true;
      if (score <= threshold_) return;
    }
    buffer_[static_cast<std::size_t>(size_++)] = {score, index};
  }

  /// The best top_k, or all if fewer were offered, in no order.
  [[nodiscard]] std::span<const ScoredIndex> best() {
    keep_best();
    return buffer_.first(static_cast<std::size_t>(size_));
  }

 private:
  void keep_best() {
    if (size_ <= top_k_) return;
    std::nth_element(buffer_.begin(), buffer_.begin() + top_k_, buffer_.begin() + size_, better);
    size_ = top_k_;
  }

  std::span<ScoredIndex> buffer_;
  std::int64_t top_k_;
  std::int64_t size_ = 0;
  float threshold_ = -std::numeric_limits<float>::infinity();
  bool has_threshold_ = false;
};

/// The indices of `best` in ascending order, then -1 up to the end of `selected`.
inline void write_selection(std::span<const ScoredIndex> best, std::span<std::int32_t> selected) {
  const auto end = std::transform(best.begin(), best.end(), selected.begin(),
                                  [](const ScoredIndex& scored) { return scored.index; });
  std::sort(selected.begin(), end);
  std::fill(end, selected.end(), -1);
}

/// 0, 1, ... count - 1, then -1: what is selected when no more than fit are visible.
inline void select_all(std::int64_t count, std::span<std::int32_t> selected) {
  const auto end = selected.begin() + count;
  std::iota(selected.begin(), end, 0);
  std::fill(end, selected.end(), -1);
}

}  // namespace baleen
