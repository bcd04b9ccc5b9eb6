#include "plots/bar_chart.h"

#include <fmt/format.h>

#include <algorithm>

#include "plots/markup.h"

namespace baleen {
namespace {

// Pixels of the drawing; the page scales it.
constexpr double kRow = 22, kThickness = 14;
constexpr double kBarsTop = 8, kBarsBottom = 44, kBarGap = 7;
constexpr double kLeastWidth = 0.75;  ///< pixels that a piece is wide at least, so that it can be seen at all
constexpr int kTicks = 6;

std::string words(std::string_view style, double x, double y, std::string_view anchor,
                  std::string_view what) {
  return fmt::format(R"(<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>)", style, x, y,
                     anchor, escaped(what));
}

}  // namespace

void Bar::append(double length, std::string style, std::string title) {
  pieces.push_back({end(), length, std::move(style), std::move(title)});
}

double Bar::end() const { return pieces.empty() ? 0 : pieces.back().begin + pieces.back().length; }

std::string bar_chart(const std::vector<Bar>& bars, const Axis& axis, std::string_view name,
                      const std::optional<BarLimit>& limit) {
  double left = 0, right = kFigureWidth - kBarGap;
  for (const Bar& bar : bars) left = std::max(left, text_width(bar.label, kFigureFont) + kBarGap);
  // Every bar's figure fits behind its end.
  for (const Bar& bar : bars) {
    const double share = axis.share_of(bar.end());
    const double room = text_width(bar.figure, kFigureFont) + 2 * kBarGap;
    if (share > 0 && left + share * (right - left) + room > kFigureWidth)
      right = left + (kFigureWidth - room - left) / share;
  }
  const auto px = [&](double value) { return left + axis.share_of(value) * (right - left); };

  const double top = kBarsTop + (limit ? kFigureFont + kBarGap : 0),
               bottom = top + kRow * static_cast<double>(bars.size());
  const double height = bottom + kBarsBottom;
  std::string text;
  const std::vector<Tick> ticks = axis.ticks(kTicks);
  for (const Tick& tick : ticks) {
    const double x = px(tick.value), half = text_width(tick.text, kFigureFont) / 2;
    text += fmt::format(R"(<line class="grid" x1="{0:.1f}" y1="{1:.1f}" x2="{0:.1f}" y2="{2:.1f}"/>)", x, top,
                        bottom);
    text += words("tick", std::clamp(x, half, kFigureWidth - half), bottom + 18, "middle", tick.text);
  }
  text += words("axis", (left + right) / 2, height - 6, "middle", axis.label());
  double row = top;
  for (const Bar& bar : bars) {
    const double middle = row + kRow / 2, baseline = middle + 0.35 * kFigureFont;
    text += R"(<g class="bar">)" + words("name", left - kBarGap, baseline, "end", bar.label);
    for (const BarPiece& piece : bar.pieces) {
      const double begin = px(piece.begin),
                   width = std::max(kLeastWidth, px(piece.begin + piece.length) - begin);
      text += fmt::format(
          R"(<rect class="piece {}" x="{:.2f}" y="{:.1f}" width="{:.2f}" height="{}"><title>{}</title></rect>)",
          escaped(piece.style), std::min(begin, px(axis.high()) - width), middle - kThickness / 2, width,
          kThickness, escaped(piece.title));
    }
    text += words("figure", px(bar.end()) + kBarGap, baseline, "start", bar.figure) + "</g>";
    row += kRow;
  }
  text += fmt::format(R"(<line class="base" x1="{0:.1f}" y1="{1:.1f}" x2="{0:.1f}" y2="{2:.1f}"/>)", left,
                      top, bottom);
  if (limit) {
    const double x = px(limit->value), width = text_width(limit->label, kFigureFont);
    text += fmt::format(R"(<line class="limit" x1="{0:.1f}" y1="{1:.1f}" x2="{0:.1f}" y2="{2:.1f}"/>)", x,
                        top - 3, bottom);
    text += words("note", std::clamp(x, width / 2, kFigureWidth - width / 2), top - kBarGap, "middle",
                  limit->label);
  }
  return fmt::format(R"(<svg class="bars" viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}">{}</svg>)",
                     kFigureWidth, height, escaped(name), text);
}

}  // namespace baleen
