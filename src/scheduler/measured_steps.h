/// What steps have taken, by their rows and how many drafts they checked: seconds of a whole step, drafting
/// included, whatever a draft head charges for it.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace baleen {

/// Seconds of steps of one number of rows beside those of drafts.
class StepCurve {
 public:
  struct Point {
    double drafts_each = 0, seconds = 0;
  };
  /// `with_drafts`: at least one, drafts_each rising from above 0.
  StepCurve(double without_drafts, std::vector<Point> with_drafts);

  [[nodiscard]] double without_drafts() const { return without_drafts_; }
  /// drafts_each: drafts of the step over sequences, which were made, so 0 drafts have the price of drafting.
  /// Below and beyond what was measured the first and the last piece go on, though never below a step without
  /// drafts. Where one number was measured all below it takes as long: all may be the price of drafting.
  [[nodiscard]] double with_drafts(double drafts_each) const;

 private:
  double without_drafts_;
  std::vector<Point> points_;
};

/// Steps are kept apart by their rows without drafts (16 bins to an octave beyond 16) and by levels: level k
/// has k drafts a sequence that decodes, rounded up. A level that was not measured is that of the nearest bin
/// which has it, at most an octave away, in proportion to a level that both have.
class MeasuredSteps {
 public:
  /// Steps of a level after which it is known.
  static constexpr std::int64_t kLeast = 3;

  explicit MeasuredSteps(std::int64_t most_drafts) : num_levels_(most_drafts + 1) {}

  void add(std::int64_t num_rows, double drafts_each, double seconds);
  /// A level had its turn in the step added last, whether it could be met or not.
  void had_turn(std::int64_t num_rows, std::int64_t level);

  /// Whether steps with drafts, at any level, or without were measured often enough at about so many rows.
  [[nodiscard]] bool knows(std::int64_t num_rows, bool with_drafts) const;
  /// Where both are known.
  [[nodiscard]] StepCurve curve(std::int64_t num_rows) const;
  /// The level other than `except` whose last turn is longest ago.
  [[nodiscard]] std::int64_t stalest_level(std::int64_t num_rows, std::int64_t except) const;
  [[nodiscard]] static std::int64_t level_of(double drafts_each) {
    return static_cast<std::int64_t>(std::ceil(drafts_each));
  }

 private:
  /// The last steps of a level. Their median counts: a step that waited for something else does not.
  struct Level {
    static constexpr std::size_t kKept = 7;
    std::array<double, kKept> seconds{}, drafts_each{};
    std::size_t num_added = 0;
    std::int64_t last_turn = -1;  ///< number of the step; -1: none

    [[nodiscard]] bool known() const { return num_added >= static_cast<std::size_t>(kLeast); }
    [[nodiscard]] StepCurve::Point median() const;
  };
  using Levels = std::vector<Level>;

  [[nodiscard]] static std::int64_t bin_of(std::int64_t num_rows);
  [[nodiscard]] Levels& levels_of(std::int64_t num_rows);
  [[nodiscard]] std::optional<StepCurve::Point> point(std::int64_t bin, std::size_t level) const;
  /// How many times as long steps of bin `to` take as those of bin `from`, by the level nearest to `level`
  /// that both know.
  [[nodiscard]] double ratio(const Levels* to, const Levels& from, std::size_t level) const;

  std::int64_t num_levels_;
  std::map<std::int64_t, Levels> bins_;
  std::int64_t num_steps_ = 0;
};

}  // namespace baleen
