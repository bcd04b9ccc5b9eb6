// The variants of stream_mean, best first.

#include <array>

#include "ops/stream_mean/cuda/stream_mean.h"

namespace baleen::BALEEN_ARCH {

std::span<const CudaVariant<ops::StreamMean>> stream_mean_variants() {
  static constexpr std::array<CudaVariant<ops::StreamMean>, 1> kVariants{
      {{.name = BALEEN_ARCH_NAME, .run = stream_mean}}};
  return kVariants;
}

}  // namespace baleen::BALEEN_ARCH
