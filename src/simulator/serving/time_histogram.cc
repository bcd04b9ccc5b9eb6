#include "simulator/serving/time_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace baleen {
namespace {

/// A cell is a double's exponent and the first bits of its fraction, so the cells of rising values are in
/// order.
constexpr int kFractionBits = 7, kDroppedBits = 52 - kFractionBits;
/// Durations below about a nanosecond fall into the first cell, above some thirty years into the last one.
constexpr std::int64_t kFirstCell = std::int64_t{1023 - 30} << kFractionBits;
constexpr std::int64_t kNumCells = std::int64_t{60} << kFractionBits;

std::int64_t cell_of(double seconds) {
  const auto cell = static_cast<std::int64_t>(std::bit_cast<std::uint64_t>(seconds) >> kDroppedBits);
  return std::clamp<std::int64_t>(cell - kFirstCell, 0, kNumCells - 1);
}

double middle_of(std::int64_t cell) {
  const auto begin_of = [](std::int64_t at) {
    return std::bit_cast<double>(static_cast<std::uint64_t>(at + kFirstCell) << kDroppedBits);
  };
  return (begin_of(cell) + begin_of(cell + 1)) / 2;
}

}  // namespace

void TimeHistogram::flush() const {
  if (run_count_ == 0) return;
  cells_.resize(kNumCells);
  cells_[static_cast<std::size_t>(cell_of(run_value_))] += run_count_;
  sum_ += run_value_ * static_cast<double>(run_count_);
  count_ += run_count_;
  run_count_ = 0;
}

std::int64_t TimeHistogram::count() const {
  flush();
  return count_;
}

double TimeHistogram::mean() const {
  flush();
  return count_ == 0 ? 0 : sum_ / static_cast<double>(count_);
}

double TimeHistogram::quantile(double quantile) const {
  flush();
  const auto rank = static_cast<std::int64_t>(std::ceil(quantile * static_cast<double>(count_)));
  std::int64_t below = 0;
  for (std::size_t cell = 0; cell < cells_.size(); ++cell) {
    below += cells_[cell];
    if (below >= rank && below > 0) return middle_of(static_cast<std::int64_t>(cell));
  }
  return 0;
}

}  // namespace baleen
