#include "simulator/calibration/fit_operation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

namespace baleen {
namespace {

/// Samples of one number of rows.
using Group = std::vector<const OperationSample*>;

/// Differences of the error below it are rounding.
constexpr double kSameError = 1e-9;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double error_of(const Group& group, const EfficiencyPoint& point) {
  double error = 0;
  for (const OperationSample* sample : group)
    error +=
        std::sqrt(sample->seconds) * std::abs(std::log(modelled_seconds(*sample, point) / sample->seconds));
  return error;
}

double sum_of(const OperationSample& sample, double IdealCalls::*part) {
  double sum = 0;
  for (const IdealCalls& calls : sample.calls) sum += calls.count * (calls.*part);
  return sum;
}

/// The shares with which one of the terms alone explains a sample each; and none, with which the term never
/// binds.
std::vector<double> candidates(const Group& group, double static_seconds, double IdealCalls::*part) {
  std::vector<double> shares{kInfinity};
  for (const OperationSample* sample : group) {
    const double left = sample->seconds - static_seconds * sample->num_kernels;
    const double share = sum_of(*sample, part) / left;
    if (left > 0 && share > 0) shares.push_back(std::min(share, kMaxShare));
  }
  return shares;
}

/// The least `share` with which a term does not bind in any call of the group, where the other term has
/// `other_share`.
double least_share(const Group& group, double IdealCalls::*part, double IdealCalls::*other_part,
                   double other_share) {
  double share = 0;
  for (const OperationSample* sample : group) {
    for (const IdealCalls& calls : sample->calls) {
      if (calls.*other_part > 0) share = std::max(share, calls.*part * other_share / (calls.*other_part));
    }
  }
  return std::min(share, kMaxShare);
}

/// How close to its peak the term comes that binds.
double closeness(const EfficiencyPoint& point) {
  return std::max(std::isinf(point.compute) ? 0 : point.compute, std::isinf(point.memory) ? 0 : point.memory);
}

struct Fit {
  EfficiencyPoint point;
  double error = kInfinity;
};

Fit fit_group(const Group& group, double static_seconds) {
  Fit best;
  const std::vector<double> memory_shares = candidates(group, static_seconds, &IdealCalls::memory_seconds);
  for (const double compute : candidates(group, static_seconds, &IdealCalls::compute_seconds)) {
    for (const double memory : memory_shares) {
      const EfficiencyPoint point{.num_rows = group.front()->num_rows,
                                  .compute = compute,
                                  .memory = memory,
                                  .scalar = compute,
                                  .static_seconds = static_seconds};
      if (std::isinf(compute) && std::isinf(memory)) continue;
      const double error = error_of(group, point);
      const bool better = error < best.error - kSameError;
      const bool as_good = error <= best.error + kSameError && closeness(point) > closeness(best.point);
      if (better || as_good) best = {point, error};
    }
  }
  EfficiencyPoint& point = best.point;
  if (std::isinf(point.compute)) {
    point.compute =
        least_share(group, &IdealCalls::compute_seconds, &IdealCalls::memory_seconds, point.memory);
  } else if (std::isinf(point.memory)) {
    point.memory =
        least_share(group, &IdealCalls::memory_seconds, &IdealCalls::compute_seconds, point.compute);
  }
  point.scalar = point.compute;
  return best;
}

std::vector<Fit> fit_groups(const std::map<double, Group>& groups, double static_seconds) {
  std::vector<Fit> fits;
  for (const auto& [num_rows, group] : groups) fits.push_back(fit_group(group, static_seconds));
  return fits;
}

double total_error(const std::map<double, Group>& groups, double static_seconds) {
  double error = 0;
  for (const Fit& fit : fit_groups(groups, static_seconds)) error += fit.error;
  return error;
}

/// Between 0 and what the shortest call takes; of equal ones the smallest.
double best_static_seconds(const std::map<double, Group>& groups) {
  constexpr int kSteps = 24, kRefinements = 4;
  constexpr double kMaxOfShortest = 0.98;  // something is left for what the calls do
  double most = kInfinity;
  for (const auto& [num_rows, group] : groups) {
    for (const OperationSample* sample : group)
      most = std::min(most, kMaxOfShortest * sample->seconds / sample->num_kernels);
  }
  double low = 0, high = most, best = 0;
  double least_error = total_error(groups, 0);
  for (int refinement = 0; refinement < kRefinements; ++refinement) {
    const double step = (high - low) / kSteps;
    for (int i = 0; i <= kSteps; ++i) {
      const double error = total_error(groups, low + i * step);
      if (error < least_error - kSameError) {
        least_error = error;
        best = low + i * step;
      }
    }
    low = std::max(0.0, best - step);
    high = std::min(most, best + step);
  }
  return best;
}

}  // namespace

OperationEfficiency fit_operation(std::span<const OperationSample> samples) {
  std::map<double, Group> groups;
  for (const OperationSample& sample : samples) {
    const double work =
        sum_of(sample, &IdealCalls::compute_seconds) + sum_of(sample, &IdealCalls::memory_seconds);
    if (sample.seconds > 0 && sample.num_kernels > 0 && sample.num_rows >= 1 && work > 0)
      groups[sample.num_rows].push_back(&sample);
  }
  OperationEfficiency efficiency;
  if (groups.empty()) return efficiency;
  for (const Fit& fit : fit_groups(groups, best_static_seconds(groups)))
    efficiency.points.push_back(fit.point);
  return efficiency;
}

}  // namespace baleen
