/// Experts in the stated order of sums (ops/experts/stated_sums.h); an FP8 expert that is shared keeps to the
/// order of its own that expert_dequantised.cuh has. Bits do not depend on the kind of tile.
#pragma once

#include <algorithm>
#include <optional>

#include "cuda/cuda_context.h"
#include "ops/experts/cuda/expert_dispatch.h"
#include "ops/experts/cuda/expert_layout.h"
#include "ops/experts/experts.h"

namespace baleen::BALEEN_ARCH {

/// Tokens of a tile: for few rows an expert, whose weights are then what a call waits for, and for many.
inline constexpr int kFewStatedTokens = 4;
inline constexpr int kManyStatedTokens = 64;

/// Rows as three digits of e4m3 codes (stated_products.cuh): of row r and slice s those are 384 bytes at
/// r * slices + s, in planes of 32 inputs whose order is that of stated_many.cu.
struct DigitRows {
  std::uint8_t* digits = nullptr;
  float* scales = nullptr;  ///< S * 2^-10, or NaN: of row r and slice s at s * scale_stride + r
  std::int64_t scale_stride = 0;
};

/// `ExpertSums::kStated`: experts from outside the device's memory, dispatch, both products, combination.
void experts_stated_few(const ExpertsArgs& args, CudaContext& context);
void experts_stated_many(const ExpertsArgs& args, CudaContext& context);
/// The same of activations with a scale per 32 inputs.
void experts_stated_groups(const ExpertsArgs& args, CudaContext& context);

/// What is wrong with a call for that; nullopt: nothing.
[[nodiscard]] std::optional<Reason> why_not_in_stated_order(const ExpertsArgs& args);
[[nodiscard]] std::optional<Reason> why_not_stated_groups(const ExpertsArgs& args);

/// Device memory of a call between its launches.
template <class Source>
[[nodiscard]] ExpertScratch lay_out_few_stated(Source& source, const DispatchExtents& extents,
                                               std::int64_t width, std::int64_t inner_width,
                                               ExpertSplit split) {
  return {.plan = lay_out_plan(source, extents, false, 0),
          .rows = lay_out_rows(source, extents.num_rows(), width),
          .inner = lay_out_rows(source, extents.num_rows(), inner_width),
          .y = lay_out_outputs(source, extents, width, split)};
}

/// That of a call of one token: inner values of its experts, and of the shared one behind them.
template <class Source>
[[nodiscard]] ExpertScratch lay_out_one_stated(Source& source, const DispatchExtents& extents,
                                               std::int64_t width, std::int64_t inner_width,
                                               ExpertSplit split) {
  return {.plan = lay_out_plan(source, extents, false, 0),
          .inner_bf16 = source.template allocate<Bf16Bits>((extents.num_selected + 1) * inner_width),
          .y = lay_out_outputs(source, extents, width, split)};
}

struct ManyStatedScratch {
  ExpertScratch common;  ///< rows and inner rows of the shared expert alone, the first at 0
  DigitRows tokens, inner;
  std::int32_t* token_of_row = nullptr;
};

template <class Source>
[[nodiscard]] DigitRows lay_out_digits(Source& source, std::int64_t num_rows, std::int64_t width) {
  const std::int64_t stride = (num_rows + 3) / 4 * 4;
  return {.digits = source.template allocate<std::uint8_t>(3 * num_rows * width),
          .scales = source.template allocate<float>(width / kActivationGroup * stride),
          .scale_stride = stride};
}

template <class Source>
[[nodiscard]] ManyStatedScratch lay_out_many_stated(Source& source, const DispatchExtents& extents,
                                                    std::int64_t width, std::int64_t inner_width,
                                                    ExpertSplit split) {
  return {.common = {.plan = lay_out_plan(source, extents, false, 0),
                     .rows = lay_out_rows(source, extents.num_shared, width),
                     .inner = lay_out_rows(source, extents.num_shared, inner_width),
                     .y = lay_out_outputs(source, extents, width, split)},
          .tokens = lay_out_digits(source, extents.num_tokens, width),
          .inner = lay_out_digits(source, extents.first_shared_row(), inner_width),
          .token_of_row = source.template allocate<std::int32_t>(extents.first_shared_row())};
}

/// The largest of them, for calls of up to `num_rows` tokens.
[[nodiscard]] inline std::int64_t stated_scratch_bytes(std::int64_t num_rows, std::int64_t num_selected,
                                                       std::int64_t width, std::int64_t inner_width,
                                                       std::int64_t num_experts) {
  ScratchCounter one, few, many;
  DispatchExtents extents{num_rows, num_selected, num_experts, num_rows, kFewStatedTokens};
  (void)lay_out_one_stated(one, {1, num_selected, num_experts, 1, kFewStatedTokens}, width, inner_width, {});
  (void)lay_out_few_stated(few, extents, width, inner_width, {});
  extents.tile_tokens = kManyStatedTokens;
  (void)lay_out_many_stated(many, extents, width, inner_width, {});
  return std::max({one.bytes, few.bytes, many.bytes});
}

}  // namespace baleen::BALEEN_ARCH
