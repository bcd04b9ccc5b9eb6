#include "ops/hc_pre/hc_mix.h"

#include "base/check.h"
#include "ops/matmul/matmul.h"

namespace baleen {

Activations<2> hc_mix_products(ConstActivations<3> streams, const HcWeights& weights, CpuContext& context) {
  const std::int64_t num_rows = streams.extent(0);
  const std::int64_t num_inputs = streams.extent(1) * streams.extent(2);
  const std::int64_t num_mixes = weights.fn.extent(0);
  BALEEN_CHECK_LE(streams.extent(1), kMaxStreams);
  BALEEN_CHECK_EQ(weights.fn.extent(1), num_inputs);
  BALEEN_DCHECK(weights.fn.dense() && (num_rows == 0 || streams[0].dense()));
  const ConstActivations<2> x(streams.data(), {num_rows, num_inputs}, {streams.stride(0), 1});
  const Activations<2> mixes(context.scratch.allocate<float>(num_rows * num_mixes), {num_rows, num_mixes});
  const WeightMatrix matrix{.format = WeightFormat::kF32,
                            .rows = num_mixes,
                            .cols = num_inputs,
                            .data = reinterpret_cast<const std::byte*>(weights.fn.data())};
  const MatmulProduct product{.weight = &matrix, .x = x, .y = mixes};
  matmul({&product, 1}, context);
  return mixes;
}

std::int64_t hc_mix_scratch_bytes(std::int64_t num_rows, std::int64_t num_mixes, std::int64_t num_inputs) {
  return Arena::bytes_for<float>(num_rows * num_mixes) + matmul_scratch_bytes(num_rows, num_inputs);
}

}  // namespace baleen
