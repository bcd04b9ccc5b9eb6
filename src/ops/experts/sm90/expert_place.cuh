/// Which of the evenly spaced places of `ExpertPlaces` an expert's weights have.
#pragma once

#include <cstdint>

namespace baleen::sm90 {

__device__ inline int expert_place(const std::int32_t* places, int expert) {
  return places == nullptr ? expert : places[expert];
}

}  // namespace baleen::sm90
