/// What the loop needs of a model: its loss over a batch and, where `gradients` is not null, gradients added
/// to them. `TrainingGraph<float>::run` is one.
#pragma once

#include <functional>

#include "trainer/graph/model.h"

namespace baleen {

using LossFunction = std::function<LossReport(const Parameters<float>& weights, const TrainingBatch& batch,
                                              const PassOptions& options, Parameters<float>* gradients)>;

}  // namespace baleen
