/// Storing outputs of experts' last product.
#pragma once

#include <cstdint>

#include "cuda/bf16_vector.cuh"
#include "ops/experts/cuda/expert_dispatch.h"

namespace baleen::BALEEN_ARCH {

/// `value` to place `at`: row times width plus column.
__device__ inline void store_output(const ExpertOutputs& to, std::int64_t at, float value) {
  if (to.partial != nullptr) {
    to.partial[at] = to.rounds ? rounded_to_bf16(value) : value;
  } else {
    to.rounded[at] = bf16_bits(value);
  }
}

/// Eight neighbouring outputs from place `at` on, a multiple of eight.
__device__ inline void store_outputs(const ExpertOutputs& to, std::int64_t at, const float4& first,
                                     const float4& second) {
  const uint4 rounded = {pack_bf16(first.x, first.y), pack_bf16(first.z, first.w),
                         pack_bf16(second.x, second.y), pack_bf16(second.z, second.w)};
  if (to.partial == nullptr) {
    *reinterpret_cast<uint4*>(to.rounded + at) = rounded;
    return;
  }
  auto* const y = reinterpret_cast<float4*>(to.partial + at);
  y[0] = to.rounds
             ? float4{bf16_low(rounded.x), bf16_high(rounded.x), bf16_low(rounded.y), bf16_high(rounded.y)}
             : first;
  y[1] = to.rounds
             ? float4{bf16_low(rounded.z), bf16_high(rounded.z), bf16_low(rounded.w), bf16_high(rounded.w)}
             : second;
}

}  // namespace baleen::BALEEN_ARCH
