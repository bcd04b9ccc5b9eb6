#include "scheduler/measured_steps.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/check.h"

namespace baleen {
namespace {

constexpr std::int64_t kBinsOfOctave = 16;

/// The logarithm of a bin's rows, base 2.
double octave_of(std::int64_t bin) {
  if (bin <= kBinsOfOctave) return std::log2(static_cast<double>(bin));
  return static_cast<double>(bin - kBinsOfOctave) / static_cast<double>(kBinsOfOctave) +
         std::log2(static_cast<double>(kBinsOfOctave));
}

template <std::size_t size>
double median_of(std::array<double, size> values, std::size_t count) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((count - 1) / 2);
  std::nth_element(values.begin(), middle, values.begin() + static_cast<std::ptrdiff_t>(count));
  return *middle;
}

}  // namespace

StepCurve::StepCurve(double without_drafts, std::vector<Point> with_drafts)
    : without_drafts_(without_drafts), points_(std::move(with_drafts)) {
  BALEEN_CHECK(!points_.empty());
  // More rows never take less: what looks so is noise.
  double most = without_drafts_;
  for (Point& point : points_) most = point.seconds = std::max(most, point.seconds);
}

double StepCurve::with_drafts(double drafts_each) const {
  if (points_.size() == 1 && drafts_each <= points_.front().drafts_each) return points_.front().seconds;
  Point from{.drafts_each = 0, .seconds = without_drafts_}, to = points_.front();
  for (std::size_t i = 1; i < points_.size(); ++i) {
    from = std::exchange(to, points_[i]);
    if (drafts_each <= to.drafts_each) break;
  }
  const double share = (drafts_each - from.drafts_each) / (to.drafts_each - from.drafts_each);
  return std::max(without_drafts_, from.seconds + share * (to.seconds - from.seconds));
}

StepCurve::Point MeasuredSteps::Level::median() const {
  const std::size_t count = std::min(num_added, kKept);
  return {.drafts_each = median_of(drafts_each, count), .seconds = median_of(seconds, count)};
}

std::int64_t MeasuredSteps::bin_of(std::int64_t num_rows) {
  if (num_rows <= kBinsOfOctave) return num_rows;
  const double octaves = std::log2(static_cast<double>(num_rows) / static_cast<double>(kBinsOfOctave));
  return kBinsOfOctave + static_cast<std::int64_t>(octaves * static_cast<double>(kBinsOfOctave));
}

MeasuredSteps::Levels& MeasuredSteps::levels_of(std::int64_t num_rows) {
  Levels& levels = bins_[bin_of(num_rows)];
  levels.resize(static_cast<std::size_t>(num_levels_));
  return levels;
}

void MeasuredSteps::add(std::int64_t num_rows, double drafts_each, double seconds) {
  const std::int64_t number = std::min(level_of(drafts_each), num_levels_ - 1);
  Level& level = levels_of(num_rows)[static_cast<std::size_t>(number)];
  const std::size_t place = level.num_added++ % Level::kKept;
  level.seconds[place] = seconds;
  level.drafts_each[place] = drafts_each;
  level.last_turn = num_steps_++;
}

void MeasuredSteps::had_turn(std::int64_t num_rows, std::int64_t level) {
  levels_of(num_rows)[static_cast<std::size_t>(level)].last_turn = num_steps_;
}

double MeasuredSteps::ratio(const Levels* to, const Levels& from, std::size_t level) const {
  if (to == nullptr) return 1;
  for (std::size_t distance = 1; distance < from.size(); ++distance) {
    for (const std::size_t other : {level - distance, level + distance}) {  // below 0: beyond all
      if (other >= from.size() || !from[other].known() || !(*to)[other].known()) continue;
      return (*to)[other].median().seconds / from[other].median().seconds;
    }
  }
  return 1;
}

std::optional<StepCurve::Point> MeasuredSteps::point(std::int64_t bin, std::size_t level) const {
  const auto own = bins_.find(bin);
  const Levels* const levels = own == bins_.end() ? nullptr : &own->second;
  if (levels != nullptr && (*levels)[level].known()) return (*levels)[level].median();
  double nearest = 1;  // octaves, at most
  const Levels* from = nullptr;
  for (const auto& [other, of_other] : bins_) {
    const double distance = std::abs(octave_of(other) - octave_of(bin));
    if (distance > nearest || !of_other[level].known()) continue;
    nearest = distance;
    from = &of_other;
  }
  if (from == nullptr) return std::nullopt;
  StepCurve::Point point = (*from)[level].median();
  point.seconds *= ratio(levels, *from, level);
  return point;
}

bool MeasuredSteps::knows(std::int64_t num_rows, bool with_drafts) const {
  const std::int64_t bin = bin_of(num_rows);
  if (!with_drafts) return point(bin, 0).has_value();
  for (std::int64_t level = 1; level < num_levels_; ++level) {
    if (point(bin, static_cast<std::size_t>(level))) return true;
  }
  return false;
}

StepCurve MeasuredSteps::curve(std::int64_t num_rows) const {
  const std::int64_t bin = bin_of(num_rows);
  std::vector<StepCurve::Point> with_drafts;
  for (std::int64_t level = 1; level < num_levels_; ++level) {
    if (const auto found = point(bin, static_cast<std::size_t>(level))) with_drafts.push_back(*found);
  }
  return {point(bin, 0).value().seconds, std::move(with_drafts)};
}

std::int64_t MeasuredSteps::stalest_level(std::int64_t num_rows, std::int64_t except) const {
  const auto own = bins_.find(bin_of(num_rows));
  std::int64_t stalest = except == 0 ? 1 : 0;
  if (own == bins_.end()) return stalest;
  const auto turn = [&](std::int64_t level) {
    return own->second[static_cast<std::size_t>(level)].last_turn;
  };
  for (std::int64_t level = 0; level < num_levels_; ++level) {
    if (level != except && turn(level) < turn(stalest)) stalest = level;
  }
  return stalest;
}

}  // namespace baleen
