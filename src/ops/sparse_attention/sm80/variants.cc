// The variants of sparse_attention before Hopper, best first.

#include <array>
#include <optional>

#include "ops/sparse_attention/cuda/attention_launch.h"
#include "ops/sparse_attention/cuda/sparse_attention.h"
#include "ops/sparse_attention/sm80/mma_tiles.h"

namespace baleen::sm80 {
namespace {

std::int64_t scratch_bytes(const StepShape& shape, const DeviceTraits& /*traits*/) {
  return sparse_attention_scratch_bytes(shape.head_dim, shape.max_rows, shape.max_sequences,
                                        shape.max_positions);
}

void attention_tiles_rope(const SparseAttentionArgs& args, const RopeArgs& rotation, CudaContext& context) {
  if (!args.q.empty()) mma_tiles::attend(describe_attention(args, rotation, context), context);
}

std::optional<Reason> why_not_tiles_rope(const SparseAttentionArgs& args, const RopeArgs& rotation,
                                         const DeviceTraits& traits) {
  if (traits.shared_bytes_per_block < mma_tiles::kSharedBytes) return "takes 99 KiB of shared memory";
  const std::optional<Reason> why = why_not_tiles(args);
  return why ? why : why_not_one_pass(args, rotation, traits);
}

}  // namespace

void sparse_attention_rope(const SparseAttentionArgs& args, const RopeArgs& rotation, CudaContext& context) {
  (why_not_tiles(args) ? attention_any_rope : attention_tiles_rope)(args, rotation, context);
}

std::int64_t sparse_attention_scratch_bytes(std::int64_t head_dim, std::int64_t max_rows,
                                            std::int64_t /*max_sequences*/, std::int64_t /*max_positions*/) {
  return head_dim == kTilesWidth ? mma_tiles::scratch_bytes(max_rows) : 0;
}

std::span<const CudaVariant<ops::SparseAttention>> sparse_attention_variants() {
  static constexpr std::array<CudaVariant<ops::SparseAttention>, 1> kVariants{
      {{.name = "sm80/any", .run = sparse_attention}}};
  return kVariants;
}

std::span<const CudaVariant<ops::SparseAttention, ops::Rope>> sparse_attention_rope_variants() {
  static constexpr std::array<CudaVariant<ops::SparseAttention, ops::Rope>, 2> kVariants{
      {{.name = "sm80/tiles_one_pass",
        .run = attention_tiles_rope,
        .why_not = why_not_tiles_rope,
        .scratch_bytes = scratch_bytes},
       {.name = "sm80/any_one_pass", .run = attention_any_rope, .why_not = why_not_one_pass}}};
  return kVariants;
}

}  // namespace baleen::sm80
