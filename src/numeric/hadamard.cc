#include "numeric/hadamard.h"

#include <bit>
#include <cmath>
#include <vector>

#include "base/check.h"

namespace baleen {

void hadamard_transform(std::span<float> values) {
  const std::size_t size = values.size();
  BALEEN_DCHECK(std::has_single_bit(size));
  const std::vector<float> x(values.begin(), values.end());
  const auto factor = static_cast<float>(1.0 / std::sqrt(static_cast<double>(size)));
  for (std::size_t i = 0; i < size; ++i) {
    double sum = 0.0;
    for (std::size_t j = 0; j < size; ++j) sum += std::popcount(i & j) % 2 == 0 ? x[j] : -x[j];
    values[i] = static_cast<float>(sum) * factor;
  }
}

}  // namespace baleen
