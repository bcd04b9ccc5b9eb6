/// Mixture of experts: grouped products over each token's chosen experts, clamped SwiGLU, weighted sum, plus
/// the shared expert of every token.                                     (source: forward pass 6.2, 6.3)
///
///     g = w1 x, v = w3 x (BF16);  g <- min(g, limit), v <- clamp(v, -limit, limit)  (limit 0: no clamp)
///     a = silu(g) v  [times the routing weight];  y_e = w2 bf(a)
///     out = bf( sum over chosen experts in ascending id of y_e + y_shared )          float32 sums
///
/// FP4, NVFP4 and FP8 weights see activations (x and bf(a)) rounded to e4m3 per 128 or 32 (WeightMatrix) in
/// `released`.
///
/// NVFP4: w x is bf(s2 * sum), where the sum is over codes times their e4m3 scales and s2 is the matrix's own
/// scale (ops/matmul): nothing is lost on the way from the file. What its maker rounds activations to, e2m1
/// per 16 with the file's `input_scale`, is a step of other hardware's products, coarser than e4m3 per 128,
/// which the model was released with; so that scale is not read. Routed and shared experts may differ in
/// format, and blocks of layers may.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <span>

#include "numeric/dtype.h"
#include "ops/experts/expert_places.h"
#include "ops/matmul/matmul.h"
#include "ops/operation/variant.h"
#include "tensor/fp8_rows.h"

namespace baleen {

/// One expert: w1 (gate) and w3 (up) [I, d], w2 (down) [d, I].
struct ExpertWeights {
  WeightMatrix w1;
  WeightMatrix w2;
  WeightMatrix w3;
};

/// Which experts have their inner width split over ranks: their outputs are partial sums, and not rounded.
struct ExpertSplit {
  bool routed = false, shared = false;

  [[nodiscard]] bool any() const { return routed || shared; }
};

/// In which order the products of routed experts are added up.
enum class ExpertSums : std::uint8_t {
  kFree,   ///< order of each variant
  kStated  ///< as ops/experts/stated_sums.h says: FP4 weights, `released`
};

/// What the experts of a rank are expected to get in a call, for where ids cannot be read.
struct ExpertLoad {
  double assignments = 0;  ///< rows that go to experts of this rank, a token to each of its experts
  double distinct = 0;     ///< experts that get any
  /// What all ranks have whose rows these are among: by them a kernel is more or less full; 0: x's.
  double tokens = 0;
};

/// A guess of what tokens will choose in the block after this one, for devices with experts outside their
/// memory: those that it names are fetched beside the operations that follow.
struct ExpertGuess {
  View<const std::int32_t, 2> ids;  ///< [T, k] like ExpertsArgs::ids; empty: no guess
  ExpertPlaces places{};            ///< where that block's experts lie
};

/// What a caller may know beside the mathematics. None of it changes a result.
struct ExpertHints {
  ExpertGuess next{};
  /// k of the model, where rows are single assignments; 0: they are tokens.
  std::int64_t chosen_per_token = 0;
  std::optional<ExpertLoad> expected{};
};

/// Of ranks that share the experts, one has `routed` from `first_expert` on. What it returns are then its
/// terms of the sum (`out` in float32, not rounded), or, of rows with one expert each, those experts'
/// outputs.
struct ExpertsArgs {
  ConstActivations<2> x;  ///< [T, d]
  /// The same as x rounded for FP8 products, where an earlier operation has made it; of rows that a dispatch
  /// brought as FP8 the only form there is.
  Fp8Rows x_fp8{};
  View<const std::int32_t, 2> ids;        ///< [T, k], each in [0, E), or -1: no expert, contributes nothing
  ConstActivations<2> weights;            ///< [T, k]
  std::span<const ExpertWeights> routed;  ///< [E], one format for all
  ExpertPlaces places{};                  ///< where those of `routed` lie
  const ExpertWeights* shared = nullptr;  ///< null: none
  float swiglu_limit = 0.0F;
  Precision precision = Precision::kReleased;
  Activations<2> out;  ///< [T, d]; not x
  /// Id of routed[0]; ids of experts that are not in `routed` contribute nothing.
  std::int64_t first_expert = 0;
  bool partial_sums = false;  ///< `out` is float32 and the sum is not rounded
  ExpertSplit split{};
  ExpertSums sums = ExpertSums::kFree;  ///< the shared expert is free in either case
  ExpertHints hints{};

  /// Place in `routed` of the expert in `slot` of `row`; -1: none, or one of another rank.
  [[nodiscard]] std::int64_t local_expert(std::int64_t row, std::int64_t slot) const {
    const std::int64_t place = ids(row, slot) - first_expert;
    return ids(row, slot) >= 0 && place >= 0 && place < std::ssize(routed) ? place : -1;
  }
};

/// For variants that have an order of their own.
[[nodiscard]] std::optional<Reason> why_not_stated(const ExpertsArgs& args);
/// For variants whose activations have a scale per 128 values.
[[nodiscard]] std::optional<Reason> why_not_small_groups(const ExpertsArgs& args);
/// For variants whose activations have one per 32, and whose order of sums is their own.
[[nodiscard]] std::optional<Reason> why_not_groups_of_32(const ExpertsArgs& args);

void experts_ref(const ExpertsArgs& args);
void experts_cpu(const ExpertsArgs& args, CpuContext& context);
/// With activations of 8 bits where the contract has e4m3: routed experts in FP4, and of a shared one in FP8
/// a copy as integers; `released` only.
void experts_int8(const ExpertsArgs& args, CpuContext& context);
/// With the sums of routed experts in the stated order (stated_experts.h); of the shared one as in
/// `experts_cpu`.
void experts_stated(const ExpertsArgs& args, CpuContext& context);
/// By the ids: every expert that some token has is read once. The only cost that reads an argument's data.
[[nodiscard]] OpCost experts_cost(const ExpertsArgs& args);
[[nodiscard]] OpCost experts_backward_cost(const ExpertsArgs& args);
/// The same without looking at the ids, for where they cannot be read: what routing without preferences would
/// choose.
[[nodiscard]] OpCost expected_experts_cost(const ExpertsArgs& args);
[[nodiscard]] OpCost expected_experts_backward_cost(const ExpertsArgs& args);
/// Both are this, with `assignments` rows that go to experts (a token to k of them) and `distinct` experts
/// that have any:
/// the sum of the three that follow, with as many tokens as x has rows.
[[nodiscard]] OpCost experts_cost_of(const ExpertsArgs& args, double assignments, double distinct);
/// Both backward costs are this. The forward kept what w1 and w3 gave; the activation is computed again.
[[nodiscard]] OpCost experts_backward_cost_of(const ExpertsArgs& args, double assignments, double distinct);

// The parts, for ranks that hold some of the experts and see others' tokens. Of `args` they take formats,
// widths and element types, not numbers of rows.

/// Products and SwiGLU of `assignments` rows; the weights of `distinct` experts. A row comes and goes once
/// for each assignment.
[[nodiscard]] OpCost routed_experts_cost(const ExpertsArgs& args, double assignments, double distinct);
/// Nothing where there is no shared expert.
[[nodiscard]] OpCost shared_expert_cost(const ExpertsArgs& args, double num_rows);
/// The sum of `assignments` rows and the shared expert's to `num_rows` tokens.
[[nodiscard]] OpCost combine_cost(const ExpertsArgs& args, double assignments, double num_rows);
[[nodiscard]] std::int64_t experts_scratch_bytes(std::int64_t num_rows, std::int64_t num_selected,
                                                 std::int64_t width, std::int64_t inner_width,
                                                 std::int64_t num_experts, int num_threads);
/// What `experts_stated` takes.
[[nodiscard]] std::int64_t stated_variant_scratch_bytes(std::int64_t num_rows, std::int64_t num_selected,
                                                        std::int64_t width, std::int64_t inner_width,
                                                        std::int64_t num_experts, int num_threads);
/// What a GPU takes beyond its scratch for whole experts where it has parts of them: outputs in float32, not
/// BF16.
[[nodiscard]] std::int64_t split_experts_scratch_bytes(std::int64_t num_rows, std::int64_t num_selected,
                                                       std::int64_t width, std::int64_t num_experts,
                                                       ExpertSplit split);

namespace ops {

struct Experts {
  using Args = ExpertsArgs;
  static constexpr std::string_view kName = "experts";
  [[nodiscard]] static OpCost cost(const ExpertsArgs& args) { return experts_cost(args); }
  [[nodiscard]] static OpCost backward_cost(const ExpertsArgs& args) { return experts_backward_cost(args); }
  [[nodiscard]] static OpCost expected_cost(const ExpertsArgs& args) { return expected_experts_cost(args); }
  [[nodiscard]] static OpCost expected_backward_cost(const ExpertsArgs& args) {
    return expected_experts_backward_cost(args);
  }
  [[nodiscard]] static CallShape shape(const ExpertsArgs& args);
  [[nodiscard]] static CallKey key(const ExpertsArgs& args);
  static void accesses(const ExpertsArgs& args, Accesses& to);
  static void check(const ExpertsArgs& args);
  [[nodiscard]] static std::span<const CpuVariant<Experts>> cpu_variants();
};

}  // namespace ops

}  // namespace baleen
