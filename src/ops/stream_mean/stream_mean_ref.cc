#include "numeric/bf16.h"
#include "ops/stream_mean/stream_mean.h"

namespace baleen {

void stream_mean_ref(const StreamMeanArgs& args) {
  const std::int64_t num_streams = args.streams.extent(1);
  const float share = 1.0F / static_cast<float>(num_streams);
  for (std::int64_t row = 0; row < args.streams.extent(0); ++row) {
    for (std::int64_t i = 0; i < args.streams.extent(2); ++i) {
      float sum = 0.0F;
      for (std::int64_t stream = 0; stream < num_streams; ++stream) sum += args.streams(row, stream, i);
      const float mean = sum * share;
      args.out(row, args.first_column + i) = args.precision == Precision::kExact ? mean : round_bf16(mean);
    }
  }
}

}  // namespace baleen
