/// Norms over all gradients, and clipping by them. (source: training 5)
#pragma once

#include <span>
#include <string>
#include <vector>

#include "parallel/thread_pool.h"
#include "trainer/graph/parameters.h"
#include "trainer/optimiser/parameter_groups.h"

namespace baleen {

struct GradientNorms {
  double trunk = 0;    ///< L2 norm over everything but the indexers
  double indexer = 0;  ///< norm over the indexers' parameters, whose loss is separate
  /// Name of the first tensor in the order of the table that holds an infinity or NaN; empty where none does.
  std::string not_finite;
};

/// Of each tensor of the table the sum of squares, in double; 0 for all but `tensors`. The same for any
/// number of threads.
[[nodiscard]] std::vector<double> gradient_squares(const Parameters<float>& gradients,
                                                   std::span<const std::size_t> tensors, ThreadPool& pool);

/// `groups` and `squares` are those of the tensors in `table`, in its order.
[[nodiscard]] GradientNorms gradient_norms(const std::vector<TensorSpec>& table,
                                           const std::vector<ParameterGroup>& groups,
                                           std::span<const double> squares);

/// Scales those of `tensors` that are the trunk's, and by their own norm the indexers', to a norm of at most
/// `limit`; 0 leaves them.
void clip_gradients(Parameters<float>& gradients, std::span<const std::size_t> tensors,
                    const std::vector<ParameterGroup>& groups, const GradientNorms& norms, double limit,
                    ThreadPool& pool);

}  // namespace baleen
