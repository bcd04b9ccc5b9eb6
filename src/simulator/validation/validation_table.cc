#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "simulator/validation/published_set.h"

namespace baleen {

std::string_view metric_name(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kShort[] = {
      {"total_tokens_per_second_per_device", "tokens/s/dev"},
      {"total_tokens_per_second", "tokens/s"},
      {"output_tokens_per_second_per_device", "out/s/dev"},
      {"output_tokens_per_second", "out/s"},
      {"user_tokens_per_second", "out/s/user"},
      {"prompt_tokens_per_second_per_device", "prompt/s/dev"},
      {"prompt_tokens_per_second", "prompt/s"}};
  for (const auto& [full, shorter] : kShort)
    if (name == full) return shorter;
  return name;
}

std::string validation_table(const std::vector<ValidatedRow>& rows) {
  std::size_t width = 0;
  for (const ValidatedRow& row : rows) width = std::max(width, row.row.title.size() + 2);
  std::string text = fmt::format("{:<5}{:<{}}{:<14}{:>11}{:>11}{:>8}\n", "id", "what", width, "figure",
                                 "published", "predicted", "error");
  std::map<std::string, std::string> sources, unknown;  // to the rows they are of
  const auto note = [](std::map<std::string, std::string>& notes, const std::string& about,
                       const std::string& id) {
    std::string& ids = notes[about];
    ids += (ids.empty() ? "" : ", ") + id;
  };
  for (const ValidatedRow& row : rows) {
    for (const PredictedMetric& metric : row.metrics) {
      const std::string_view name = metric_name(metric.name);
      text += fmt::format("{:<5}{:<{}}{:<14}{:>11.4g}{:>11.4g}{:>+7.0f}%{}\n", row.row.id, row.row.title,
                          width, name, metric.published, metric.predicted, 100 * metric.error(),
                          row.row.calibrates ? "  calibrates"
                          : row.row.blind    ? "  blind"
                                             : "");
    }
    note(sources, row.row.source, row.row.id);
    if (!row.row.unknown.empty()) note(unknown, row.row.unknown, row.row.id);
  }
  text += fmt::format(
      "\nmedian error of deployments {:.0f}%; of those that are blind {:.0f}%; of kernels that calibrate "
      "nothing {:.0f}%\n",
      100 * median_error(rows, RowGroup::kDeployments), 100 * median_error(rows, RowGroup::kBlind),
      100 * median_error(rows, RowGroup::kKernels));
  text += "\nsources\n";
  for (const auto& [source, ids] : sources) text += fmt::format("  {}: {}\n", ids, source);
  text += "\nwhat is not known\n";
  for (const auto& [what, ids] : unknown) text += fmt::format("  {}: {}\n", ids, what);
  return text;
}

std::string validation_json(const std::vector<ValidatedRow>& rows) {
  nlohmann::ordered_json json{{"rows", nlohmann::ordered_json::array()}};
  for (const ValidatedRow& row : rows) {
    for (const PredictedMetric& metric : row.metrics) {
      json["rows"].push_back({{"id", row.row.id},
                              {"title", row.row.title},
                              {"metric", metric.name},
                              {"published", metric.published},
                              {"predicted", metric.predicted},
                              {"error", metric.error()},
                              {"calibrates", row.row.calibrates},
                              {"blind", row.row.blind}});
    }
  }
  json["median_error_of_deployments"] = median_error(rows, RowGroup::kDeployments);
  json["median_error_of_blind_deployments"] = median_error(rows, RowGroup::kBlind);
  json["median_error_of_kernels"] = median_error(rows, RowGroup::kKernels);
  return json.dump();
}

}  // namespace baleen
