#include "simulator/serving/serving_figures.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace baleen {
namespace {

/// `values` come in any order, and leave in another.
Distribution distribution_of(std::vector<double>& values) {
  if (values.empty()) return {};
  const auto quantile = [&](double share) {
    const auto rank = static_cast<std::ptrdiff_t>(std::ceil(share * static_cast<double>(values.size())));
    const auto at = values.begin() + std::max<std::ptrdiff_t>(rank - 1, 0);
    std::ranges::nth_element(values, at);
    return *at;
  };
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return {.mean = sum / static_cast<double>(values.size()),
          .p50 = quantile(0.5),
          .p90 = quantile(0.9),
          .p99 = quantile(0.99)};
}

double per_output_token(const RequestRecord& request) {
  return (request.finished - request.first_token) / static_cast<double>(request.output_tokens - 1);
}

bool is_within(const ServiceLimits& limits, const RequestRecord& request) {
  if (limits.first_token_seconds && request.first_token - request.arrival > *limits.first_token_seconds) {
    return false;
  }
  return !limits.per_output_token_seconds || request.output_tokens == 1 ||
         per_output_token(request) <= *limits.per_output_token_seconds;
}

Distribution finished_distribution(const std::vector<RequestRecord>& requests, auto&& time_of) {
  std::vector<double> times;
  for (const RequestRecord& request : requests) {
    if (request.end != RequestEnd::kFinished) continue;
    if (const std::optional<double> time = time_of(request)) times.push_back(*time);
  }
  return distribution_of(times);
}

}  // namespace

ServingFigures figures_of(ServingResult&& result, const ServiceLimits& limits) {
  const std::vector<RequestRecord>& requests = result.requests;
  ServingFigures figures{.requests = std::ssize(requests), .limits = limits};
  double begin = std::numeric_limits<double>::infinity(), end = 0;
  for (const RequestRecord& request : requests) {
    begin = std::min(begin, request.arrival);
    end = std::max(end, request.finished);
    figures.preemptions += request.preemptions;
    if (request.end == RequestEnd::kTurnedAway) ++figures.turned_away;
    if (request.end == RequestEnd::kAbandoned) ++figures.abandoned;
    if (request.end == RequestEnd::kRefused) ++figures.refused;
    if (request.end != RequestEnd::kFinished) continue;
    ++figures.finished;
    figures.prompt_tokens += request.prompt_tokens;
    figures.cached_tokens += request.cached_tokens;
    figures.output_tokens += request.output_tokens;
    figures.drafted_tokens += request.drafted_tokens;
    figures.accepted_tokens += request.accepted_tokens;
    if (is_within(limits, request)) ++figures.within_limits;
  }
  figures.seconds = requests.empty() ? 0 : end - begin;
  using Time = std::optional<double>;
  figures.queue =
      finished_distribution(requests, [](const RequestRecord& r) -> Time { return r.admitted - r.arrival; });
  figures.first_token = finished_distribution(
      requests, [](const RequestRecord& r) -> Time { return r.first_token - r.arrival; });
  figures.end_to_end =
      finished_distribution(requests, [](const RequestRecord& r) -> Time { return r.finished - r.arrival; });
  figures.per_output_token = finished_distribution(requests, [](const RequestRecord& r) {
    return r.output_tokens > 1 ? Time(per_output_token(r)) : Time();
  });
  const TimeHistogram& gaps = result.gaps;
  figures.between_tokens = {gaps.mean(), gaps.quantile(0.5), gaps.quantile(0.9), gaps.quantile(0.99)};
  figures.servers = std::move(result.servers);
  figures.first_refusal = std::move(result.first_refusal);
  return figures;
}

}  // namespace baleen
