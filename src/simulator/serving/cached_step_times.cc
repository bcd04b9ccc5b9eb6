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

std::size_t CachedStepTimes::CellHash::operator()(const Cell& cell) const {
  std::uint64_t hash = 0;
  for (const StepFeatures& f : {cell.step, cell.decoder}) {
    for (const std::int64_t value :
         {f.num_tokens, f.num_parts, f.num_logit_rows, f.window_rows, f.index_scores, f.selected_entries,
          f.coarse_entries, f.emissions, f.coarse_emissions}) {
      hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x9E3779B97F4A7C15;
      hash ^= hash >> 32;
    }
  }
  return hash;
}

StepFeatures CachedStepTimes::rounded(StepFeatures features) const {
  for (std::int64_t StepFeatures::*sum :
       {&StepFeatures::num_tokens, &StepFeatures::num_parts, &StepFeatures::num_logit_rows,
        &StepFeatures::window_rows, &StepFeatures::index_scores, &StepFeatures::selected_entries,
        &StepFeatures::coarse_entries}) {
    features.*sum = rounded_down(features.*sum, grid_.sum_bits);
  }
  features.emissions = rounded_down(features.emissions, grid_.emission_bits);
  features.coarse_emissions = rounded_down(features.coarse_emissions, grid_.emission_bits);
  return features;
}

CachedStepTimes::Cell CachedStepTimes::cell_of(std::span<const QueryPart> parts) const {
  const StepFeatures step = rounded(features_of(parts, reach_));
  const bool is_bounded = std::ranges::any_of(
      parts, [&](const QueryPart& part) { return part.is_bounded(reach_.window_tokens); });
  return {step, is_bounded ? rounded(decoder_features_of(parts, reach_)) : step};
}

template <class Compute>
double CachedStepTimes::look_up(Cells& cells, const Cell& cell, Compute&& compute) {
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
  const StepFeatures all = rounded(features_of(chains, reach_));
  const StepFeatures counted{.num_tokens = all.num_tokens, .window_rows = all.window_rows};
  return look_up(depth == 0 ? first_drafts_ : later_drafts_, {counted, counted},
                 [&] { return exact_->draft_seconds(chains, depth); });
}

}  // namespace baleen
