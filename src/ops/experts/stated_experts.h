/// Experts in host memory on the host's cores, with the bits of `stated_expert_ref` (stated_sums.h): for any
/// number of rows and threads, on every instruction set.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "ops/experts/stated_sums.h"
#include "parallel/thread_pool.h"
#include "tensor/buffer.h"
#include "tensor/view.h"

namespace baleen {

/// What a call of `stated_experts` takes of its arena at most: `num_experts` list entries with `num_rows`
/// rows, all together.
[[nodiscard]] std::int64_t stated_experts_scratch_bytes(std::int64_t num_experts, std::int64_t num_rows,
                                                        std::int64_t width, std::int64_t inner_width);

/// Computes every entry of `experts`; entries may share rows of x, and have no rows. All experts have the
/// same widths, multiples of 128. Returns when all outputs are written. The calling thread works too.
///
/// Allocates from `scratch` alone, which is as before afterwards. One call at a time for a pool. A call on a
/// pool whose threads are awake (ThreadPool) takes some microseconds beyond its work; all experts of a call
/// share one parallel loop, so a call with several costs less than several calls.
void stated_experts(std::span<const StatedExpertRows> experts, float swiglu_limit, ThreadPool& pool,
                    Arena& scratch);

/// Before a call of `stated_experts` with some of `experts` on the same pool: each thread reads pieces of
/// their weights that it multiplies in such a call, of the first ones first, so that its core's cache has
/// them; a megabyte and a half at most. Ends early when `stops`, which threads call between 8 KB, says so.
void read_stated_experts(std::span<const ExpertWeights> experts, ThreadPool& pool,
                         const std::function<bool()>& stops);

/// Rows of one expert whose activations are not quantised yet.
struct StatedExpertValues {
  const ExpertWeights* expert = nullptr;
  const std::int32_t* row_index = nullptr;  ///< [num_rows], rows of x
  const float* weights = nullptr;           ///< [num_rows] routing weights
  std::int64_t num_rows = 0;
  float* y = nullptr;  ///< [num_rows, d]
};

/// The same of rows of x [T, d], which are quantised by the rule of numeric/block_scale.h. `rounds`: y to
/// BF16.
void stated_experts(std::span<const StatedExpertValues> experts, View<const float, 2> x, float swiglu_limit,
                    bool rounds, ThreadPool& pool, Arena& scratch);

/// Whether products may use instructions that add up four products of bytes, where the machine has them
/// (AVX-512 VNNI, AVX-VNNI, Arm's dot products); at first they may. Not while they run.
void allow_byte_dots(bool allowed);

/// `stated_swiglu_ref` of each value.
void stated_swiglu_row(const float* gate, const float* up, std::int64_t count, float limit, float weight,
                       float* out);

}  // namespace baleen
