/// Sizes of what collectives move.
#pragma once

#include <cstdint>

#include "tensor/activations.h"

namespace baleen::BALEEN_ARCH {

inline constexpr std::int64_t kVectorFloats = 4;  ///< floats of 16 bytes

/// Of a dense array.
template <class View>
[[nodiscard]] std::int64_t size_in_bytes(const View& view) {
  return view.size() * size_of(view.element_type());
}

template <class View>
[[nodiscard]] std::int64_t row_bytes(const View& view) {
  return view.extent(1) * size_of(view.element_type());
}

}  // namespace baleen::BALEEN_ARCH
