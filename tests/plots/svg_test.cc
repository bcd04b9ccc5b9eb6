// Parts of plots: axes with round ends and ticks, labels that do not meet, text that cannot break out of the
// page.

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>

#include "plots/axis.h"
#include "plots/bar_chart.h"
#include "plots/figure_text.h"
#include "plots/html_page.h"
#include "plots/label_space.h"
#include "plots/markup.h"
#include "plots/xy_plot.h"

namespace baleen {
namespace {

std::string plain(double value) { return number_text(value); }

std::vector<double> values(const Axis& axis, int wanted) {
  std::vector<double> found;
  for (const Tick& tick : axis.ticks(wanted)) found.push_back(tick.value);
  return found;
}

TEST(Axis, RoundTicks) {
  EXPECT_EQ(values(Axis(Scale::kLinear, 3, 834, "", plain), 6), (std::vector<double>{0, 200, 400, 600, 800}));
  EXPECT_EQ(values(Axis(Scale::kLinear, -30, 55, "", plain), 5), (std::vector<double>{-20, 0, 20, 40, 60}));
  EXPECT_EQ(values(Axis(Scale::kLinear, -4, -1, "", plain), 4), (std::vector<double>{-4, -3, -2, -1, 0}));
  EXPECT_EQ(values(Axis(Scale::kDoublings, 1000, 1 << 20, "", plain), 5),
            (std::vector<double>{512, 4096, 32768, 262144}));
  EXPECT_EQ(values(Axis(Scale::kDecades, 0.15, 80, "", plain), 7),
            (std::vector<double>{0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100}));
  EXPECT_EQ(values(Axis(Scale::kDecades, 1e6, 1e15, "", plain), 5),
            (std::vector<double>{1e6, 1e8, 1e10, 1e12, 1e14}));
  EXPECT_EQ(values(Axis(Scale::kDecades, 2.5, 80, "", plain), 7),
            (std::vector<double>{2, 5, 10, 20, 50, 100}));
}

TEST(Axis, SpansWhatItWasGivenWithFewTicks) {
  EXPECT_TRUE(rc::check([] {
    const double low = std::pow(10, *rc::gen::inRange(-120, 150) / 10.0);
    const double high = low * std::pow(10, *rc::gen::inRange(0, 120) / 10.0);
    const int wanted = *rc::gen::inRange(3, 9);
    for (const Scale scale : {Scale::kLinear, Scale::kDecades, Scale::kDoublings}) {
      const Axis axis(scale, low, high, "", plain);
      const auto share = [&](double value) { return axis.share_of(value); };
      RC_ASSERT(axis.spans(low) && axis.spans(high));
      RC_ASSERT(share(low) <= share(high));
      const std::vector<double> ticks = values(axis, wanted);
      RC_ASSERT(!ticks.empty() && std::ssize(ticks) <= 2 * wanted + 1);
      RC_ASSERT(std::ranges::is_sorted(ticks));
    }
  }));
}

TEST(LabelSpace, LabelsNeverMeetOrLeave) {
  EXPECT_TRUE(rc::check([] {
    const Rect bounds{0, 0, 300, 200};
    LabelSpace space(bounds);
    constexpr double kFont = 12;
    std::vector<Rect> placed;
    for (int i = 0; i < 40; ++i) {
      const std::string text(static_cast<std::size_t>(*rc::gen::inRange(1, 20)), 'x');
      const double x = *rc::gen::inRange(0, 300), y = *rc::gen::inRange(0, 200);
      const auto spot = space.place(text, kFont, spots_around(x, y, 3, kFont));
      if (!spot) continue;
      const double width = text_width(text, kFont);
      const double left = spot->anchor == "start" ? spot->x
                          : spot->anchor == "end" ? spot->x - width
                                                  : spot->x - width / 2;
      const Rect box{left, spot->y - 9, left + width, spot->y + 2};
      RC_ASSERT(bounds.holds(box));
      for (const Rect& other : placed) RC_ASSERT(!box.overlaps(other));
      placed.push_back(box);
    }
    RC_ASSERT(!placed.empty());
  }));
}

TEST(Markup, TextCannotBreakOut) {
  EXPECT_EQ(escaped("a<b>&\"c\"'"), "a&lt;b&gt;&amp;&quot;c&quot;&#39;");
  EXPECT_EQ(escaped(std::string_view("a\0b\x1b", 4)),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD");
  EXPECT_EQ(escaped("größer µ"), "größer µ");
  const std::string evil = "</title><script>alert(1)</script>\" onload=\"x";
  XyPlot plot(Axis(Scale::kLinear, 0, 1, evil, plain), Axis(Scale::kLinear, 0, 1, evil, plain));
  plot.add(PlotMark{.at = {0.5, 0.5}, .style = evil, .title = evil, .label = evil});
  plot.add(PlotLine{.points = {{0, 0}, {1, 1}}, .style = evil, .label = evil, .title = evil});
  Bar bar{.label = evil, .figure = evil};
  bar.append(1, evil, evil);
  HtmlPage page(evil, evil, {.command = evil, .revision = evil});
  page.add_warning(evil);
  page.add_key_figures({{evil, evil, evil}});
  page.add_figures({{.id = evil,
                     .title = evil,
                     .svg = plot.svg(evil) + bar_chart({bar}, Axis(Scale::kLinear, 0, 1, evil, plain), evil),
                     .caption = evil,
                     .legend = {{evil, evil}}}});
  page.add_table({.id = evil, .caption = evil, .columns = {{evil}}, .rows = {{{evil, 1.0}}}});
  const std::string text = page.text();
  EXPECT_EQ(text.find("<script>alert"), std::string::npos);
  EXPECT_EQ(text.find("\" onload"), std::string::npos);
}

TEST(FigureText, AsPeopleReadThem) {
  EXPECT_EQ(si_text(0, "s"), "0 s");
  EXPECT_EQ(si_text(0.0005, "s"), "500 µs");
  EXPECT_EQ(si_text(1979e12, "FLOP/s"), "1.98 PFLOP/s");
  EXPECT_EQ(si_text(999.7e3, "B"), "1 MB");
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(3.05e9), "3.05 G");
  EXPECT_EQ(seconds_text(1.234e-5), "12.3 us");
  EXPECT_EQ(seconds_text(0.0045678), "4.57 ms");
  EXPECT_EQ(seconds_text(0.99996), "1.00 s");
  EXPECT_EQ(seconds_text(99.96), "100 s");
  EXPECT_EQ(significant_text(1071.1), "1070");
  EXPECT_EQ(significant_text(999.6), "1000");
  EXPECT_EQ(significant_text(99.949), "99.9");
  EXPECT_EQ(significant_text(0.012345), "0.0123");
  EXPECT_EQ(significant_text(0), "0");
  EXPECT_EQ(positions_text(1 << 20), "1M");
  EXPECT_EQ(positions_text(8192), "8K");
  EXPECT_EQ(positions_text(300), "300");
}

TEST(BarChart, PiecesFollowEachOther) {
  Bar bar{.label = "b"};
  bar.append(2, "", "");
  bar.append(3, "", "");
  EXPECT_DOUBLE_EQ(bar.pieces[1].begin, 2);
  EXPECT_DOUBLE_EQ(bar.end(), 5);
}

}  // namespace
}  // namespace baleen
