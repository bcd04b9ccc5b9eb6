#include "forward/router.h"

#include <array>

#include "model/model_family.h"
#include "ops/operations.h"

namespace baleen {
namespace {

RouteScoring scoring_of(ScoringFunc scoring) {
  switch (scoring) {
    case ScoringFunc::kSqrtSoftplus:
      return RouteScoring::kSqrtSoftplus;
    case ScoringFunc::kSigmoid:
      return RouteScoring::kSigmoid;
    case ScoringFunc::kSoftmax:
      return RouteScoring::kSoftmax;
  }
  return RouteScoring::kSqrtSoftplus;
}

}  // namespace

RouterArrays::RouterArrays(const RankConfig& rank, ActivationArrays& arrays)
    : logits(arrays.floats(rank.model().n_routed_experts)),
      ids(arrays.integers(rank.model().num_experts_per_tok)),
      weights(arrays.floats(rank.model().num_experts_per_tok)),
      load(arrays.take<std::int64_t>(rank.num_blocks() * rank.model().n_routed_experts)) {}

RouterArrays RouterArrays::from_row(std::int64_t first) const {
  RouterArrays rest;
  rest.logits = rows_from(logits, first);
  rest.ids = rows_from(ids, first);
  rest.weights = rows_from(weights, first);
  rest.load = load;
  return rest;
}

Router::Router(const PassContext& context, ActivationArrays& arrays)
    : context_(context), arrays_(RouterArrays(context.rank, arrays)) {}

RouteArgs Router::route_of(std::int64_t block, const Pass& pass) const {
  const ModelConfig& config = context_.config;
  const MoeWeights& weights = context_.weights.block(block).moe;
  return {.scoring = scoring_of(config.scoring_func),
          .normalise = config.scoring_func != ScoringFunc::kSoftmax && config.norm_topk_prob,
          .scale = static_cast<float>(config.routed_scaling_factor),
          .sum_eps = static_cast<float>(config.family->routing_sum_eps),
          .bias = weights.bias,
          .hash_table = weights.hash_table,
          .tokens = pass.kept_tokens(),
          .first_row = pass.shares.kept().begin,
          .num_groups = static_cast<int>(config.n_group),
          .num_groups_kept = static_cast<int>(config.topk_group)};
}

Routing Router::choose(std::int64_t block, const Pass& pass, const Activations<2>& x,
                       const ExpertStore* store) {
  const WeightTree& tree = context_.weights;
  const RouterArrays& values = arrays_.of(pass);
  const std::int64_t num_rows = pass.num_kept();
  // A draft head's blocks may have fewer experts than the arrays are for.
  const std::int64_t selected = context_.rank.num_selected_experts(block);
  const Activations<2> logits = rows(values.logits, num_rows, context_.rank.num_routed_experts(block));
  const Routing chosen{.ids = rows(values.ids, num_rows, selected),
                       .weights = rows(values.weights, num_rows, selected),
                       .next = {}};
  // A rank that gets rows of others does not see what these will choose.
  const bool guesses =
      store != nullptr && store->guesses_for(num_rows) && !context_.layout.expert_transport().way;
  // The next block's gate over this block's input. A table needs no logits: any will do.
  const bool guesses_next = guesses && block + 1 < pass.end;
  const bool next_is_hashed = guesses_next && !tree.block(block + 1).moe.hash_table.empty();
  const Activations<2> next_logits =
      guesses_next && !next_is_hashed ? store->guesses().logits(num_rows) : logits;
  std::array<LinearOutput, 2> gates{LinearOutput{&tree.block(block).moe.gate, logits, true, "gate"},
                                    LinearOutput{}};
  std::size_t num_gates = 1;
  if (guesses_next && !next_is_hashed)
    gates[num_gates++] = {&tree.block(block + 1).moe.gate, next_logits, true, "next gate"};
  context_.device.execute<ops::Linear>(
      {.x = x, .outputs = std::span(gates).first(num_gates), .precision = context_.precision});
  RouteArgs route = route_of(block, pass);
  route.logits = logits;
  route.ids = chosen.ids;
  route.weights = chosen.weights;
  if (pass.counts_load) route.load = load_counts(block);
  if (guesses) route.routed = store->routed();
  context_.device.execute<ops::Route>(route);
  if (!guesses_next) return chosen;
  RouteArgs guess = route_of(block + 1, pass);
  guess.logits = next_logits;
  guess.ids = store->guesses().ids(block + 1, num_rows);
  guess.weights = store->guesses().weights(num_rows);
  context_.device.execute<ops::Route>(guess);
  return {.ids = chosen.ids,
          .weights = chosen.weights,
          .next = {.ids = guess.ids, .places = tree.block(block + 1).moe.places}};
}

std::span<std::int64_t> Router::load_counts(std::int64_t block) const {
  const std::int64_t num_experts = context_.config.n_routed_experts;
  return {arrays_.whole().load + block * num_experts,
          static_cast<std::size_t>(context_.rank.num_routed_experts(block))};
}

std::vector<std::vector<std::int64_t>> Router::load() const {
  std::vector<std::vector<std::int64_t>> load;
  for (std::int64_t block = 0; block < context_.rank.num_blocks(); ++block) {
    const std::span<std::int64_t> counts = load_counts(block);
    std::vector<std::int64_t>& of_block = load.emplace_back(counts.size());
    context_.device.memory().download(std::as_writable_bytes(std::span(of_block)),
                                      reinterpret_cast<const std::byte*>(counts.data()));
  }
  return load;
}

}  // namespace baleen
