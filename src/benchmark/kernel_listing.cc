#include "benchmark/kernel_listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace baleen {

double predicted_seconds(const VariantVerdict& verdict, const Ceilings& ceilings) {
  const double memory = verdict.cost.total_bytes() / ceilings.bytes_per_second;
  const double arithmetic = verdict.cost.total_flops() / ceilings.flops_per_second;
  return std::max(memory, arithmetic);
}

std::string describe_outcome(const VariantVerdict& verdict) {
  switch (verdict.outcome) {
    case VariantOutcome::kChosen:
      return "chosen";
    case VariantOutcome::kRefused:
      return fmt::format("refused: {}", verdict.reason);
    case VariantOutcome::kSlower:
      return fmt::format("slower: {}", verdict.reason);
    case VariantOutcome::kNotNeeded:
      return "not needed: one listed before it runs";
    case VariantOutcome::kExcluded:
      return "excluded: another is forced";
  }
  return "?";
}

std::string kernel_table(const VariantReport& report, const Ceilings& ceilings) {
  std::string text =
      fmt::format("\n{:<24}{:<22}{:>12}  {}\n", "operation, call", "variant", "at least us", "");
  std::string last;
  for (const VariantVerdict& verdict : report.verdicts()) {
    const std::string call = fmt::format("{}: {}", verdict.operation, verdict.call);
    if (call != last) text += fmt::format("{}\n", call);
    last = call;
    text += fmt::format("{:<24}{:<22}{:>12.1f}  {}\n", "", verdict.variant,
                        1e6 * predicted_seconds(verdict, ceilings), describe_outcome(verdict));
  }
  return text;
}

nlohmann::ordered_json kernels_to_json(const VariantReport& report, const Ceilings& ceilings) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const VariantVerdict& verdict : report.verdicts()) {
    rows.push_back({{"operation", verdict.operation},
                    {"call", verdict.call},
                    {"variant", verdict.variant},
                    {"chosen", verdict.outcome == VariantOutcome::kChosen},
                    {"outcome", describe_outcome(verdict)},
                    {"seconds_at_least", predicted_seconds(verdict, ceilings)}});
  }
  return rows;
}

}  // namespace baleen
