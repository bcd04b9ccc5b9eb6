/// Horizontal bars of coloured pieces along one axis, as SVG: shares of a whole, or spans of time.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plots/axis.h"

namespace baleen {

struct BarPiece {
  double begin = 0;
  double length = 0;
  std::string style;  ///< classes
  std::string title;  ///< what hovering shows
};

struct Bar {
  std::string label;  ///< to the left of it
  std::vector<BarPiece> pieces;
  std::string figure;  ///< to the right of its end

  /// Behind the last piece.
  void append(double length, std::string style, std::string title);
  [[nodiscard]] double end() const;
};

struct BarLimit {
  double value = 0;
  std::string label;
};

/// `axis` is linear. `limit` is a line across all bars. `name` says what the chart is to those who do not see
/// it.
[[nodiscard]] std::string bar_chart(const std::vector<Bar>& bars, const Axis& axis, std::string_view name,
                                    const std::optional<BarLimit>& limit = std::nullopt);

}  // namespace baleen
