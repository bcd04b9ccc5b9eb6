// The variants of sparse_attention on Hopper, best first.

#include <array>
#include <optional>

#include "ops/sparse_attention/sm90/sparse_attention.h"

namespace baleen::sm90 {
namespace {

std::int64_t scratch_bytes(const StepShape& shape, const DeviceTraits& /*traits*/) {
  return sparse_attention_scratch_bytes(shape.head_dim, shape.max_rows, shape.max_sequences,
                                        shape.max_positions);
}

std::optional<Reason> why_not_tiles_rope(const SparseAttentionArgs& args, const RopeArgs& rotation,
                                         const DeviceTraits& traits) {
  const std::optional<Reason> why = why_not_tiles(args);
  return why ? why : why_not_one_pass(args, rotation, traits);
}

}  // namespace

std::span<const CudaVariant<ops::SparseAttention>> sparse_attention_variants() {
  static constexpr std::array<CudaVariant<ops::SparseAttention>, 1> kVariants{
      {{.name = "sm90/any", .run = sparse_attention}}};
  return kVariants;
}

std::span<const CudaVariant<ops::SparseAttention, ops::Rope>> sparse_attention_rope_variants() {
  static constexpr std::array<CudaVariant<ops::SparseAttention, ops::Rope>, 2> kVariants{
      {{.name = "sm90/tiles_one_pass",
        .run = attention_tiles_rope,
        .why_not = why_not_tiles_rope,
        .scratch_bytes = scratch_bytes},
       {.name = "sm90/any_one_pass", .run = attention_any_rope, .why_not = why_not_one_pass}}};
  return kVariants;
}

}  // namespace baleen::sm90
