#include "trainer/report/runs_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trainer/report/curves.h"

namespace baleen {
namespace {

constexpr std::size_t kMaxContinuations = 100;  ///< continuations that are shown of a run, the newest

/// Of the runs that have values of it.
std::vector<Curve> curves_of(const std::vector<RunLog>& runs, Series RunLog::*series) {
  std::vector<Curve> curves;
  for (const RunLog& run : runs) {
    if (!(run.*series).empty()) curves.push_back({run.name, run.*series});
  }
  return curves;
}

Table runs_table(const std::vector<RunLog>& runs) {
  Table table{.id = "runs",
              .caption = "Runs",
              .columns = {{.name = "run", .is_figure = false},
                          {"last step"},
                          {"last loss"},
                          {"held out, bits a byte"},
                          {"steps skipped"}},
              .sortable = true};
  for (const RunLog& run : runs) {
    const Cell held_out = run.held_out.empty() ? Cell{"–", {}}
                                               : Cell{fmt::format("{:.4f}", run.held_out.back().value),
                                                      run.held_out.back().value};
    table.rows.push_back({{run.name, {}},
                          {fmt::format("{:.0f}", run.loss.back().step), run.loss.back().step},
                          {fmt::format("{:.4f}", run.loss.back().value), run.loss.back().value},
                          held_out,
                          {fmt::to_string(run.num_skipped), static_cast<double>(run.num_skipped)}});
  }
  return table;
}

Table continuations_table(const std::vector<RunLog>& runs) {
  Table table{.id = "continuations",
              .caption = "Continuations",
              .columns = {{.name = "run", .is_figure = false},
                          {"step"},
                          {.name = "prompt", .is_figure = false},
                          {.name = "continuation", .is_figure = false}}};
  for (const RunLog& run : runs) {
    const std::size_t count = run.continuations.size();
    for (std::size_t i = count - std::min(count, kMaxContinuations); i < count; ++i) {
      const LoggedContinuation& one = run.continuations[i];
      table.rows.push_back({{run.name, {}},
                            {fmt::to_string(one.step), static_cast<double>(one.step)},
                            {one.prompt, {}},
                            {one.text, {}}});
    }
  }
  return table;
}

std::vector<Figure> figures_of(const std::vector<RunLog>& runs) {
  const std::vector<std::pair<CurvesText, Series RunLog::*>> all{
      {{"loss", "Loss", "Of the batch of each step.", "nats a token"}, &RunLog::loss},
      {{"held-out", "Held-out loss", "Of rows that are not trained on.", "bits a byte"}, &RunLog::held_out},
      {{"reward", "Reward", "Mean of the replies of each step.", "reward"}, &RunLog::reward},
      {{"indexer-loss", "Loss of the indexers", "Divergence from the attention, summed over layers.",
        "nats a query"},
       &RunLog::indexer_loss},
      {{"balance-loss", "Balance loss", "Of each document, summed over layers; even loads have 1 a layer.",
        "loss"},
       &RunLog::balance_loss},
      {{"gradient-norm", "Gradient norm", "Before clipping, without the indexers.", "norm"},
       &RunLog::gradient_norm},
      {{"learning-rate", "Learning rate", "By the schedule.", "learning rate"}, &RunLog::learning_rate},
      {{"speed", "Speed", "By the time of each step.", "tokens/s"}, &RunLog::tokens_per_second}};
  std::vector<Figure> figures;
  for (const auto& [text, series] : all) {
    const std::vector<Curve> curves = curves_of(runs, series);
    if (!curves.empty()) figures.push_back(curves_figure(text, curves));
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::vector<Curve> layers;
    for (std::size_t block = 0; block < runs[i].violation.size(); ++block)
      layers.push_back({fmt::format("layer {}", block), runs[i].violation[block]});
    if (layers.empty()) continue;
    figures.push_back(
        curves_figure({fmt::format("experts-{}", i), fmt::format("Loads of experts: {}", runs[i].name),
                       "The largest load of a layer over its mean, minus 1: 0 is even. Layers after the last "
                       "of the model are "
                       "MTP blocks.",
                       "violation"},
                      layers));
  }
  return figures;
}

}  // namespace

std::string runs_html(const std::vector<RunLog>& runs, const Provenance& provenance) {
  HtmlPage page(runs.size() == 1 ? fmt::format("Training run {}", runs[0].name) : "Training runs",
                fmt::format("From the log of {} run{}.", runs.size(), runs.size() == 1 ? "" : "s"),
                provenance);
  for (const RunLog& run : runs) {
    if (run.num_damaged > 0)
      page.add_warning(
          fmt::format("{}: {} lines of the log are damaged and left out.", run.name, run.num_damaged));
    if (run.num_skipped > 0)
      page.add_warning(
          fmt::format("{}: {} steps were skipped, because their loss or gradient was not finite.", run.name,
                      run.num_skipped));
  }
  page.add_table(runs_table(runs));
  page.add_figures(figures_of(runs));
  const Table continuations = continuations_table(runs);
  if (!continuations.rows.empty()) page.add_table(continuations);
  return page.text();
}

}  // namespace baleen
