#include <cmath>

#include "ops/hc_head/hc_head.h"
#include "ops/hc_pre/hc_mix.h"

namespace baleen {
namespace {

template <class T>
void mix_streams(const HcHeadArgsOf<T>& args) {
  for (std::int64_t t = 0; t < args.streams.extent(0); ++t) {
    if (!args.given.empty()) {
      const std::vector<double> given(args.given.row(t).begin(), args.given.row(t).end());
      weighted_stream_sum_ref<T>(args.streams[t], given, args.precision, args.y.row(t));
      continue;
    }
    std::vector<double> pre = hc_mixes_ref<T>(args.streams[t], args.weights, args.norm_eps,
                                              args.products.empty() ? std::span<T>() : args.products.row(t));
    for (std::size_t j = 0; j < pre.size(); ++j) {
      pre[j] = 1.0 / (1.0 + std::exp(-(pre[j] * args.weights.scale[0] + args.weights.base[j]))) + args.hc_eps;
    }
    weighted_stream_sum_ref<T>(args.streams[t], pre, args.precision, args.y.row(t));
  }
}

}  // namespace

void hc_head_ref(const HcHeadArgs& args) { mix_streams(args); }
void hc_head_f64(const HcHeadArgsOf<double>& args) { mix_streams(args); }

}  // namespace baleen
