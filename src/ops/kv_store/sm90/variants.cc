// The variants of kv_store on Hopper, best first.

#include <array>

#include "ops/kv_store/sm90/kv_store.h"

namespace baleen::sm90 {

std::span<const CudaVariant<ops::KvStore>> kv_store_variants() {
  static constexpr std::array<CudaVariant<ops::KvStore>, 1> kVariants{{{.name = "sm90", .run = kv_store}}};
  return kVariants;
}

std::span<const CudaVariant<ops::RmsNorm, ops::KvStore>> rms_norm_kv_store_variants() {
  static constexpr std::array<CudaVariant<ops::RmsNorm, ops::KvStore>, 1> kVariants{
      {{.name = "sm90/one_pass", .run = rms_norm_kv_store}}};
  return kVariants;
}

}  // namespace baleen::sm90
