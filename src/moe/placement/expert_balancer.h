/// Decides while a model serves which layers' experts should lie elsewhere: counts steps, takes what experts
/// got in a window of them, and says which maps change. It moves nothing and has no I/O.
/// (source: parallel MoE 10)
///
///     step     0          t - window              t = first + i interval
///              ├──────────────┼─ loads wanted ──────────┼─ loads wanted
///                             └──── the window ─────────┘ evaluation: maps of some layers change
///
/// Loads are totals since some time; a window's are the difference of two of them. The totals at the
/// beginning of window / interval windows are kept.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "model/block_experts.h"
#include "ops/dispatch/expert_map.h"

namespace baleen {

struct BalanceOptions {
  bool enabled = false;
  std::int64_t window_steps = 1000;    ///< latest steps whose tokens are counted
  std::int64_t interval_steps = 3000;  ///< from evaluation to evaluation
  std::int64_t first_steps = 750;      ///< before the first one
  double min_gain = 0.05;              ///< what a layer's balancedness must gain, or its map stays
  std::int64_t max_moved_bytes = 0;    ///< what all layers may move at an evaluation; 0: no limit
};

/// Tokens by block of the whole model and logical expert.
using ExpertLoads = std::vector<std::vector<std::int64_t>>;

/// What the ranks of one layer got.
struct LayerBalance {
  /// Tokens of each rank in the latest window: under the map in force then, and under that of now. An
  /// expert's are shared out evenly over its copies. Empty before the first evaluation.
  std::vector<double> before, after;
};

/// Balancedness over layers that had tokens.
struct Balancedness {
  double mean = 1, least = 1;
};

struct ExpertBalance {
  std::int64_t num_steps = 0;
  std::int64_t num_evaluations = 0;
  std::int64_t num_rebalancings = 0;   ///< evaluations after which maps changed
  std::int64_t num_failures = 0;       ///< changes that a rank could not make; all maps stayed
  std::int64_t num_moved_experts = 0;  ///< experts that a rank got which it did not have
  std::int64_t moved_bytes = 0;        ///< theirs
  std::string last_failure;
  std::vector<LayerBalance> layers;  ///< blocks of the whole model

  [[nodiscard]] Balancedness before() const;
  [[nodiscard]] Balancedness after() const;
};

class ExpertBalancer {
 public:
  /// `maps` of all blocks, of as many ranks; `expert_bytes` of one expert of each block.
  ExpertBalancer(const BalanceOptions& options, std::vector<ExpertMap> maps,
                 std::vector<std::int64_t> expert_bytes);

  /// Whether the next step is to begin with `take_loads`.
  [[nodiscard]] bool wants_loads() const;
  /// `loads` so far. Maps that should change before the next step, by rising block; none where it only
  /// begins a window, and where no layer gains enough. Then `changed`, perhaps of a few blocks at a time, is
  /// due until they all are, or `failed`.
  [[nodiscard]] std::vector<BlockExperts> take_loads(const ExpertLoads& loads);
  /// All ranks have the next `num_blocks` of the maps that `take_loads` returned.
  void changed(std::size_t num_blocks);
  /// A rank could not: the maps that are left stay as they are.
  void failed(std::string why);
  /// After `take_loads`, if that was wanted: a step begins, on whichever ranks it has rows.
  void count_step() { ++state_.num_steps; }

  [[nodiscard]] std::span<const ExpertMap> maps() const { return maps_; }
  [[nodiscard]] const ExpertBalance& state() const { return state_; }

 private:
  /// A map that would be better.
  struct Proposal {
    std::size_t block = 0;
    ExpertMap map;
    std::vector<double> loads;  ///< loads of ranks under it
    double gain = 0;            ///< what balancedness gains
    std::int64_t num_moved = 0, bytes = 0;
  };
  struct Snapshot {
    std::int64_t step = 0;
    ExpertLoads loads;
  };

  [[nodiscard]] bool is_evaluation(std::int64_t step) const;
  /// Whether some later evaluation's window begins at `step`.
  [[nodiscard]] bool begins_window(std::int64_t step) const;
  [[nodiscard]] std::int64_t window_begin(std::int64_t evaluation) const;
  /// By rising block, within the budget.
  [[nodiscard]] std::vector<Proposal> proposals(const ExpertLoads& begin, const ExpertLoads& end);

  BalanceOptions options_;
  std::vector<ExpertMap> maps_;
  std::vector<std::int64_t> expert_bytes_;
  std::deque<Snapshot> begun_;  ///< windows, the oldest first
  std::vector<Proposal> proposed_;
  ExpertBalance state_;
};

/// Throws `Error` for options that cannot be.
void validate(const BalanceOptions& options);

}  // namespace baleen
