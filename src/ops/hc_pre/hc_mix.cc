#include "ops/hc_pre/hc_mix.h"

#include "base/check.h"
#include "ops/matmul/training_products.h"

namespace baleen {

namespace {

WeightMatrix matrix_of(const HcWeights& weights) {
  return {.format = WeightFormat::kF32,
          .rows = weights.fn.extent(0),
          .cols = weights.fn.extent(1),
          .data = reinterpret_cast<const std::byte*>(weights.fn.data())};
}

MatmulProduct product_of(ConstActivations<3> streams, const WeightMatrix& matrix, Activations<2> products) {
  const std::int64_t num_inputs = streams.extent(1) * streams.extent(2);
  BALEEN_CHECK_LE(streams.extent(1), kMaxStreams);
  BALEEN_CHECK_EQ(matrix.cols, num_inputs);
  BALEEN_DCHECK(streams.extent(0) == 0 || streams[0].dense());
  return {.weight = &matrix,
          .x = {streams.data(), {streams.extent(0), num_inputs}, {streams.stride(0), 1}},
          .y = products};
}

}  // namespace

void hc_mix_products(ConstActivations<3> streams, const HcWeights& weights, Activations<2> products,
                     CpuContext& context) {
  BALEEN_DCHECK(weights.fn.dense());
  const WeightMatrix matrix = matrix_of(weights);
  const MatmulProduct product = product_of(streams, matrix, products);
  matmul({&product, 1}, context);
}

void hc_mix_training_products(ConstActivations<3> streams, const HcWeights& weights, Activations<2> products,
                              CpuContext& context) {
  BALEEN_DCHECK(weights.fn.dense());
  const WeightMatrix matrix = matrix_of(weights);
  const MatmulProduct product = product_of(streams, matrix, products);
  matmul_training({&product, 1}, Operands::kAsStored, context);
}

std::int64_t hc_mix_scratch_bytes(std::int64_t num_rows, std::int64_t num_mixes, std::int64_t num_inputs) {
  return Arena::bytes_for<float>(num_rows * num_mixes) + matmul_scratch_bytes(num_rows, num_inputs);
}

}  // namespace baleen
