#include "simulator/report/batch_sweep.h"

#include <fmt/format.h>

#include <algorithm>

#include "plots/figure_text.h"
#include "plots/xy_plot.h"

namespace baleen {
namespace {

BatchPoint point_of(const StepReport& report, const Workload& workload, const StepEstimate& estimate) {
  const double tokens = workload.decode ? estimate.tokens_out : estimate.tokens;
  return {.num_queries = workload.num_queries,
          .step_seconds = estimate.seconds,
          .tokens_per_second_per_device =
              tokens / estimate.seconds / static_cast<double>(report.plan.num_devices),
          .tokens_per_second_per_user = workload.tokens_per_step() / estimate.seconds,
          .memory_bytes = estimate.memory_bytes,
          .fits = estimate.fits()};
}

Table table_of(const StepReport& report, const std::vector<BatchPoint>& points) {
  const bool decode = report.workload.decode;
  Table table{.id = "batches",
              .caption = "Numbers of queries on this plan",
              .columns = {{"queries"}, {"step, ms"}, {"tokens/s a device"}}};
  if (decode) table.columns.push_back({"tokens/s a user"});
  table.columns.push_back({"memory, GB"});
  for (const BatchPoint& point : points) {
    std::vector<Cell> row{
        {fmt::format("{}", point.num_queries), static_cast<double>(point.num_queries)},
        {fmt::format("{:.3f}", 1e3 * point.step_seconds), point.step_seconds},
        {fmt::format("{:.1f}", point.tokens_per_second_per_device), point.tokens_per_second_per_device}};
    if (decode)
      row.push_back(
          {fmt::format("{:.1f}", point.tokens_per_second_per_user), point.tokens_per_second_per_user});
    const auto bytes = static_cast<double>(point.memory_bytes);
    row.push_back({gigabytes_text(bytes) + (point.fits ? "" : ", too much"), bytes});
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace

std::vector<BatchPoint> batch_sweep(const StepReport& report) {
  constexpr std::int64_t kMaxQueries = 4096;  ///< limit of a group
  constexpr std::int64_t kMaxRows = 1 << 18;  ///< limit of a group's step
  const Workload& own = report.workload;
  const std::int64_t most = std::min(kMaxQueries, std::max<std::int64_t>(1, kMaxRows / own.query_length));
  std::vector<BatchPoint> points{point_of(report, own, report.estimate)};
  for (std::int64_t a_group = 1; a_group <= most; a_group *= 2) {
    Workload other = own;
    other.num_queries = a_group * report.plan.dp;
    if (other.num_queries == own.num_queries) continue;
    const StepEstimate estimate =
        estimate_step({report.model, report.plan}, other, report.device, report.performance);
    if (!estimate.fits()) break;
    points.push_back(point_of(report, other, estimate));
  }
  std::ranges::sort(points, {}, &BatchPoint::num_queries);
  return points;
}

Figure batch_figure(const StepReport& report, const std::vector<BatchPoint>& points) {
  const bool decode = report.workload.decode;
  const auto x_of = [&](const BatchPoint& p) {
    return decode ? p.tokens_per_second_per_user : p.step_seconds;
  };
  double low_x = x_of(points.front()), high_x = low_x;
  double low_y = points.front().tokens_per_second_per_device, high_y = low_y;
  for (const BatchPoint& p : points) {
    low_x = std::min(low_x, x_of(p));
    high_x = std::max(high_x, x_of(p));
    low_y = std::min(low_y, p.tokens_per_second_per_device);
    high_y = std::max(high_y, p.tokens_per_second_per_device);
  }
  constexpr double kMargin = 1.15;  ///< for labels
  XyPlot plot(Axis(decode ? Scale::kLinear : Scale::kDecades, low_x / kMargin, kMargin * high_x,
                   decode ? "tokens/s for each user" : "time to first token",
                   [decode](double v) { return decode ? fmt::format("{:g}", v) : si_text(v, "s"); }),
              Axis(decode ? Scale::kDecades : Scale::kLinear, low_y / kMargin, kMargin * high_y,
                   decode ? "tokens/s for each device" : "prompt tokens/s for each device",
                   [](double v) { return si_text(v, ""); }));
  PlotLine line{.style = "c-memory thin", .title = "Numbers of queries"};
  for (const BatchPoint& p : points) {
    const XyPoint at{x_of(p), p.tokens_per_second_per_device};
    line.points.push_back(at);
    const bool own = p.num_queries == report.workload.num_queries;
    std::string title = fmt::format("{}{}: step {}, {:.1f} tokens/s a device", queries_text(p.num_queries),
                                    own ? " (this workload)" : "", si_text(p.step_seconds, "s"),
                                    p.tokens_per_second_per_device);
    if (decode) title += fmt::format(", {:.1f} tokens/s a user", p.tokens_per_second_per_user);
    if (!p.fits) title += "; memory does not suffice";
    plot.add(PlotMark{
        .at = at,
        .style = fmt::format("{}{}", p.fits ? "c-memory" : "c-memory hollow", own ? " chosen" : ""),
        .title = std::move(title),
        .label = own ? fmt::format("{} (this one)", p.num_queries) : fmt::format("{}", p.num_queries),
        .radius = own ? 5.5 : 4});
  }
  std::ranges::sort(line.points, {}, &XyPoint::x);
  plot.add(std::move(line));
  const auto last = std::ranges::find_if(points.rbegin(), points.rend(), &BatchPoint::fits);
  std::string caption =
      "Each point is a number of queries that are prefilled at once on this plan. Further up is cheaper, "
      "further left is quicker.";
  if (last == points.rend()) {
    caption = "No number of queries fits into memory with this plan.";
  } else if (decode) {
    caption = fmt::format(
        "Each point is a number of queries on this plan; with {} each device yields {:.0f} tokens/s and each "
        "user gets {:.1f}. Further up is cheaper, further right is quicker.",
        queries_text(last->num_queries), last->tokens_per_second_per_device,
        last->tokens_per_second_per_user);
  }
  return {.id = "throughput",
          .title = "Throughput against latency",
          .svg = plot.svg("Throughput of a device against what a user waits, by number of queries"),
          .caption = std::move(caption),
          .table = table_of(report, points)};
}

}  // namespace baleen
