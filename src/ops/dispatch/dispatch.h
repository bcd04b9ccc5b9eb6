/// Rows of tokens go to the ranks that hold their experts, with their experts and routing weights.
/// (source: parallel MoE 2, 4, 5)
///
/// V4 weights an expert's inner activation, so the weight travels with the row. Assignments for FP8 products
/// are sent as e4m3 codes with a byte of scale per 128 values where the device has them: quantised by the
/// sender they are what the receiver would compute. A rank without tokens takes part like any other.
#pragma once

#include "ops/dispatch/expert_exchange.h"
#include "tensor/fp8_rows.h"

namespace baleen {

/// What is sent to whom, and as what it arrives.
enum class DispatchWay : std::uint8_t {
  kAssignments,  ///< all-to-all: each token-expert assignment by itself to the ranks of its expert
  /// All-gather: every row to every rank of the stage, with all its ids and weights. A rank takes the
  /// assignments of its experts out of them, which then lie as with kAssignments.
  kGatheredAssignments,
  /// The same, and rows stay tokens: k physical ids and weights each, of any rank's experts.
  kGatheredTokens,
  /// As kGatheredAssignments, of rows in the format of kAssignments. Every assignment has a place on every
  /// rank, and up to kMaxCapturedTokens the outputs of all places return: no size depends on the routing.
  kGatheredPlaces
};

/// Tokens of a rank in the largest captured step; in larger ones sizes may depend on the routing.
inline constexpr std::int64_t kMaxCapturedTokens = 256;

/// Whether rows travel as FP8 where the experts take them so.
[[nodiscard]] constexpr bool sends_fp8_rows(DispatchWay way) {
  return way == DispatchWay::kAssignments || way == DispatchWay::kGatheredPlaces;
}

struct DispatchArgs {
  ExpertRanks placement;
  ConstActivations<2> x;            ///< [T, d], this rank's tokens
  Fp8Rows x_fp8{};                  ///< those tokens for FP8 products, where the device has them
  bool sends_fp8 = true;            ///< the experts' weights take activations as FP8, with a scale per 128
  View<const std::int32_t, 2> ids;  ///< [T, k] logical ids, or -1: goes nowhere
  ConstActivations<2> weights;      ///< [T, k]
  DispatchWay way = DispatchWay::kAssignments;
  /// Out [M, d]; room for every token of the stage, k times unless tokens arrive.
  Activations<2> arrived;
  Fp8Rows arrived_fp8{};               ///< out
  View<std::int32_t, 2> arrived_ids;   ///< out [M, 1] physical ids; of tokens [M, k]
  Activations<2> arrived_weights;      ///< out, likewise
  DispatchedRows* received = nullptr;  ///< out: M, and whose rows they are; not null
  /// Ranks that share out the rows of a step before they send them: each has at most the row_parts-th part of
  /// the largest step, rounded up.
  std::int64_t row_parts = 1;
};

/// All ranks' arguments, in ascending place.
void dispatch_ref(std::span<const DispatchArgs> ranks);

namespace ops {

struct Dispatch {
  using Args = DispatchArgs;
  static constexpr std::string_view kName = "dispatch";
  [[nodiscard]] static OpCost cost(const DispatchArgs& /*args*/) { return {}; }
  [[nodiscard]] static CallShape shape(const DispatchArgs& args) { return {.num_rows = args.x.extent(0)}; }
  static void accesses(const DispatchArgs& args, Accesses& to);
  /// As routing without preferences would need them: an all-to-all over the ranks that hold different experts
  /// and, where an expert is split, an all-gather over those that share it. Where rows are gathered, one
  /// all-gather over the stage: of each row its activations, as they are or as FP8 (`sends_fp8_rows`), and 8
  /// bytes for each of k assignments.
  [[nodiscard]] static std::vector<RankMessage> messages(const DispatchArgs& args);
  /// Gradients of the rows return as activations, never as FP8.
  [[nodiscard]] static std::vector<RankMessage> backward_messages(const DispatchArgs& args);
  [[nodiscard]] static std::span<const CpuVariant<Dispatch>> cpu_variants();
};

}  // namespace ops

}  // namespace baleen
