// The variants of stream_mean on Hopper, best first.

#include <array>

#include "ops/stream_mean/sm90/stream_mean.h"

namespace baleen::sm90 {

std::span<const CudaVariant<ops::StreamMean>> stream_mean_variants() {
  static constexpr std::array<CudaVariant<ops::StreamMean>, 1> kVariants{
      {{.name = "sm90", .run = stream_mean}}};
  return kVariants;
}

}  // namespace baleen::sm90
