/// Training of the rotary embedding. The backward of a rotation is the rotation by the opposite angle.
#pragma once

#include <cstdint>

namespace baleen {

/// Rotates the last `rotary` of `width` values of x [rows, heads, width] in place. cosine, sine: [rows,
/// rotary / 2].
template <class T>
void rope_rotate(std::int64_t rows, std::int64_t heads, std::int64_t width, std::int64_t rotary,
                 const T* cosine, const T* sine, bool inverse, T* x) {
  const std::int64_t pairs = rotary / 2;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t head = 0; head < heads; ++head) {
      T* pair = x + (row * heads + head) * width + width - rotary;
      for (std::int64_t i = 0; i < pairs; ++i, pair += 2) {
        const T c = cosine[row * pairs + i];
        const T s = inverse ? -sine[row * pairs + i] : sine[row * pairs + i];
        const T a = pair[0];
        const T b = pair[1];
        pair[0] = a * c - b * s;
        pair[1] = a * s + b * c;
      }
    }
  }
}

}  // namespace baleen
