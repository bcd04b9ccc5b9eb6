/// The head and its cross-entropy over the rows of a batch that have a target. (source: training 1)
#pragma once

#include "trainer/graph/activations.h"
#include "trainer/graph/block_weights.h"
#include "trainer/graph/graph_context.h"

namespace baleen::graph {

/// Rows that predict, and what: row i the token after it, where that is a target of the same document.
struct Targets {
  std::vector<std::int64_t> rows;
  std::vector<TokenId> tokens;

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(rows.size()); }
};

[[nodiscard]] Targets targets_of(const TrainingBatch& batch);

template <class T>
struct HeadGradients {
  T scale = 0;                           ///< of the sum of losses
  const SiteWeights<T>* site = nullptr;  ///< += ; null: no gradients
  T* head = nullptr;                     ///< [V, d] +=
  T* dstreams = nullptr;                 ///< [N, n, d] +=
};

/// Sum of -log softmax(head(streams [N, n, d]))[target] over `targets`. In chunks of kLossRows rows: logits,
/// their gradient and both products, so that memory is kLossRows * V values.
template <class T>
double token_loss(const GraphContext<T>& context, const SiteWeights<const T>& w, const T* head,
                  const T* streams, const Targets& targets, const HeadGradients<T>& gradients);

}  // namespace baleen::graph
