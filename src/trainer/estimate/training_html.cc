#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "plots/bar_chart.h"
#include "plots/figure_text.h"
#include "simulator/report/device_table.h"
#include "trainer/estimate/training_report.h"

namespace baleen {
namespace {

constexpr std::array<const char*, 8> kStyles{"c-memory",  "c-csa",   "c-hca",           "c-compute",
                                             "c-outside", "c-draft", "c-communication", "c-latency"};

Figure parts_figure(const TrainEstimate& e) {
  std::vector<Bar> bars;
  double most = 0;
  Table table{.id = "parts",
              .caption = "A step",
              .columns = {{.name = "part", .is_figure = false}, {"seconds"}, {"share, %"}}};
  for (const auto& [name, seconds] : e.parts()) {
    Bar bar{.label = name,
            .figure = fmt::format("{} · {:.1f}%", si_text(seconds, "s"), 100 * seconds / e.seconds)};
    bar.append(seconds, "c-compute", fmt::format("{}: {}", name, si_text(seconds, "s")));
    most = std::max(most, seconds);
    bars.push_back(std::move(bar));
    table.rows.push_back({{name, {}},
                          {significant_text(seconds), seconds},
                          {fmt::format("{:.1f}", 100 * seconds / e.seconds), seconds / e.seconds}});
  }
  Figure figure{.id = "parts-chart",
                .title = "Time by part of a step",
                .caption = fmt::format("{} in all.", si_text(e.seconds, "s")),
                .table = std::move(table)};
  figure.svg = bar_chart(
      bars, Axis(Scale::kLinear, 0, most, "time in a step", [](double v) { return si_text(v, "s"); }),
      "Time of each part of a training step");
  return figure;
}

Figure memory_figure(const TrainEstimate& e) {
  Bar bar{.label = "fullest device"};
  Table table{.id = "memory",
              .caption = "Memory of the fullest device, GB",
              .columns = {{.name = "part", .is_figure = false}, {"GB"}}};
  Figure figure{.id = "memory-chart", .title = "Memory of the fullest device"};
  const auto add_row = [&](const std::string& name, std::int64_t bytes) {
    table.rows.push_back(
        {{name, {}}, {gigabytes_text(static_cast<double>(bytes)), static_cast<double>(bytes)}});
  };
  for (std::size_t i = 0; i < e.memory.size(); ++i) {
    const auto& [name, bytes] = e.memory[i];
    const std::string style = kStyles.at(i % kStyles.size());
    if (bytes > 0) {
      bar.append(static_cast<double>(bytes), style,
                 fmt::format("{}: {} GB", name, gigabytes_text(static_cast<double>(bytes))));
      figure.legend.push_back({style, name});
    }
    add_row(name, bytes);
  }
  add_row("in all", e.memory_bytes);
  add_row("capacity", e.device_memory_bytes);
  bar.figure = fmt::format("{:.1f} GB", 1e-9 * static_cast<double>(e.memory_bytes));
  const auto taken = static_cast<double>(e.memory_bytes),
             capacity = static_cast<double>(e.device_memory_bytes);
  figure.caption =
      e.fits() ? fmt::format("{} of {} GB are taken.", gigabytes_text(taken), gigabytes_text(capacity))
               : fmt::format("{} GB are needed, {} more than there are.", gigabytes_text(taken),
                             gigabytes_text(taken - capacity));
  figure.svg = bar_chart(
      {bar},
      Axis(Scale::kLinear, 0, std::max(taken, capacity), "memory", [](double v) { return si_text(v, "B"); }),
      "Memory of the fullest device by what it is for", BarLimit{capacity, "capacity"});
  figure.table = std::move(table);
  return figure;
}

}  // namespace

std::string training_html(const TrainingReport& report, const Provenance& provenance) {
  const TrainEstimate& e = report.estimate;
  const auto devices = static_cast<double>(report.plan.num_devices);
  HtmlPage page(fmt::format("{} on {} x {}: training", report.model.name, report.plan.num_devices,
                            report.device.description),
                fmt::format("{}; steps of {} tokens in {} micro-batches of {} x {} tokens a group.",
                            to_text(report.plan), report.load.global_batch_tokens, e.num_micro_batches,
                            report.load.micro_batch_sequences, report.load.sequence_length),
                provenance);
  if (!e.fits()) {
    page.add_warning(
        fmt::format("Memory: this does not fit: {} GB are missing on a device.",
                    gigabytes_text(static_cast<double>(e.memory_bytes - e.device_memory_bytes))));
  }
  page.add_key_figures(
      {{"Step", seconds_text(e.seconds), fmt::format("{} tokens", report.load.global_batch_tokens)},
       {"In all", significant_text(e.tokens_per_second), "tokens/s"},
       {"A device", significant_text(e.tokens_per_second / devices), "tokens/s"},
       {"Of the BF16 peak",
        fmt::format("{:.1f}%", 100 * e.model_flops_utilisation(report.device, report.plan.num_devices)),
        "products of the model"},
       {"Muon", fmt::format("{:.2f}%", 100 * e.muon_flops / e.model_flops), "of the model's products"}});
  page.add_figures({parts_figure(e), memory_figure(e)});
  page.add_table(device_table(report.device));
  page.add_text("All times are estimates; no step of training has been measured against them yet.");
  return page.text();
}

}  // namespace baleen
