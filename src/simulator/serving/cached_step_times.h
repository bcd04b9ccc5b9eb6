/// Step times of a model that is slow to ask, asked once for all steps that are nearly alike.
///
/// Steps are alike when their features (step_features.h), and those of their rows that go through the decoder
/// half of the model, agree after rounding down to a grid of so many leading bits:
///
///     tokens, parts, logit rows, sums       G bits after the leading one: cells are 2^-G of their value wide at most
///     emissions                             E bits likewise: a small part of the cost, and another number every step
///
/// Of drafts only tokens and window rows count, because a draft head has nothing but a window, and whether
/// they are the first of their chains.
///
/// Values below 2^(G+1) are exact. The first step of a cell is computed, and stands for the cell. So where
/// the cost is an affine function of the features with no negative coefficient, a cached time is off by less
/// than 2^-G of the part that depends on sums and 2^-E of the part that depends on emissions; both ways, so
/// that errors of many steps largely cancel.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>

#include "simulator/serving/step_features.h"

namespace baleen {

struct StepGrid {
  int sum_bits = 3;       ///< G: 12.5% at most
  int emission_bits = 1;  ///< E
  /// More cells than this are forgotten, all at once: memory stays bounded.
  std::size_t most_cells = std::size_t{1} << 20;
};

class CachedStepTimes final : public StepTimes {
 public:
  CachedStepTimes(std::shared_ptr<StepTimes> exact, const AttentionReach& reach, const StepGrid& grid = {})
      : exact_(std::move(exact)), reach_(reach), grid_(grid) {}

  [[nodiscard]] double step_seconds(std::span<const QueryPart> parts) override;
  [[nodiscard]] double draft_seconds(std::span<const QueryPart> chains, std::int64_t depth) override;

  /// Times looked up, and how many of them were computed.
  [[nodiscard]] std::int64_t num_asked() const { return num_asked_; }
  [[nodiscard]] std::int64_t num_computed() const { return num_computed_; }

 private:
  struct Cell {
    StepFeatures step, decoder;
    [[nodiscard]] friend bool operator==(const Cell&, const Cell&) = default;
  };
  struct CellHash {
    [[nodiscard]] std::size_t operator()(const Cell& cell) const;
  };
  using Cells = std::unordered_map<Cell, double, CellHash>;

  [[nodiscard]] StepFeatures rounded(StepFeatures features) const;
  [[nodiscard]] Cell cell_of(std::span<const QueryPart> parts) const;
  template <class Compute>
  double look_up(Cells& cells, const Cell& cell, Compute&& compute);

  std::shared_ptr<StepTimes> exact_;
  AttentionReach reach_;
  StepGrid grid_;
  Cells steps_, first_drafts_, later_drafts_;
  std::int64_t num_asked_ = 0, num_computed_ = 0;
};

}  // namespace baleen
