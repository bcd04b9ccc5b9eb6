#include "benchmark/kernel_listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace baleen {
namespace {

constexpr double kMicroseconds = 1e6;

std::optional<double> measured_seconds(const CallTime& time) {
  return time.calls == 0 ? std::nullopt : std::optional(time.seconds);
}

}  // namespace

double least_seconds(const VariantVerdict& verdict, const Ceilings& ceilings) {
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
      return fmt::format("slower: predicted to take {:.1f} us, and the chosen one no longer",
                         kMicroseconds * verdict.predicted_seconds.value_or(0));
    case VariantOutcome::kNotNeeded:
      return "not needed: one listed before it runs";
    case VariantOutcome::kExcluded:
      return "excluded: another is forced";
  }
  return "?";
}

std::string kernel_table(const VariantReport& report, const Ceilings& ceilings) {
  const auto column = [](std::optional<double> seconds) {
    return seconds ? fmt::format("{:>12.1f}", kMicroseconds * *seconds) : fmt::format("{:>12}", "-");
  };
  std::string text = fmt::format("\n{:<24}{:<22}{:>12}{:>12}{:>12}\n", "operation, call", "variant",
                                 "at least us", "predicted", "measured");
  std::string last;
  for (std::size_t i = 0; i < report.verdicts().size(); ++i) {
    const VariantVerdict& verdict = report.verdicts()[i];
    const std::string call = fmt::format("{}: {}", verdict.operation, verdict.call);
    if (call != last) text += fmt::format("{}\n", call);
    last = call;
    text += fmt::format("{:<24}{:<22}{}{}{}  {}\n", "", verdict.variant,
                        column(least_seconds(verdict, ceilings)), column(verdict.predicted_seconds),
                        column(measured_seconds(report.time(i))), describe_outcome(verdict));
  }
  return text;
}

nlohmann::ordered_json kernels_to_json(const VariantReport& report, const Ceilings& ceilings) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < report.verdicts().size(); ++i) {
    const VariantVerdict& verdict = report.verdicts()[i];
    nlohmann::ordered_json row{
        {"operation", verdict.operation},       {"call", verdict.call},
        {"variant", verdict.variant},           {"chosen", verdict.outcome == VariantOutcome::kChosen},
        {"outcome", describe_outcome(verdict)}, {"seconds_at_least", least_seconds(verdict, ceilings)}};
    if (verdict.predicted_seconds) row["seconds_predicted"] = *verdict.predicted_seconds;
    if (const auto measured = measured_seconds(report.time(i))) row["seconds_measured"] = *measured;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace baleen
