/// An axis of a plot: a range of values with round ends, and round ticks on it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace baleen {

/// Of every figure, and of the words in it.
inline constexpr double kFigureWidth = 640, kFigureFont = 12;

enum class Scale : std::uint8_t {
  kLinear,    ///< from 0
  kDecades,   ///< logarithmic; ticks at powers of ten, of short ranges also at their doubles and halves
  kDoublings  ///< logarithmic; ticks at powers of two
};

using TickText = std::function<std::string(double)>;

struct Tick {
  double value = 0;
  std::string text;
};

class Axis {
 public:
  /// Spans [low, high], rounded outwards: a linear axis 0 too, a logarithmic one wants low > 0. `label` says
  /// what is shown, with its unit unless `tick_text` does.
  Axis(Scale scale, double low, double high, std::string label, TickText tick_text);

  /// Where `value` lies between both ends: 0 to 1 for what the axis spans.
  [[nodiscard]] double share_of(double value) const;
  /// But for rounding.
  [[nodiscard]] bool spans(double value) const;
  /// About `wanted` of them, never more than twice as many.
  [[nodiscard]] std::vector<Tick> ticks(int wanted) const;
  [[nodiscard]] double low() const { return low_; }
  [[nodiscard]] double high() const { return high_; }
  [[nodiscard]] const std::string& label() const { return label_; }

 private:
  Scale scale_;
  double low_;
  double high_;
  std::string label_;
  TickText tick_text_;
};

}  // namespace baleen
