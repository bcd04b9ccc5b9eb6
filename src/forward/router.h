/// The router of a block: which experts each token has, and with what weight; the tokens that each expert
/// got; where experts lie outside the device's memory, a guess of what the next block will choose.
/// (source: forward pass 6.1)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "forward/pass.h"
#include "forward/pass_arrays.h"
#include "moe/residence/expert_store.h"
#include "ops/experts/experts.h"
#include "ops/route/route.h"

namespace baleen {

struct RouterArrays {
  RouterArrays() = default;
  RouterArrays(const RankConfig& rank, ActivationArrays& arrays);
  /// The rows from `first` on; `load` is the same.
  [[nodiscard]] RouterArrays from_row(std::int64_t first) const;

  Activations<2> logits;         ///< [R, E] float32
  View<std::int32_t, 2> ids;     ///< [R, k]
  Activations<2> weights;        ///< [R, k] float32
  std::int64_t* load = nullptr;  ///< [blocks, E], of all rows
};

/// For the K rows that the rank keeps.
struct Routing {
  View<std::int32_t, 2> ids;  ///< [K, k]
  Activations<2> weights;     ///< [K, k] float32
  ExpertGuess next;           ///< what the next block may choose; empty where nothing is guessed
};

class Router {
 public:
  Router(const PassContext& context, ActivationArrays& arrays);

  /// From now on second micro-batches have the rows from `first` on.
  void cut(std::int64_t first) { arrays_.cut(first); }

  /// `x`: [K, d]. `store`: where the block's experts lie in two memories; null: they lie in one. Counts the
  /// tokens of a pass that `counts_load`.
  [[nodiscard]] Routing choose(std::int64_t block, const Pass& pass, const Activations<2>& x,
                               const ExpertStore* store);
  /// How many tokens were sent to each routed expert since the start, as rows of [blocks, E]. Waits for the
  /// device.
  [[nodiscard]] std::vector<std::vector<std::int64_t>> load() const;

 private:
  /// What does not change from step to step, and the step's tokens.
  [[nodiscard]] RouteArgs route_of(std::int64_t block, const Pass& pass) const;
  [[nodiscard]] std::span<std::int64_t> load_counts(std::int64_t block) const;

  PassContext context_;
  PerMicroBatch<RouterArrays> arrays_;
};

}  // namespace baleen
