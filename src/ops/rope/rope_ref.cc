#include "numeric/bf16.h"
#include "ops/rope/rope.h"

namespace baleen {

void rope_ref(const RopeArgs& args) {
  const std::int64_t num_pairs = args.cosine.extent(1);
  const std::int64_t first = args.x.extent(2) - 2 * num_pairs;
  for (std::int64_t t = 0; t < args.x.extent(0); ++t) {
    for (std::int64_t head = 0; head < args.x.extent(1); ++head) {
      for (std::int64_t i = 0; i < num_pairs; ++i) {
        float& even = args.x(t, head, first + 2 * i);
        float& odd = args.x(t, head, first + 2 * i + 1);
        const double a = even;
        const double b = odd;
        const double c = args.cosine(t, i);
        const double s = args.inverse ? -args.sine(t, i) : args.sine(t, i);
        even = static_cast<float>(a * c - b * s);
        odd = static_cast<float>(a * s + b * c);
        if (args.precision != Precision::kExact) {
          even = round_bf16(even);
          odd = round_bf16(odd);
        }
      }
    }
  }
}

}  // namespace baleen
