#include "simulator/report/time_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "plots/bar_chart.h"
#include "plots/figure_text.h"
#include "simulator/report/operation_sums.h"
#include "simulator/report/roofline_plot.h"
#include "simulator/report/step_places.h"

namespace baleen {
namespace {

constexpr std::size_t kNumPlaces = static_cast<std::size_t>(StepPlace::kCount);

std::string tick_seconds(double value) { return si_text(value, "s"); }

/// Of `RankMemory::parts`, in their order.
constexpr std::array<const char*, 10> kMemoryStyles{
    "c-memory",  "c-csa",   "c-hca",           "c-window",      "c-compute",
    "c-outside", "c-draft", "c-communication", "c-host-copies", "c-latency"};

}  // namespace

Figure operations_figure(const StepReport& report) {
  std::map<std::string_view, std::array<double, kNumPlaces>> by_place;
  std::set<StepPlace> places;
  for (const StageEstimate& stage : report.estimate.stages) {
    for (const OpEstimate& op : stage.ops) {
      const StepPlace place = place_of(report.model.config, stage.stage, op.op);
      by_place[op.op.name][static_cast<std::size_t>(place)] += op.time.seconds;
      places.insert(place);
    }
  }
  const std::vector<OperationSum> sums = operation_sums(report.estimate, TableRows::kByOperation);
  double all = 0;
  for (const OperationSum& sum : sums) all += sum.seconds;
  std::vector<Bar> bars;
  for (const OperationSum& sum : sums) {
    Bar bar{.label = sum.name,
            .figure = fmt::format("{} · {:.1f}%", si_text(sum.seconds, "s"), 100 * sum.seconds / all)};
    for (const StepPlace place : kStepPlaces) {
      const double seconds = by_place[sum.name][static_cast<std::size_t>(place)];
      if (seconds == 0) continue;
      bar.append(seconds, std::string(place_style(place)),
                 fmt::format("{} in {}: {}", sum.name, place_name(place), si_text(seconds, "s")));
    }
    bars.push_back(std::move(bar));
  }
  Figure figure{.id = "operations-chart",
                .title = "Time by operation",
                .caption = fmt::format("Operations and messages of one rank, {} in all.", si_text(all, "s"))};
  for (const StepPlace place : places)
    figure.legend.push_back({std::string(place_style(place)), std::string(place_name(place))});
  figure.svg = bar_chart(
      bars, Axis(Scale::kLinear, 0, bars.front().end(), "time of all calls in a step", tick_seconds),
      "Time of each operation in a step");
  return figure;
}

Figure places_figure(const StepReport& report) {
  std::map<StepPlace, std::array<double, kNumBounds>> seconds;
  std::map<StepPlace, std::set<std::int64_t>> layers;
  std::set<Bound> bounds;
  for (const StageEstimate& stage : report.estimate.stages) {
    for (const OpEstimate& op : stage.ops) {
      const StepPlace place = place_of(report.model.config, stage.stage, op.op);
      seconds[place][static_cast<std::size_t>(op.time.bound)] += op.time.seconds;
      bounds.insert(op.time.bound);
      if (place != StepPlace::kOutside) layers[place].insert(model_layer(stage.stage, op.op));
    }
  }
  std::vector<Bar> bars;
  double most = 0;
  Table table{.id = "places",
              .caption = "Time by part of the model, µs",
              .columns = {{.name = "part", .is_figure = false}, {"layers"}, {"in all"}}};
  for (std::size_t b = 0; b < kNumBounds; ++b)
    table.columns.push_back({fmt::format("bound by {}", bound_name(static_cast<Bound>(b)))});
  for (const auto& [place, by_bound] : seconds) {
    Bar bar{.label = std::string(place_name(place))};
    for (std::size_t b = 0; b < by_bound.size(); ++b) {
      const auto bound = static_cast<Bound>(b);
      if (by_bound[b] > 0)
        bar.append(
            by_bound[b], std::string(bound_style(bound)),
            fmt::format("{}, bound by {}: {}", bar.label, bound_name(bound), si_text(by_bound[b], "s")));
    }
    const bool has_layers = place != StepPlace::kOutside && place != StepPlace::kDraft;
    const auto count = has_layers ? static_cast<double>(layers[place].size()) : 0;
    bar.figure = has_layers ? fmt::format("{} · {} x {}", si_text(bar.end(), "s"), count,
                                          si_text(bar.end() / count, "s"))
                            : si_text(bar.end(), "s");
    const auto microseconds = [](double time) { return Cell{significant_text(1e6 * time), time}; };
    table.rows.push_back(
        {{bar.label, {}}, {has_layers ? fmt::format("{}", count) : "–", count}, microseconds(bar.end())});
    for (const double time : by_bound) table.rows.back().push_back(microseconds(time));
    bars.push_back(std::move(bar));
  }
  for (const auto& [name, time] :
       {std::pair{"between stages", report.estimate.send_seconds}, {"host", report.estimate.host_seconds}}) {
    if (time == 0) continue;
    Bar bar{.label = name, .figure = si_text(time, "s")};
    bar.append(time, "c-other", fmt::format("{}: {}", name, si_text(time, "s")));
    bars.push_back(std::move(bar));
  }
  for (const Bar& bar : bars) most = std::max(most, bar.end());
  Figure figure{
      .id = "places-chart",
      .title = "Time by part of the model",
      .caption =
          "All layers of a kind together, number of layers x mean time of one; colours say what bounds the "
          "operations within.",
      .legend = bound_legend(bounds),
      .table = std::move(table)};
  if (report.estimate.host_seconds > 0 || report.estimate.send_seconds > 0)
    figure.legend.push_back({"c-other", "outside of operations"});
  figure.svg = bar_chart(bars, Axis(Scale::kLinear, 0, most, "time in a step", tick_seconds),
                         "Time of each part of the model in a step");
  return figure;
}

Figure memory_figure(const StepReport& report) {
  const StepEstimate& e = report.estimate;
  std::vector<Bar> bars;
  std::set<std::size_t> used;
  for (const StageEstimate& stage : e.stages) {
    Bar bar{.label = e.stages.size() == 1
                         ? "each device"
                         : fmt::format("layers {} to {}", stage.stage.begin, stage.stage.end - 1)};
    const auto parts = stage.memory.parts();
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto bytes = static_cast<double>(parts[i].second);
      if (bytes == 0) continue;
      used.insert(i);
      bar.append(bytes, kMemoryStyles.at(i), fmt::format("{}: {} GB", parts[i].first, gigabytes_text(bytes)));
    }
    bar.figure = fmt::format("{:.1f} GB", 1e-9 * bar.end());
    bars.push_back(std::move(bar));
  }
  const auto capacity = static_cast<double>(e.device_memory_bytes),
             taken = static_cast<double>(e.memory_bytes);
  Figure figure{
      .id = "memory-chart",
      .title = "Memory of a device",
      .caption = e.fits()
                     ? fmt::format("{} of {} GB are taken, {} are left.", gigabytes_text(taken),
                                   gigabytes_text(capacity), gigabytes_text(capacity - taken))
                     : fmt::format("{} GB are needed, {} more than the {} there are.", gigabytes_text(taken),
                                   gigabytes_text(taken - capacity), gigabytes_text(capacity))};
  for (const std::size_t i : used)
    figure.legend.push_back({kMemoryStyles.at(i), std::string(e.stages.front().memory.parts()[i].first)});
  figure.svg = bar_chart(
      bars,
      Axis(Scale::kLinear, 0, std::max(capacity, taken), "memory", [](double v) { return si_text(v, "B"); }),
      "Memory of a device by what it is for, against capacity", BarLimit{capacity, "capacity"});
  return figure;
}

}  // namespace baleen
