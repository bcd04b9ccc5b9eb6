#include <algorithm>
#include <numeric>
#include <vector>

#include "numeric/bf16.h"
#include "numeric/block_scale.h"
#include "numeric/e8m0.h"
#include "ops/experts/experts.h"
#include "ops/experts/stated_sums.h"
#include "ops/experts/swiglu.h"
#include "ops/linear/linear.h"

namespace baleen {
namespace {

using Row = std::vector<float>;

Row product(const WeightMatrix& weight, const Row& x, Precision precision, bool rounds = true) {
  Row y(static_cast<std::size_t>(weight.rows));
  matmul_ref(weight, {x.data(), {1, weight.cols}}, activation_rounding(weight, precision),
             rounds && precision != Precision::kExact, {y.data(), {1, weight.rows}});
  return y;
}

Row expert_output(const ExpertWeights& expert, const Row& x, float routing_weight, float limit,
                  Precision precision, bool is_split) {
  const Row gate = product(expert.w1, x, precision);
  const Row up = product(expert.w3, x, precision);
  Row inner(gate.size());
  for (std::size_t i = 0; i < inner.size(); ++i) {
    const float activated = swiglu_ref(gate[i], up[i], limit, routing_weight);
    inner[i] = precision == Precision::kExact ? activated : round_bf16(activated);
  }
  return product(expert.w2, inner, precision, !is_split);
}

/// Codes and scales of x, as FP4 weights want them.
struct QuantisedRow {
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;

  QuantisedRow(const Row& x, std::size_t group) : codes(x.size()) {
    for (std::size_t begin = 0; begin < x.size(); begin += group)
      scales.push_back(e8m0_to_float(
          quantise_fp8_block(std::span(x).subspan(begin, group), std::span(codes).subspan(begin, group))));
  }
};

Row stated_output(const ExpertWeights& expert, const Row& x, float routing_weight, float limit,
                  bool is_split) {
  const auto product = [](const WeightMatrix& weight, const Row& of, bool rounds) {
    const QuantisedRow quantised(of, static_cast<std::size_t>(weight.activation_group));
    Row y(static_cast<std::size_t>(weight.rows));
    stated_product_ref(weight, quantised.codes, quantised.scales, rounds, y);
    return y;
  };
  const Row gate = product(expert.w1, x, true), up = product(expert.w3, x, true);
  Row inner(gate.size());
  for (std::size_t i = 0; i < inner.size(); ++i)
    inner[i] = round_bf16(stated_swiglu_ref(gate[i], up[i], limit, routing_weight));
  return product(expert.w2, inner, !is_split);
}

}  // namespace

void experts_ref(const ExpertsArgs& args) {
  const std::int64_t num_selected = args.ids.extent(1);
  for (std::int64_t row = 0; row < args.x.extent(0); ++row) {
    const Row x(args.x.row(row).begin(), args.x.row(row).end());
    std::vector<std::int64_t> slots(static_cast<std::size_t>(num_selected));
    std::iota(slots.begin(), slots.end(), 0);
    std::stable_sort(slots.begin(), slots.end(),
                     [&](std::int64_t a, std::int64_t b) { return args.ids(row, a) < args.ids(row, b); });
    Row sum(x.size(), 0.0F);
    const auto add = [&](const Row& y) {
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += y[i];
    };
    for (const std::int64_t slot : slots) {
      const std::int64_t expert = args.local_expert(row, slot);
      if (expert < 0) continue;
      const ExpertWeights& weights = args.routed[static_cast<std::size_t>(expert)];
      add(args.sums == ExpertSums::kStated
              ? stated_output(weights, x, args.weights(row, slot), args.swiglu_limit, args.split.routed)
              : expert_output(weights, x, args.weights(row, slot), args.swiglu_limit, args.precision,
                              args.split.routed));
    }
    if (args.shared != nullptr) {
      add(expert_output(*args.shared, x, 1.0F, args.swiglu_limit, args.precision, args.split.shared));
    }
    const bool rounds = args.precision != Precision::kExact && !args.partial_sums;
    for (std::size_t i = 0; i < sum.size(); ++i) {
      args.out(row, i) = rounds ? round_bf16(sum[i]) : sum[i];
    }
  }
}

}  // namespace baleen
