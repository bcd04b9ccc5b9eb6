#include "numeric/bf16.h"
#include "ops/rope/rope.h"

namespace baleen {
namespace {

template <class T>
void rotate(const RopeArgsOf<T>& args) {
  const std::int64_t num_pairs = args.cosine.extent(1);
  const std::int64_t first = args.x.extent(2) - 2 * num_pairs;
  for (std::int64_t t = 0; t < args.x.extent(0); ++t) {
    for (std::int64_t head = 0; head < args.x.extent(1); ++head) {
      for (std::int64_t i = 0; i < num_pairs; ++i) {
        T& even = args.x(t, head, first + 2 * i);
        T& odd = args.x(t, head, first + 2 * i + 1);
        const double a = even;
        const double b = odd;
        const double c = args.cosine(t, i);
        const double s = args.inverse ? -args.sine(t, i) : args.sine(t, i);
        even = static_cast<T>(a * c - b * s);
        odd = static_cast<T>(a * s + b * c);
        if (args.precision != Precision::kExact) {
          even = round_bf16(static_cast<float>(even));
          odd = round_bf16(static_cast<float>(odd));
        }
      }
    }
  }
}

}  // namespace

void rope_ref(const RopeArgs& args) { rotate(args); }
void rope_f64(const RopeArgsOf<double>& args) { rotate(args); }

}  // namespace baleen
