#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "plots/bar_chart.h"
#include "plots/figure_text.h"
#include "simulator/report/device_table.h"
#include "simulator/report/serving_report.h"

namespace baleen {
namespace {

struct NamedTimes {
  const char* name;
  const Distribution* times;
};

std::array<NamedTimes, 3> waits(const ServingFigures& f) {
  return {{{"queue", &f.queue}, {"time to first token", &f.first_token}, {"end to end", &f.end_to_end}}};
}

std::array<NamedTimes, 2> paces(const ServingFigures& f) {
  return {{{"time per output token", &f.per_output_token}, {"time between tokens", &f.between_tokens}}};
}

Figure times_figure(std::string id, std::string title, std::span<const NamedTimes> all) {
  std::vector<Bar> bars;
  double most = 0;
  for (const auto& [name, times] : all) {
    Bar bar{.label = name, .figure = si_text(times->p99, "s")};
    double before = 0;
    for (const auto& [quantile, style, what] : {std::tuple{times->p50, "c-csa", "half"},
                                                {times->p90, "c-hca", "90%"},
                                                {times->p99, "c-window", "99%"}}) {
      bar.append(std::max(0.0, quantile - before), style,
                 fmt::format("{}: {} are within {}", name, what, si_text(quantile, "s")));
      before = std::max(before, quantile);
    }
    most = std::max(most, bar.end());
    bars.push_back(std::move(bar));
  }
  Figure figure{.id = std::move(id),
                .title = title,
                .caption = "Half, 90% and 99% of them are within the ends of the colours; the figure is 99%.",
                .legend = {{"c-csa", "half"}, {"c-hca", "90%"}, {"c-window", "99%"}}};
  constexpr double kShortest = 1e-6;  // an axis of nothing has no ticks
  figure.svg = bar_chart(
      bars,
      Axis(Scale::kLinear, 0, std::max(most, kShortest), "time", [](double v) { return si_text(v, "s"); }),
      title);
  return figure;
}

/// Shares of steps by the sequences in them, in ranges that double.
Figure batch_figure(const ServerRecord& server, const std::string& name) {
  std::vector<std::int64_t> ranges;
  for (std::size_t batch = 1; batch < server.steps_by_batch.size(); ++batch) {
    const auto range = static_cast<std::size_t>(std::bit_width(batch)) - 1;
    ranges.resize(std::max(ranges.size(), range + 1));
    ranges[range] += server.steps_by_batch[batch];
  }
  std::vector<Bar> bars;
  double most = 0;
  for (std::size_t range = 0; range < ranges.size(); ++range) {
    const std::int64_t first = std::int64_t{1} << range, last = 2 * first - 1;
    const double share =
        static_cast<double>(ranges[range]) / static_cast<double>(std::max<std::int64_t>(1, server.steps));
    Bar bar{.label = first == last ? "1 sequence" : fmt::format("{} to {} sequences", first, last),
            .figure = fmt::format("{:.1f}%", 100 * share)};
    bar.append(share, "c-memory", fmt::format("{} steps", ranges[range]));
    most = std::max(most, share);
    bars.push_back(std::move(bar));
  }
  const std::string title = fmt::format("Steps of the {}", name);
  Figure figure{.id = "batches-" + name,
                .title = title,
                .caption = fmt::format("{} steps, by the sequences in them.", server.steps)};
  figure.svg = bar_chart(bars,
                         Axis(Scale::kLinear, 0, std::max(most, 1e-3), "share of steps",
                              [](double v) { return fmt::format("{:g}%", 100 * v); }),
                         title);
  return figure;
}

Table latency_table(const ServingFigures& f) {
  Table table{.id = "latency",
              .caption = "What clients feel, ms",
              .columns = {{.name = "time", .is_figure = false}, {"mean"}, {"p50"}, {"p90"}, {"p99"}}};
  const auto add = [&](const NamedTimes& named) {
    std::vector<Cell> row{{named.name, {}}};
    for (const double seconds : {named.times->mean, named.times->p50, named.times->p90, named.times->p99})
      row.push_back({significant_text(1e3 * seconds), seconds});
    table.rows.push_back(std::move(row));
  };
  for (const NamedTimes& named : waits(f)) add(named);
  for (const NamedTimes& named : paces(f)) add(named);
  return table;
}

Table request_table(const ServingFigures& f) {
  Table table{.id = "requests",
              .caption = "Requests and tokens",
              .columns = {{.name = "what", .is_figure = false}, {"how many"}}};
  for (const auto& [name, count] : {std::pair{"requests", f.requests},
                                    {"finished", f.finished},
                                    {"turned away", f.turned_away},
                                    {"abandoned", f.abandoned},
                                    {"refused", f.refused},
                                    {"within the limits", f.within_limits},
                                    {"prompt tokens", f.prompt_tokens},
                                    {"of them found in the cache", f.cached_tokens},
                                    {"output tokens", f.output_tokens},
                                    {"drafted tokens", f.drafted_tokens},
                                    {"of them accepted", f.accepted_tokens},
                                    {"preemptions", f.preemptions}})
    table.rows.push_back({{name, {}}, {fmt::format("{}", count), static_cast<double>(count)}});
  return table;
}

Table server_table(const ServingFigures& f) {
  Table table{.id = "servers",
              .caption = "Servers",
              .columns = {{.name = "server", .is_figure = false},
                          {"steps"},
                          {"tokens a step"},
                          {"busy, %"},
                          {"pages in use, %"},
                          {"at most, %"},
                          {"pages cached, %"}}};
  const auto percent = [](double share) { return Cell{fmt::format("{:.1f}", 100 * share), share}; };
  for (std::size_t i = 0; i < f.servers.size(); ++i) {
    const ServerRecord& server = f.servers[i];
    const double tokens =
        server.steps > 0 ? static_cast<double>(server.step_tokens) / static_cast<double>(server.steps) : 0;
    table.rows.push_back({{server_name(i, f.servers.size()), {}},
                          {fmt::format("{}", server.steps), static_cast<double>(server.steps)},
                          {significant_text(tokens), tokens},
                          percent(f.seconds > 0 ? server.busy_seconds / f.seconds : 0),
                          percent(server.pages.mean_in_use()),
                          percent(server.pages.most_in_use),
                          percent(server.pages.mean_cached())});
  }
  return table;
}

}  // namespace

std::string serving_html(const ServingReport& report, const Provenance& provenance) {
  const ServingFigures& f = report.figures;
  HtmlPage page(
      fmt::format("{} on {} x {}: serving", report.model.name, report.num_devices, report.device.description),
      fmt::format("{}. {}", to_text(report.plan), report.setup), provenance);
  if (f.finished < f.requests) {
    page.add_warning(
        fmt::format("{} of {} requests did not finish: {} turned away, {} abandoned, {} refused.{}",
                    f.requests - f.finished, f.requests, f.turned_away, f.abandoned, f.refused,
                    f.first_refusal.empty() ? "" : " The first refusal: " + f.first_refusal + "."));
  }
  page.add_key_figures(
      {{"A device yields", significant_text(report.tokens_per_second_per_device), "tokens/s with prompts"},
       {"Requests", significant_text(f.per_second(f.finished)), "a second, of a group"},
       {"Output", significant_text(f.per_second(f.output_tokens)), "tokens/s, of a group"},
       {"First token", seconds_text(f.first_token.p50),
        fmt::format("median; 99% within {}", seconds_text(f.first_token.p99))},
       {"A token after it", seconds_text(f.per_output_token.p50),
        fmt::format("median; 99% within {}", seconds_text(f.per_output_token.p99))}});
  std::vector<Figure> figures{times_figure("waits", "What a request waits for", waits(f)),
                              times_figure("paces", "From token to token", paces(f))};
  for (std::size_t i = 0; i < f.servers.size(); ++i)
    figures.push_back(batch_figure(f.servers[i], server_name(i, f.servers.size())));
  page.add_figures(figures);
  page.add_table(latency_table(f));
  page.add_table(request_table(f));
  page.add_table(server_table(f));
  page.add_table(device_table(report.device));
  return page.text();
}

}  // namespace baleen
