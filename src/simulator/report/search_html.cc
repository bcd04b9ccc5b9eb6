#include <fmt/format.h>

#include <algorithm>

#include "plots/figure_text.h"
#include "plots/html_page.h"
#include "plots/xy_plot.h"
#include "simulator/report/device_table.h"
#include "simulator/report/search_report.h"

namespace baleen {
namespace {

constexpr double kMargin = 1.2;  ///< for labels, of a logarithmic axis

struct Extremes {
  double low = std::numeric_limits<double>::infinity();
  double high = 0;

  void hold(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

std::string title_of(const DeploymentCandidate& c) {
  return fmt::format("{}; {} at a time, {} drafts: {} tokens/s a device, {} a user, first token {}",
                     to_text(c), c.concurrency, c.num_drafts,
                     significant_text(c.tokens_per_second_per_device),
                     significant_text(c.tokens_per_second_per_user), si_text(c.ttft_seconds, "s"));
}

/// All candidates as dots, those of the front as marks with the number of requests at a time, `joined` by a
/// line or not.
Figure candidates_figure(const SearchReport& report, std::string id, std::string title, std::string axis,
                         double (*x_of)(const DeploymentCandidate&), const TickText& tick_text, double limit,
                         bool joined) {
  Extremes x, y;
  std::vector<XyPoint> dots;
  for (const DeploymentCandidate& c : report.result.ranked) {
    dots.push_back({x_of(c), c.tokens_per_second_per_device});
    x.hold(x_of(c));
    y.hold(c.tokens_per_second_per_device);
  }
  if (limit > 0) x.hold(limit);
  XyPlot plot(Axis(Scale::kDecades, x.low / kMargin, kMargin * x.high, std::move(axis), tick_text),
              Axis(Scale::kDecades, y.low / kMargin, kMargin * y.high, "tokens/s for each device",
                   [](double v) { return fmt::format("{:g}", v); }));
  plot.add_dots(dots);
  if (limit > 0) plot.mark_x(limit, "limit");
  PlotLine line{.style = "thin c-memory", .title = "Pareto front"};
  for (const DeploymentCandidate& c : report.result.pareto) {
    const XyPoint at{x_of(c), c.tokens_per_second_per_device};
    line.points.push_back(at);
    plot.add(PlotMark{
        .at = at, .style = "c-memory", .title = title_of(c), .label = fmt::format("{}", c.concurrency)});
  }
  std::ranges::sort(line.points, {}, &XyPoint::x);
  if (joined) plot.add(std::move(line));
  return {.id = std::move(id), .title = title, .svg = plot.svg(title)};
}

Table candidate_table(std::string id, std::string caption, const std::vector<DeploymentCandidate>& candidates,
                      std::size_t most) {
  Table table{.id = std::move(id),
              .caption = std::move(caption),
              .columns = {{.name = "plan", .is_figure = false},
                          {"tokens/s a device"},
                          {"tokens/s a user"},
                          {"first token, ms"},
                          {"a token, ms"},
                          {"at a time"},
                          {"drafts"},
                          {"memory, GB"}},
              .sortable = true};
  const auto cell = [](double value, double unit, int digits) {
    return Cell{fmt::format("{:.{}f}", value * unit, digits), value};
  };
  const auto estimated = [](double value, double unit) {
    return Cell{significant_text(value * unit), value};
  };
  for (std::size_t i = 0; i < std::min(most, candidates.size()); ++i) {
    const DeploymentCandidate& c = candidates[i];
    table.rows.push_back({{to_text(c), {}},
                          estimated(c.tokens_per_second_per_device, 1),
                          estimated(c.tokens_per_second_per_user, 1),
                          estimated(c.ttft_seconds, 1e3),
                          estimated(c.tpot_seconds, 1e3),
                          cell(static_cast<double>(c.concurrency), 1, 0),
                          cell(static_cast<double>(c.num_drafts), 1, 0),
                          cell(static_cast<double>(c.memory_bytes), 1e-9, 1)});
  }
  return table;
}

std::string limits_text(const SearchOptions& options) {
  std::string text;
  if (options.ttft_limit_seconds > 0)
    text += fmt::format("; first token within {}", si_text(options.ttft_limit_seconds, "s"));
  if (options.tpot_limit_seconds > 0)
    text += fmt::format("; {} a token", si_text(options.tpot_limit_seconds, "s"));
  return text;
}

}  // namespace

std::string to_text(const DeploymentCandidate& candidate) {
  std::string text = candidate.num_instances == 1 ? "" : fmt::format("{} x ", candidate.num_instances);
  text += to_text(candidate.plan);
  if (candidate.prefill_plan) {
    text += fmt::format(
        " | prefill {}{}",
        candidate.num_prefill_instances == 1 ? "" : fmt::format("{} x ", candidate.num_prefill_instances),
        to_text(*candidate.prefill_plan));
  }
  return text;
}

std::string search_html(const SearchReport& report, std::int64_t num_rows, const Provenance& provenance) {
  const SearchOptions& options = report.options;
  const SearchResult& result = report.result;
  HtmlPage page(
      fmt::format("{} on {} x {}: plans", report.model.name, options.num_devices, report.device.description),
      fmt::format("Load: {}{}. {} deployments were tried, {} are within limits.", to_text(options.load),
                  limits_text(options), result.num_evaluated, result.ranked.size()),
      provenance);
  if (result.ranked.empty()) {
    page.add_warning("Nothing fits these limits; the last table says what was left out, and why.");
  } else {
    const DeploymentCandidate& best = result.ranked.front();
    const DeploymentCandidate& quickest = result.pareto.back();
    page.add_key_figures(
        {{"Most for a device", significant_text(best.tokens_per_second_per_device),
          "tokens/s: " + to_text(best)},
         {"there, a user gets", significant_text(best.tokens_per_second_per_user), "tokens/s"},
         {"there, the first token", seconds_text(best.ttft_seconds),
          fmt::format("with {} requests at a time", best.concurrency)},
         {"Most for a user", significant_text(quickest.tokens_per_second_per_user),
          "tokens/s: " + to_text(quickest)}});
    Figure front = candidates_figure(
        report, "pareto-plot", "Throughput against speed for a user", "tokens/s for each user",
        [](const DeploymentCandidate& c) { return c.tokens_per_second_per_user; },
        [](double v) { return fmt::format("{:g}", v); },
        options.tpot_limit_seconds > 0 ? 1 / options.tpot_limit_seconds : 0, true);
    front.caption =
        "Every dot is a plan with a batch and drafts; nothing is better than those of the line both for a "
        "device "
        "and for a user. Numbers are requests at a time of an instance.";
    Figure first = candidates_figure(
        report, "ttft-plot", "Throughput against the first token", "time to first token",
        [](const DeploymentCandidate& c) { return c.ttft_seconds; }, [](double v) { return si_text(v, "s"); },
        options.ttft_limit_seconds, false);
    first.caption =
        "The same candidates by the mean time until a reply begins; marks are those of the front.";
    page.add_figures({std::move(front), std::move(first)});
    page.add_table(candidate_table("pareto", "Pareto front", result.pareto, result.pareto.size()));
    page.add_table(candidate_table("ranked", "Most tokens/s for a device", result.ranked,
                                   static_cast<std::size_t>(num_rows)));
  }
  Table excluded{.id = "excluded",
                 .caption = "Left out",
                 .columns = {{.name = "reason", .is_figure = false}, {"how many"}}};
  for (const auto& [reason, count] : result.excluded)
    excluded.rows.push_back({{reason, {}}, {fmt::format("{}", count), static_cast<double>(count)}});
  page.add_table(excluded);
  page.add_table(device_table(report.device));
  return page.text();
}

}  // namespace baleen
