#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plots/bar_chart.h"
#include "plots/figure_text.h"
#include "simulator/report/validation_report.h"

namespace baleen {
namespace {

constexpr const char* style_of(RowGroup group) {
  switch (group) {
    case RowGroup::kDeployments:
      return "c-memory";
    case RowGroup::kBlind:
      return "c-communication";
    case RowGroup::kKernels:
      return "c-compute";
    case RowGroup::kCalibrates:
      break;
  }
  return "c-latency";
}

Figure errors_figure(const std::vector<ValidatedRow>& rows) {
  std::vector<Bar> bars;
  double most = 0;
  for (const ValidatedRow& row : rows) {
    for (const PredictedMetric& metric : row.metrics) {
      const double error = std::abs(metric.error());
      Bar bar{.label = fmt::format("{} {}", row.row.id, metric_name(metric.name)),
              .figure = fmt::format("{:+.0f}%", 100 * metric.error())};
      bar.append(error, style_of(group_of(row.row)),
                 fmt::format("{}: published {:.4g}, predicted {:.3g}", row.row.title, metric.published,
                             metric.predicted));
      most = std::max(most, error);
      bars.push_back(std::move(bar));
    }
  }
  Figure figure{.id = "errors",
                .title = "Error of every figure",
                .caption = "The prediction's distance from what was published; the sign says on which side.",
                .legend = {{style_of(RowGroup::kDeployments), "deployments"},
                           {style_of(RowGroup::kBlind), "deployments, blind"},
                           {style_of(RowGroup::kKernels), "kernels"},
                           {style_of(RowGroup::kCalibrates), "a device's profile is made from it"}}};
  figure.svg = bar_chart(
      bars, Axis(Scale::kLinear, 0, most, "error", [](double v) { return fmt::format("{:g}%", 100 * v); }),
      "Error of every predicted figure");
  return figure;
}

Table rows_table(const std::vector<ValidatedRow>& rows) {
  Table table{.id = "rows",
              .caption = "Rows",
              .columns = {{.name = "what", .is_figure = false},
                          {.name = "id", .is_figure = false},
                          {.name = "figure", .is_figure = false},
                          {"published"},
                          {"predicted"},
                          {"error, %"}},
              .sortable = true};
  for (const ValidatedRow& row : rows) {
    for (const PredictedMetric& metric : row.metrics) {
      table.rows.push_back({{row.row.title, {}},
                            {row.row.id, {}},
                            {std::string(metric_name(metric.name)) + (row.row.calibrates ? ", calibrates"
                                                                      : row.row.blind    ? ", blind"
                                                                                         : ""),
                             {}},
                            {fmt::format("{:.4g}", metric.published), metric.published},
                            {significant_text(metric.predicted), metric.predicted},
                            {fmt::format("{:+.0f}", 100 * metric.error()), metric.error()}});
    }
  }
  return table;
}

Table notes_table(const std::vector<ValidatedRow>& rows, std::string id, std::string caption,
                  std::string PublishedRow::*text) {
  Table table{
      .id = std::move(id),
      .caption = caption,
      .columns = {{.name = std::move(caption), .is_figure = false}, {.name = "rows", .is_figure = false}}};
  for (const ValidatedRow& row : rows) {
    const std::string& note = row.row.*text;
    if (note.empty()) continue;
    const auto same = std::ranges::find_if(
        table.rows, [&](const std::vector<Cell>& known) { return known[0].text == note; });
    if (same == table.rows.end()) {
      table.rows.push_back({{note, {}}, {row.row.id, {}}});
    } else {
      (*same)[1].text += ", " + row.row.id;
    }
  }
  return table;
}

}  // namespace

std::string validation_html(const std::vector<ValidatedRow>& rows, const Provenance& provenance) {
  HtmlPage page(
      "What others published, and what the simulator says",
      fmt::format("{} rows with their sources; nothing in the simulator knows them but the rows that say so.",
                  rows.size()),
      provenance);
  page.add_key_figures(
      {{"Deployments", fmt::format("{:.0f}%", 100 * median_error(rows, RowGroup::kDeployments)),
        "median error"},
       {"Blind", fmt::format("{:.0f}%", 100 * median_error(rows, RowGroup::kBlind)),
        "median error, of deployments that were added and changed nothing"},
       {"Kernels", fmt::format("{:.0f}%", 100 * median_error(rows, RowGroup::kKernels)),
        "median error, of those that calibrate nothing"}});
  page.add_figures({errors_figure(rows)});
  page.add_table(rows_table(rows));
  page.add_table(notes_table(rows, "sources", "Sources", &PublishedRow::source));
  page.add_table(notes_table(rows, "unknown", "What is not known", &PublishedRow::unknown));
  return page.text();
}

}  // namespace baleen
