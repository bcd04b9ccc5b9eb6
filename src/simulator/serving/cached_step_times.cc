#include "simulator/serving/cached_step_times.h"

#include <algorithm>
#include <bit>

namespace baleen {
namespace {

/// The value without what comes after its leading one and so many bits more.
std::int64_t rounded_down(std::int64_t value, int bits) {
  const auto magnitude = static_cast<std::uint64_t>(value);
  const int dropped = std::max(0, static_cast<int>(std::bit_width(magnitude)) - 1 - bits);
  return static_cast<std::int64_t>(magnitude >> dropped << dropped);
}

}  // namespace

std::size_t CachedStepTimes::FeatureHash::operator()(const StepFeatures& f) const {
  std::uint64_t hash = 0;
  for (const std::int64_t value : {f.num_tokens, f.num_parts, f.num_logit_rows, f.window_rows, f.index_scores,
                                   f.selected_entries, f.coarse_entries, f.emissions, f.coarse_emissions}) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x9E3779B97F4A7C15;
    hash ^= hash >> 32;
  }
  return hash;
}

StepFeatures CachedStepTimes::cell_of(std::span<const QueryPart> parts) const {
  StepFeatures cell = features_of(parts, reach_);
  for (std::int64_t StepFeatures::*sum :
       {&StepFeatures::num_tokens, &StepFeatures::num_parts, &StepFeatures::num_logit_rows,
        &StepFeatures::window_rows, &StepFeatures::index_scores, &StepFeatures::selected_entries,
        &StepFeatures::coarse_entries}) {
    cell.*sum = rounded_down(cell.*sum, grid_.sum_bits);
  }
  cell.emissions = rounded_down(cell.emissions, grid_.emission_bits);
  cell.coarse_emissions = rounded_down(cell.coarse_emissions, grid_.emission_bits);
  return cell;
}

template <class Compute>
double CachedStepTimes::look_up(Cells& cells, const StepFeatures& cell, Compute&& compute) {
  ++num_asked_;
  const auto found = cells.find(cell);
  if (found != cells.end()) return found->second;
  if (cells.size() == grid_.most_cells) cells.clear();
  ++num_computed_;
  return cells.emplace(cell, compute()).first->second;
}

double CachedStepTimes::step_seconds(std::span<const QueryPart> parts) {
  return look_up(steps_, cell_of(parts), [&] { return exact_->step_seconds(parts); });
}

double CachedStepTimes::draft_seconds(std::span<const QueryPart> chains, std::int64_t depth) {
  const StepFeatures cell = cell_of(chains);
  return look_up(depth == 0 ? first_drafts_ : later_drafts_,
                 {.num_tokens = cell.num_tokens, .window_rows = cell.window_rows},
                 [&] { return exact_->draft_seconds(chains, depth); });
}

}  // namespace baleen
