#include "simulator/report/cache_plot.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/cache_geometry.h"
#include "plots/figure_text.h"
#include "plots/xy_plot.h"
#include "simulator/graph/op_graph.h"
#include "simulator/graph/v32_geometry.h"

namespace baleen {

std::vector<CacheBytes> cache_bytes_by_context(const SimulatedModel& model) {
  constexpr std::int64_t kFirst = 1024;
  const ModelConfig& c = model.config;
  const CacheGeometry geometry = cache_geometry(c, Precision::kReleased);
  const RankModel whole(c, model.formats, resolved({.num_devices = 1}, c));
  std::vector<CacheBytes> all;
  for (std::int64_t n = std::min(kFirst, c.max_position_embeddings); n <= c.max_position_embeddings; n *= 2) {
    const double windows = static_cast<double>(c.num_hidden_layers * geometry.window_bytes()) *
                           static_cast<double>(std::min(n, geometry.window_tokens)) /
                           static_cast<double>(geometry.window_tokens);
    const OpGraph token = record_step(whole, {{.start = n - 1, .num_tokens = 1, .num_logits = 1}}, {}, {});
    all.push_back(
        {n, geometry.bytes_per_token() * static_cast<double>(n) + windows, token.total_cost().cache_bytes});
  }
  return all;
}

Figure cache_figure(const SimulatedModel& model, std::int64_t num_positions) {
  const std::vector<CacheBytes> all = cache_bytes_by_context(model);
  PlotLine held{.style = "c-memory", .label = "held"}, read{.style = "c-compute", .label = "read a token"};
  PlotLine v32_held{.style = "c-memory dashed", .label = "V3.2 held"};
  PlotLine v32_read{.style = "c-compute dashed", .label = "V3.2 read a token"};
  Table table{.id = "cache",
              .caption = "Bytes of the key-value cache of a sequence",
              .columns = {{"positions"}, {"held, MB"}, {"read, MB"}, {"V3.2 held, MB"}, {"V3.2 read, MB"}}};
  const auto megabytes = [](double bytes) { return Cell{fmt::format("{:.2f}", 1e-6 * bytes), bytes}; };
  double most = 0, least = all.front().read;
  for (const CacheBytes& at : all) {
    const auto n = static_cast<double>(at.num_positions);
    const auto v32 = static_cast<double>(v32_cache_bytes(at.num_positions));
    const auto v32_token = static_cast<double>(v32_cache_read_bytes(at.num_positions));
    held.points.push_back({n, at.held});
    read.points.push_back({n, at.read});
    v32_held.points.push_back({n, v32});
    v32_read.points.push_back({n, v32_token});
    table.rows.push_back({{positions_text(n), n},
                          megabytes(at.held),
                          megabytes(at.read),
                          megabytes(v32),
                          megabytes(v32_token)});
    most = std::max({most, at.held, v32});
    least = std::min({least, at.held, at.read, v32_token});
  }
  const auto bytes_text = [](double v) { return si_text(v, "B"); };
  XyPlot plot(Axis(Scale::kDoublings, static_cast<double>(all.front().num_positions),
                   static_cast<double>(all.back().num_positions), "positions of context", positions_text),
              Axis(Scale::kDecades, least, most, "bytes of one sequence, all layers", bytes_text));
  if (num_positions > 0) plot.mark_x(static_cast<double>(num_positions), "this workload");
  for (PlotLine* line : {&v32_held, &held, &v32_read, &read}) plot.add(std::move(*line));
  const CacheBytes& last = all.back();
  const auto v32 = static_cast<double>(v32_cache_bytes(last.num_positions));
  return {.id = "cache-plot",
          .title = "Key-value cache against context",
          .svg = plot.svg("Bytes of the key-value cache against positions of context, beside DeepSeek-V3.2"),
          .caption = fmt::format(
              "At {} positions a sequence holds {}, {:.1f}% of DeepSeek-V3.2's {}; its next token reads {}.",
              positions_text(static_cast<double>(last.num_positions)), si_text(last.held, "B"),
              100 * last.held / v32, si_text(v32, "B"), si_text(last.read, "B")),
          .table = std::move(table)};
}

}  // namespace baleen
