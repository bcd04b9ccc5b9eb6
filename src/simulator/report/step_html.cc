#include <fmt/format.h>

#include <algorithm>

#include "plots/html_page.h"
#include "simulator/report/batch_sweep.h"
#include "simulator/report/cache_plot.h"
#include "simulator/report/device_table.h"
#include "simulator/report/layer_timeline.h"
#include "simulator/report/operation_sums.h"
#include "simulator/report/roofline_plot.h"
#include "simulator/report/step_report.h"
#include "simulator/report/time_charts.h"

namespace baleen {
namespace {

std::vector<HtmlPage::KeyFigure> key_figures(const StepReport& report) {
  const StepEstimate& e = report.estimate;
  const auto devices = static_cast<double>(report.plan.num_devices);
  std::vector<HtmlPage::KeyFigure> figures;
  if (report.workload.decode) {
    const double tokens = report.workload.tokens_per_step();
    figures = {{"Step", seconds_text(e.seconds), fmt::format("{:.2f} tokens for each query", tokens)},
               {"Time per token", seconds_text(e.seconds / tokens), "for each user"},
               {"A user gets", significant_text(tokens / e.seconds), "tokens/s"},
               {"A device yields", significant_text(e.tokens_out / e.seconds / devices), "tokens/s"},
               {"In all", significant_text(e.tokens_out / e.seconds), "tokens/s"}};
  } else {
    figures = {{"Time to first token", seconds_text(e.seconds), "of all these queries at once"},
               {"A device reads", significant_text(e.tokens / e.seconds / devices), "prompt tokens/s"},
               {"In all", significant_text(e.tokens / e.seconds), "prompt tokens/s"}};
  }
  const auto memory = static_cast<double>(e.memory_bytes),
             capacity = static_cast<double>(e.device_memory_bytes);
  figures.push_back({"Memory of a device", fmt::format("{:.1f} GB", 1e-9 * memory),
                     fmt::format("{:.0f}% of {:.1f} GB", 100 * memory / capacity, 1e-9 * capacity)});
  return figures;
}

Table operation_table(const StepReport& report, TableRows rows) {
  const std::vector<OperationSum> sums = operation_sums(report.estimate, rows);
  double all = 0;
  for (const OperationSum& sum : sums) all += sum.seconds;
  const bool by_shape = rows == TableRows::kByShape;
  Table table{.id = by_shape ? "shapes" : "operations",
              .caption = by_shape ? "Operations by arguments" : "Operations",
              .columns = {{.name = "operation", .is_figure = false},
                          {"total, µs"},
                          {"mean, µs"},
                          {"calls"},
                          {"share, %"},
                          {.name = "bound by", .is_figure = false},
                          {"GFLOP"},
                          {"MB"},
                          {"FLOP/byte"},
                          {"TFLOP/s"},
                          {"GB/s"}},
              .sortable = true};
  const auto cell = [](double value, double unit, int digits) {
    return Cell{fmt::format("{:.{}f}", value * unit, digits), value};
  };
  const auto estimated = [](double value, double unit) {
    return Cell{significant_text(value * unit), value};
  };
  for (const OperationSum& sum : sums) {
    const auto calls = static_cast<double>(sum.calls);
    const bool computes = sum.flops > 0 && sum.bytes > 0;
    table.rows.push_back({{sum.name, {}},
                          estimated(sum.seconds, 1e6),
                          estimated(sum.seconds / calls, 1e6),
                          {fmt::format("{}", sum.calls), calls},
                          cell(sum.seconds / all, 100, 1),
                          {std::string(bound_name(sum.bound())), {}},
                          cell(sum.flops, 1e-9, 3),
                          cell(sum.bytes, 1e-6, 3),
                          computes ? cell(sum.flops / sum.bytes, 1, 2) : Cell{"–", 0},
                          estimated(sum.flops / sum.seconds, 1e-12),
                          estimated(sum.bytes / sum.seconds, 1e-9)});
  }
  return table;
}

Table memory_table(const StepEstimate& estimate) {
  Table table{
      .id = "memory", .caption = "Memory of a device, GB", .columns = {{.name = "part", .is_figure = false}}};
  for (const StageEstimate& stage : estimate.stages) {
    table.columns.push_back({estimate.stages.size() == 1
                                 ? "each device"
                                 : fmt::format("layers {} to {}", stage.stage.begin, stage.stage.end - 1)});
  }
  const auto gigabytes = [](std::int64_t bytes) {
    return Cell{gigabytes_text(static_cast<double>(bytes)), static_cast<double>(bytes)};
  };
  const auto parts = estimate.stages.front().memory.parts();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::vector<Cell> row{{std::string(parts[i].first), {}}};
    for (const StageEstimate& stage : estimate.stages)
      row.push_back(gigabytes(stage.memory.parts()[i].second));
    table.rows.push_back(std::move(row));
  }
  std::vector<Cell> sums{{"in all", {}}}, capacity{{"capacity", {}}};
  for (const StageEstimate& stage : estimate.stages) {
    sums.push_back(gigabytes(stage.memory.total()));
    capacity.push_back(gigabytes(estimate.device_memory_bytes));
  }
  table.rows.push_back(std::move(sums));
  table.rows.push_back(std::move(capacity));
  return table;
}

}  // namespace

std::string step_html(const StepReport& report, const Provenance& provenance) {
  const Workload& work = report.workload;
  HtmlPage page(
      fmt::format("{} on {} x {}", report.model.name, report.plan.num_devices, report.device.description),
      fmt::format("{}. {}.", to_text(report.plan), workload_text(work)), provenance);
  const StepEstimate& e = report.estimate;
  if (!e.fits()) {
    const auto missing = static_cast<double>(e.memory_bytes - e.device_memory_bytes);
    const std::string warning =
        report.advice.empty()
            ? fmt::format("this does not fit: {} GB are missing on a device", gigabytes_text(missing))
            : report.advice;
    page.add_warning(fmt::format("Memory: {}.", warning));
  }
  page.add_key_figures(key_figures(report));
  std::vector<Figure> figures{operations_figure(report),
                              roofline_figure(report),
                              batch_figure(report, batch_sweep(report)),
                              cache_figure(report.model, work.context_length + work.query_length),
                              places_figure(report),
                              memory_figure(report)};
  std::ranges::move(layer_figures(report), std::back_inserter(figures));
  page.add_figures(figures);
  page.add_table(operation_table(report, TableRows::kByOperation));
  page.add_table(memory_table(e));
  page.add_table(operation_table(report, TableRows::kByShape));
  page.add_table(device_table(report.device));
  page.add_text(
      "All times are estimates: what each operation's contract computes and moves, at the device's rates.");
  return page.text();
}

}  // namespace baleen
