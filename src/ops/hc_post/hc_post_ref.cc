#include <vector>

#include "numeric/bf16.h"
#include "ops/hc_post/hc_post.h"

namespace baleen {
namespace {

template <class T>
void leave(const HcPostArgsOf<T>& args) {
  const ActivationView<const T, 3> entering = args.entering();
  const std::int64_t n = args.streams.extent(1);
  std::vector<double> old(static_cast<std::size_t>(n));
  for (std::int64_t t = 0; t < args.streams.extent(0); ++t) {
    for (std::int64_t i = 0; i < args.streams.extent(2); ++i) {
      for (std::int64_t j = 0; j < n; ++j) old[static_cast<std::size_t>(j)] = entering(t, j, i);
      for (std::int64_t k = 0; k < n; ++k) {
        double sum = static_cast<double>(args.post(t, k)) * args.f(t, i);
        for (std::int64_t j = 0; j < n; ++j) sum += args.comb(t, j, k) * old[static_cast<std::size_t>(j)];
        const auto value = static_cast<T>(sum);
        args.streams(t, k, i) =
            args.precision == Precision::kExact ? value : round_bf16(static_cast<float>(value));
      }
    }
  }
}

}  // namespace

void hc_post_ref(const HcPostArgs& args) { leave(args); }
void hc_post_f64(const HcPostArgsOf<double>& args) { leave(args); }

}  // namespace baleen
