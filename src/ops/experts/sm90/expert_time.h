/// Predicted time of the experts' kernels on Hopper. Plain C++: predictions need neither toolkit nor GPU.
///
/// Figures are fitted to bench/results/kernels-h200.csv (one H200 at 1,980 MHz), rows "experts"
/// (docs/ops/experts.md).
#pragma once

#include "ops/experts/experts.h"
#include "ops/operation/kernel_time.h"

namespace baleen::sm90 {

/// Weights of the experts that are chosen come once. `chain_seconds`: what follows one another before the
/// first and behind the last of them.
[[nodiscard]] inline KernelWork expert_work(const ExpertsArgs& args, double num_launches,
                                            double chain_seconds, double memory_share) {
  return {.bytes = expected_experts_cost(args).weight_bytes,
          .memory_share = memory_share,
          .fixed_seconds = chain_seconds,
          .num_launches = num_launches};
}

constexpr double kFewTokensShare = 0.73;   // 3.1 TB/s of 4.25: 16 tokens
constexpr double kManyTokensShare = 0.68;  // 2.9: 128 tokens

[[nodiscard]] inline double four_tokens_seconds(const ExpertsArgs& args, const DeviceTraits& traits) {
  constexpr double kChainSeconds = 3e-6;
  return seconds_of(expert_work(args, 2, kChainSeconds, kFewTokensShare), traits.rates);
}

/// Of models whose activations have a scale per 32.
[[nodiscard]] inline double few_groups_seconds(const ExpertsArgs& args, const DeviceTraits& traits) {
  constexpr double kChainSeconds = 5e-6;
  return seconds_of(expert_work(args, 2, kChainSeconds, kFewTokensShare), traits.rates);
}

constexpr double kPlannedChainSeconds = 12e-6;  // dispatch, products and combination hand rows to each other

[[nodiscard]] inline double few_tokens_seconds(const ExpertsArgs& args, const DeviceTraits& traits) {
  return seconds_of(expert_work(args, 3, kPlannedChainSeconds, kFewTokensShare), traits.rates);
}

[[nodiscard]] inline double many_tokens_seconds(const ExpertsArgs& args, const DeviceTraits& traits) {
  constexpr double kUnitFlopsPerSecond = 4.24e12;  // 560 TFLOP/s of 132 multiprocessors: 4,096 tokens
  KernelWork work = expert_work(args, 3, kPlannedChainSeconds, kManyTokensShare);
  work.busy_seconds = expected_experts_cost(args).matrix_flops() / (kUnitFlopsPerSecond * traits.num_units);
  return seconds_of(work, traits.rates);
}

}  // namespace baleen::sm90
