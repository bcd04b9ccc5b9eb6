// The variants of kv_store, best first.

#include <array>

#include "ops/kv_store/cuda/kv_store.h"

namespace baleen::BALEEN_ARCH {

std::span<const CudaVariant<ops::KvStore>> kv_store_variants() {
  static constexpr std::array<CudaVariant<ops::KvStore>, 1> kVariants{
      {{.name = BALEEN_ARCH_NAME, .run = kv_store}}};
  return kVariants;
}

std::span<const CudaVariant<ops::RmsNorm, ops::KvStore>> rms_norm_kv_store_variants() {
  static constexpr std::array<CudaVariant<ops::RmsNorm, ops::KvStore>, 1> kVariants{
      {{.name = BALEEN_ARCH_NAME "/one_pass", .run = rms_norm_kv_store}}};
  return kVariants;
}

}  // namespace baleen::BALEEN_ARCH
