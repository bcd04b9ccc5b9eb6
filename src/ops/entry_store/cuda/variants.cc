// The variants of entry_store, best first.

#include <array>

#include "ops/entry_store/cuda/entry_store.h"

namespace baleen::BALEEN_ARCH {

std::span<const CudaVariant<ops::EntryStore>> entry_store_variants() {
  static constexpr std::array<CudaVariant<ops::EntryStore>, 1> kVariants{
      {{.name = BALEEN_ARCH_NAME, .run = entry_store}}};
  return kVariants;
}

}  // namespace baleen::BALEEN_ARCH
