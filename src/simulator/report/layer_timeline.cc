#include "simulator/report/layer_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "plots/bar_chart.h"
#include "plots/figure_text.h"
#include "simulator/report/roofline_plot.h"
#include "simulator/report/step_places.h"

namespace baleen {
namespace {

/// "linear wq_a ..." of one that makes several products at once.
std::string short_name(const GraphOp& op) {
  if (!op.name.ends_with("linear")) return std::string(op.name);
  const std::size_t first = op.detail.find(' ');
  const bool more = std::ranges::count(op.detail, '[') > 1;
  return fmt::format("{} {}{}", op.name, op.detail.substr(0, first), more ? " …" : "");
}

struct Layer {
  StepPlace place = StepPlace::kOutside;
  std::int64_t number = 0;
  std::vector<const OpEstimate*> ops;

  [[nodiscard]] double begin() const { return ops.front()->start_seconds; }
  [[nodiscard]] double end() const { return ops.back()->start_seconds + ops.back()->time.seconds; }
};

/// Of each kind the middle one.
std::vector<Layer> middle_layers(const StepReport& report) {
  std::map<StepPlace, std::map<std::int64_t, Layer>> all;
  for (const StageEstimate& stage : report.estimate.stages) {
    for (const OpEstimate& op : stage.ops) {
      const StepPlace place = place_of(report.model.config, stage.stage, op.op);
      if (place == StepPlace::kOutside || place == StepPlace::kDraft || op.micro_batch > 0) continue;
      const std::int64_t number = model_layer(stage.stage, op.op);
      Layer& layer = all[place][number];
      layer.place = place;
      layer.number = number;
      layer.ops.push_back(&op);
    }
  }
  std::vector<Layer> middle;
  for (const auto& [place, layers] : all)
    middle.push_back(std::next(layers.begin(), static_cast<std::ptrdiff_t>(layers.size() / 2))->second);
  return middle;
}

}  // namespace

std::vector<Figure> layer_figures(const StepReport& report) {
  const std::vector<Layer> layers = middle_layers(report);
  double longest = 0;
  for (const Layer& layer : layers) longest = std::max(longest, layer.end() - layer.begin());
  std::vector<Figure> figures;
  for (const Layer& layer : layers) {
    std::vector<Bar> bars;
    std::set<Bound> bounds;
    Table table{.id = fmt::format("layer-{}-operations", layer.number),
                .caption = fmt::format("Operations of layer {}", layer.number),
                .columns = {{.name = "operation", .is_figure = false},
                            {"begins, µs"},
                            {"takes, µs"},
                            {.name = "bound by", .is_figure = false}}};
    for (const OpEstimate* op : layer.ops) {
      bounds.insert(op->time.bound);
      const double begin = op->start_seconds - layer.begin();
      table.rows.push_back({{fmt::format("{} {}", op->op.name, op->op.detail), {}},
                            {fmt::format("{:.2f}", 1e6 * begin), begin},
                            {fmt::format("{:.2f}", 1e6 * op->time.seconds), op->time.seconds},
                            {std::string(bound_name(op->time.bound)), {}}});
      bars.push_back({.label = short_name(op->op),
                      .pieces = {{op->start_seconds - layer.begin(), op->time.seconds,
                                  std::string(bound_style(op->time.bound)),
                                  fmt::format("{} {}: {}, bound by {}", op->op.name, op->op.detail,
                                              si_text(op->time.seconds, "s"), bound_name(op->time.bound))}},
                      .figure = si_text(op->time.seconds, "s")});
    }
    const std::string kind(place_name(layer.place));
    figures.push_back(
        {.id = fmt::format("layer-{}", layer.number),
         .title = fmt::format("Layer {}, one of the {}", layer.number, kind),
         .svg = bar_chart(bars,
                          Axis(Scale::kLinear, 0, longest, "time since the layer began",
                               [](double v) { return si_text(v, "s"); }),
                          fmt::format("Time line of layer {}", layer.number)),
         .caption = fmt::format(
             "{} operations and messages in {}, from its first matrix to that of the next layer{}.",
             layer.ops.size(), si_text(layer.end() - layer.begin(), "s"),
             report.plan.dual_batch_overlap ? "; gaps are waits for the other micro-batch" : ""),
         .legend = bound_legend(bounds),
         .table = std::move(table)});
  }
  return figures;
}

}  // namespace baleen
