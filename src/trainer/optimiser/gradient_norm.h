/// Norms over all gradients, and clipping by them. (source: training 5)
#pragma once

#include <string>
#include <vector>

#include "parallel/thread_pool.h"
#include "trainer/graph/parameters.h"
#include "trainer/optimiser/parameter_groups.h"

namespace baleen {

struct GradientNorms {
  double trunk = 0;    ///< L2 norm over everything but the indexers
  double indexer = 0;  ///< of the indexers' parameters, whose loss is separate
  /// Name of the first tensor in the order of the table that holds an infinity or NaN; empty where none does.
  std::string not_finite;
};

/// `groups` are those of the tensors, in their order; constant ones do not count. Sums in double, tensor by
/// tensor: the same for any number of threads.
[[nodiscard]] GradientNorms gradient_norms(const Parameters<float>& gradients,
                                           const std::vector<ParameterGroup>& groups, ThreadPool& pool);

/// Scales the trunk's gradients, and by their own norm the indexers', to a norm of at most `limit`; 0 leaves
/// them.
void clip_gradients(Parameters<float>& gradients, const std::vector<ParameterGroup>& groups,
                    const GradientNorms& norms, double limit, ThreadPool& pool);

}  // namespace baleen
