// Two kernels: the first gathers the tokens' rows of w1 and computes confidences, a block a row; the second
// adds the products of those rows with w2, which is what takes time (66 MB of V4-Flash's). That one's weights
// are on their way while the first runs.

#include "base/check.h"
#include "cuda/bf16_vector.cuh"
#include "cuda/cuda_context.h"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/warp_reduce.cuh"
#include "ops/markov/cuda/markov.h"
#include "ops/matmul/cuda/matmul_bf16.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpLanes;
constexpr int kValues = 8;  // of a thread at a time

struct MarkovRows {
  const TokenId* tokens;
  const Bf16Bits* w1;
  int rank;
  Bf16Bits* terms;  ///< [R, rank]
  const Bf16Bits* hidden;
  std::int64_t hidden_stride;
  int width;
  const float* confidence_weight;  ///< null: no confidence
  float* confidence;
};

/// Adds the products of eight values with their weights.
__device__ float multiply(const float* weights, const uint4& words, float sum) {
  float values[kValues];
  unpack_bf16(words, values);
#pragma unroll
  for (int i = 0; i < kValues; ++i) sum = fmaf(weights[i], values[i], sum);
  return sum;
}

__global__ void __launch_bounds__(kThreads)
    markov_rows_kernel(const __grid_constant__ MarkovRows args, NextAtOnce order) {
  __shared__ float warp_sums[kWarps];
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t row = blockIdx.x;
  const bool wants_confidence = args.confidence_weight != nullptr;
  const Bf16Bits* const from = args.w1 + std::int64_t{args.tokens[row]} * args.rank;
  Bf16Bits* const to = args.terms + row * args.rank;
  float sum = 0;
  if (wants_confidence) {
    const Bf16Bits* const hidden = args.hidden + row * args.hidden_stride;
    for (int i = kValues * thread; i < args.width; i += kValues * kThreads)
      sum = multiply(args.confidence_weight + i, *reinterpret_cast<const uint4*>(hidden + i), sum);
  }
  for (int j = kValues * thread; j < args.rank; j += kValues * kThreads) {
    const uint4 words = *reinterpret_cast<const uint4*>(from + j);
    *reinterpret_cast<uint4*>(to + j) = words;
    if (wants_confidence) sum = multiply(args.confidence_weight + args.width + j, words, sum);
  }
  if (!wants_confidence) return;
  sum = warp_sum(sum);
  if (thread % kWarpLanes == 0) warp_sums[thread / kWarpLanes] = sum;
  __syncthreads();
  if (thread != 0) return;
  float confidence = 0;
  for (const float part : warp_sums) confidence += part;
  args.confidence[row] = confidence;
}

/// logits += terms times w2, a warp for each output, which goes through the rows.
__global__ void __launch_bounds__(kThreads)
    markov_any_kernel(const Bf16Bits* terms, const Bf16Bits* w2, int rank, float* logits,
                      std::int64_t logits_stride, int num_rows, int num_outputs, NextAtOnce order) {
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const int output = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / kWarpLanes;
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  if (output >= num_outputs) return;
  const Bf16Bits* const weights = w2 + std::int64_t{output} * rank;
  for (int row = 0; row < num_rows; ++row) {
    const Bf16Bits* const term = terms + std::int64_t{row} * rank;
    float sum = 0;
    for (int j = lane; j < rank; j += kWarpLanes) sum = fmaf(bf16_low(term[j]), bf16_low(weights[j]), sum);
    sum = warp_sum(sum);
    if (lane == 0) logits[row * logits_stride + output] += sum;
  }
}

bool aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % sizeof(uint4) == 0; }

/// The tokens' rows of w1, in scratch memory.
Bf16Bits* gather_terms(const MarkovArgs& args, CudaContext& context) {
  const std::int64_t num_rows = args.logits.extent(0), rank = args.w1.extent(1);
  BALEEN_CHECK(args.w1.dense() && aligned(args.w1.data()));
  BALEEN_CHECK_LE(args.first_row + num_rows, context.batch.num_rows);
  MarkovRows rows{.tokens = context.batch.tokens + args.first_row,
                  .w1 = args.w1.data(),
                  .rank = static_cast<int>(rank),
                  .terms = context.scratch.allocate<Bf16Bits>(num_rows * rank)};
  if (!args.confidence_weight.empty()) {
    BALEEN_CHECK(args.hidden.extent(1) % kValues == 0 && args.hidden.stride(0) % kValues == 0);
    BALEEN_CHECK(aligned(args.hidden.address()));
    rows.hidden = args.hidden.bf16().data();
    rows.hidden_stride = args.hidden.stride(0);
    rows.width = static_cast<int>(args.hidden.extent(1));
    rows.confidence_weight = args.confidence_weight.data();
    rows.confidence = args.confidence.data();
  }
  launch_kernel("gathering rows of the Markov head", markov_rows_kernel,
                {.grid = dim3(static_cast<unsigned>(num_rows)), .threads = kThreads}, context.stream, rows);
  return rows.terms;
}

}  // namespace

std::int64_t markov_scratch_bytes(std::int64_t max_rows, std::int64_t rank) {
  return Arena::bytes_for<Bf16Bits>(max_rows * rank);
}

std::optional<Reason> why_not_products(const MarkovArgs& args) {
  constexpr std::int64_t kSliceInputs = 128;
  if (args.w2->cols % kSliceInputs != 0) return "takes ranks in multiples of 128";
  if (!aligned(args.w2->data)) return "reads weights that begin on 16 bytes";
  return std::nullopt;
}

void markov_products(const MarkovArgs& args, CudaContext& context) {
  const std::int64_t num_rows = args.logits.extent(0), rank = args.w1.extent(1);
  if (num_rows == 0) return;
  const ScratchScope scope(context.scratch);
  const Bf16Bits* const terms = gather_terms(args, context);
  add_matmul_bf16(
      {.weight = args.w2, .x = View<const Bf16Bits, 2>(terms, {num_rows, rank}), .y = args.logits}, context);
}

void markov_any(const MarkovArgs& args, CudaContext& context) {
  const std::int64_t num_rows = args.logits.extent(0);
  if (num_rows == 0) return;
  BALEEN_CHECK_EQ(reinterpret_cast<std::uintptr_t>(args.w2->data) % alignof(Bf16Bits), 0U);
  const ScratchScope scope(context.scratch);
  const Bf16Bits* const terms = gather_terms(args, context);
  const auto blocks = static_cast<unsigned>((args.w2->rows + kWarps - 1) / kWarps);
  launch_kernel("adding products of the Markov head", markov_any_kernel,
                {.grid = dim3(blocks), .threads = kThreads}, context.stream, terms,
                reinterpret_cast<const Bf16Bits*>(args.w2->data), static_cast<int>(args.w2->cols),
                args.logits.f32().data(), args.logits.stride(0), static_cast<int>(num_rows),
                static_cast<int>(args.w2->rows));
}

}  // namespace baleen::BALEEN_ARCH
