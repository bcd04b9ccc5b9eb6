#include "benchmark/expert_listing.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "benchmark/kernel_listing.h"

namespace baleen {
namespace {

std::string_view backend_name(const ExpertCandidate& candidate) {
  return candidate.verdict.variant.empty() ? "not known: no module" : candidate.verdict.variant;
}

}  // namespace

std::string expert_table(const std::vector<ExpertCandidate>& candidates) {
  std::string text;
  const ExpertTransportTraits* last = nullptr;
  for (const ExpertCandidate& candidate : candidates) {
    const ExpertTransportTraits& transport = *candidate.transport;
    const bool is_new = &transport != last;
    last = &transport;
    if (candidate.refused_transport) {
      // The reason is the transport's, so it is the same for all back-ends.
      if (is_new) text += fmt::format("  {:<16}{}\n", transport.name, describe_outcome(candidate.verdict));
      continue;
    }
    if (is_new) text += fmt::format("  {:<16}{}\n", transport.name, transport.moves);
    text += fmt::format("    {:<18}{}\n", backend_name(candidate), describe_outcome(candidate.verdict));
  }
  return text;
}

nlohmann::ordered_json experts_to_json(const std::vector<ExpertCandidate>& candidates) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const ExpertCandidate& candidate : candidates) {
    rows.push_back({{"transport", candidate.transport->name},
                    {"backend", backend_name(candidate)},
                    {"chosen", candidate.verdict.outcome == VariantOutcome::kChosen},
                    {"outcome", describe_outcome(candidate.verdict)}});
  }
  return rows;
}

}  // namespace baleen
