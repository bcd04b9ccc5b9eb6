/// Experts' matrices at even distances in memory that the device reads.
#pragma once

#include <cstdint>
#include <span>

#include "base/check.h"
#include "ops/experts/experts.h"

namespace baleen::BALEEN_ARCH {

/// Bytes from one expert's matrix `which` to the next one's.
[[nodiscard]] inline std::int64_t expert_distance(std::span<const ExpertWeights> experts,
                                                  WeightMatrix ExpertWeights::*which) {
  if (experts.size() < 2) return (experts[0].*which).rows * (experts[0].*which).row_bytes();
  const std::int64_t distance = (experts[1].*which).data - (experts[0].*which).data;
  BALEEN_CHECK((experts.back().*which).data - (experts[0].*which).data ==
               distance * static_cast<std::int64_t>(experts.size() - 1));
  return distance;
}

/// Elements from one expert's scales to the next one's.
[[nodiscard]] inline std::int64_t expert_scale_distance(std::span<const ExpertWeights> experts,
                                                        WeightMatrix ExpertWeights::*which) {
  if (experts.size() < 2) return 0;
  const WeightMatrix& first = experts[0].*which;
  const WeightMatrix& second = experts[1].*which;
  return first.format == WeightFormat::kFp8 ? second.block_scales - first.block_scales
                                            : second.group_scales - first.group_scales;
}

}  // namespace baleen::BALEEN_ARCH
