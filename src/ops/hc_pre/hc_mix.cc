#include "ops/hc_pre/hc_mix.h"

#include "base/check.h"
#include "ops/matmul/matmul.h"

namespace baleen {

void hc_mix_products(ConstActivations<3> streams, const HcWeights& weights, Activations<2> products,
                     CpuContext& context) {
  const std::int64_t num_inputs = streams.extent(1) * streams.extent(2);
  BALEEN_CHECK_LE(streams.extent(1), kMaxStreams);
  BALEEN_CHECK_EQ(weights.fn.extent(1), num_inputs);
  BALEEN_DCHECK(weights.fn.dense() && (streams.extent(0) == 0 || streams[0].dense()));
  const WeightMatrix matrix{.format = WeightFormat::kF32,
                            .rows = weights.fn.extent(0),
                            .cols = num_inputs,
                            .data = reinterpret_cast<const std::byte*>(weights.fn.data())};
  const MatmulProduct product{.weight = &matrix,
                              .x = {streams.data(), {streams.extent(0), num_inputs}, {streams.stride(0), 1}},
                              .y = products};
  matmul({&product, 1}, context);
}

std::int64_t hc_mix_scratch_bytes(std::int64_t num_rows, std::int64_t num_mixes, std::int64_t num_inputs) {
  return Arena::bytes_for<float>(num_rows * num_mixes) + matmul_scratch_bytes(num_rows, num_inputs);
}

}  // namespace baleen
