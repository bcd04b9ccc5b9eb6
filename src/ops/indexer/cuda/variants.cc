// The variants of indexer, best first.

#include <array>

#include "ops/indexer/cuda/indexer.h"

namespace baleen::BALEEN_ARCH {
namespace {

std::int64_t scratch_bytes(const StepShape& shape, const DeviceTraits& traits) {
  return indexer_scratch_bytes(shape.max_rows, shape.index_topk, traits.num_units,
                               shape.candidate_topk_blocks);
}

}  // namespace

std::span<const CudaVariant<ops::Indexer>> indexer_variants() {
  static constexpr std::array<CudaVariant<ops::Indexer>, 1> kVariants{
      {{.name = BALEEN_ARCH_NAME, .run = indexer, .scratch_bytes = scratch_bytes}}};
  return kVariants;
}

}  // namespace baleen::BALEEN_ARCH
