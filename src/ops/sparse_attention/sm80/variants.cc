// The variants of sparse_attention before Hopper.

#include <array>

#include "ops/sparse_attention/cuda/sparse_attention.h"

namespace baleen::sm80 {

void sparse_attention_rope(const SparseAttentionArgs& args, const RopeArgs& rotation, CudaContext& context) {
  attention_any_rope(args, rotation, context);
}

std::int64_t sparse_attention_scratch_bytes(std::int64_t /*head_dim*/, std::int64_t /*max_rows*/,
                                            std::int64_t /*max_sequences*/, std::int64_t /*max_positions*/) {
  return 0;
}

std::span<const CudaVariant<ops::SparseAttention>> sparse_attention_variants() {
  static constexpr std::array<CudaVariant<ops::SparseAttention>, 1> kVariants{
      {{.name = "sm80/any", .run = sparse_attention}}};
  return kVariants;
}

std::span<const CudaVariant<ops::SparseAttention, ops::Rope>> sparse_attention_rope_variants() {
  static constexpr std::array<CudaVariant<ops::SparseAttention, ops::Rope>, 1> kVariants{
      {{.name = "sm80/any_one_pass", .run = attention_any_rope, .why_not = why_not_one_pass}}};
  return kVariants;
}

}  // namespace baleen::sm80
