/// One Muon update of one matrix. (source: training 4.1)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/dense_product/dense_product.h"
#include "parallel/thread_pool.h"
#include "trainer/config/train_config.h"

namespace baleen {

struct MuonMatrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::span<const float> gradient;  ///< [rows, columns], as the others
  std::span<float> momentum;
  std::span<float> weights;
  Operands operands = Operands::kAsStored;  ///< how products of Newton-Schulz round
};

/// M <- mu M + G; O = NewtonSchulz(mu M + G); W <- W (1 - lr decay) - lr gamma sqrt(max(rows, columns)) O,
/// so that the root mean square of the update is lr gamma. A gradient of zeros alone (an expert without a
/// token, a part of the model that does not run) changes nothing and returns false: the update would be of
/// full size, from old momentum alone. `scratch` is reused from call to call. The result does not depend on
/// the threads.
bool muon_step(const MuonConfig& config, double learning_rate, const MuonMatrix& matrix,
               std::vector<float>& scratch, ThreadPool& pool);

}  // namespace baleen
