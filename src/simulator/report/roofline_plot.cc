#include "simulator/report/roofline_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "plots/figure_text.h"
#include "plots/xy_plot.h"
#include "simulator/report/operation_sums.h"

namespace baleen {
namespace {

/// Rates that products or scalar work can reach at most, with all names of each.
std::map<double, std::string> ceilings(const DeviceProfile& device) {
  using enum PeakFormat;
  std::map<double, std::string> found;
  const auto add = [&](double rate, std::string_view name) {
    if (rate <= 0) return;
    std::string& names = found[rate];
    names += names.empty() ? name : fmt::format(", {}", name);
  };
  for (const auto& [format, name] :
       {std::pair{kFp4, "FP4"}, {kFp8, "FP8"}, {kBf16, "BF16"}, {kTf32, "TF32"}, {kFp32, "FP32"}})
    add(device.peak(format), name);
  add(device.scalar_ops_per_second, "scalar");
  return found;
}

}  // namespace

std::string_view bound_style(Bound bound) {
  switch (bound) {
    case Bound::kMemory:
      return "c-memory";
    case Bound::kCompute:
      return "c-compute";
    case Bound::kLatency:
      return "c-latency";
    case Bound::kCommunication:
      return "c-communication";
    case Bound::kHostCopies:
      return "c-host-copies";
  }
  return "";
}

std::vector<LegendEntry> bound_legend(const std::set<Bound>& bounds) {
  std::vector<LegendEntry> entries;
  for (const Bound bound : bounds)
    entries.push_back({std::string(bound_style(bound)), fmt::format("bound by {}", bound_name(bound))});
  return entries;
}

Figure roofline_figure(const StepReport& report) {
  std::vector<OperationSum> shown;
  std::set<Bound> bounds;
  double all_seconds = 0;
  for (const OperationSum& sum : operation_sums(report.estimate, TableRows::kByOperation)) {
    all_seconds += sum.seconds;
    if (sum.flops == 0 || sum.bytes == 0) continue;
    shown.push_back(sum);
    bounds.insert(sum.bound());
  }
  const double bandwidth = report.device.memory_bytes_per_second;
  const std::map<double, std::string> peaks = ceilings(report.device);
  const double highest = peaks.rbegin()->first;
  constexpr double kMargin = 1.4;  ///< for labels, of a logarithmic axis
  double low_x = highest / bandwidth, high_x = 4 * low_x, low_y = peaks.begin()->first;
  for (const OperationSum& sum : shown) {
    low_x = std::min(low_x, sum.flops / sum.bytes / kMargin);
    high_x = std::max(high_x, kMargin * sum.flops / sum.bytes);
    low_y = std::min(low_y, sum.flops / sum.seconds / kMargin);
  }
  const auto plain = [](double v) { return v < 1 || v >= 1e4 ? si_text(v, "") : fmt::format("{:g}", v); };
  XyPlot plot(Axis(Scale::kDecades, low_x, high_x, "arithmetic intensity, FLOP/byte",
                   [&](double v) { return v < 1 ? fmt::format("{:g}", v) : plain(v); }),
              Axis(Scale::kDecades, low_y, kMargin * highest, "reached",
                   [](double v) { return si_text(v, "FLOP/s"); }));
  for (const auto& [rate, names] : peaks) {
    plot.add(PlotLine{.points = {{std::max(plot.x().low(), rate / bandwidth), rate}, {plot.x().high(), rate}},
                      .style = "thin c-quiet",
                      .label = names,
                      .title = fmt::format("{}: {}", names, si_text(rate, "FLOP/s"))});
  }
  const double begin = std::max(plot.x().low(), plot.y().low() / bandwidth);
  plot.add(PlotLine{.points = {{begin, begin * bandwidth}, {highest / bandwidth, highest}},
                    .style = "c-quiet",
                    .label = si_text(bandwidth, "B/s"),
                    .title = fmt::format("memory: {}", si_text(bandwidth, "B/s"))});
  for (const OperationSum& sum : shown) {
    const double share = sum.seconds / all_seconds;
    constexpr double kLeast = 3, kGrowth = 12;
    plot.add(
        PlotMark{.at = {sum.flops / sum.bytes, sum.flops / sum.seconds},
                 .style = std::string(bound_style(sum.bound())),
                 .title = fmt::format("{}: {} and {} in {}; {:.3g} FLOP/byte, {}; bound by {}", sum.name,
                                      si_text(sum.flops, "FLOP"), si_text(sum.bytes, "B"),
                                      si_text(sum.seconds, "s"), sum.flops / sum.bytes,
                                      si_text(sum.flops / sum.seconds, "FLOP/s"), bound_name(sum.bound())),
                 .label = sum.name,
                 .radius = kLeast + kGrowth * std::sqrt(share)});
  }
  return {.id = "roofline",
          .title = "Roofline",
          .svg = plot.svg("Roofline: each operation's arithmetic intensity against the rate that it reaches"),
          .caption = fmt::format("What each operation reaches under the peaks of {}; areas grow with time.",
                                 report.device.description),
          .legend = bound_legend(bounds)};
}

}  // namespace baleen
