/// The head and what is lost over the rows of a batch that have a target. (source: training 1)
#pragma once

#include "trainer/graph/activations.h"
#include "trainer/graph/graph_context.h"
#include "trainer/graph/site.h"
#include "trainer/graph/token_objective.h"

namespace baleen::graph {

/// Rows whose logits are held at a time.
inline constexpr std::int64_t kLossRows = 256;

/// Rows that predict, and what: row i the token after it, where that is a target of the same document.
struct Targets {
  std::vector<std::int64_t> rows;
  std::vector<TokenId> tokens;

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(rows.size()); }
};

[[nodiscard]] Targets targets_of(const TrainingBatch& batch);

template <class T>
struct HeadGradients {
  T scale = 0;                      ///< scales the sum of losses
  SiteInputGradients<T> streams{};  ///< += ; x null: no gradients
};

/// logits [rows, V] = x [rows, d] times the head, not rounded.
template <class T>
void head_logits(const GraphContext<T>& context, std::int64_t rows, const T* x, TensorRow head, T* logits);

/// Sum over `targets` of what `objective` says of the logits head(streams). Gradients accumulate.
/// In chunks of kLossRows rows: logits, their gradient and both products, so memory is kLossRows * V values.
template <class T>
double token_loss(const GraphContext<T>& context, const SiteRows& w, TensorRow head,
                  const SiteInputs<T>& streams, const Targets& targets, TokenObjective<T>& objective,
                  const HeadGradients<T>& gradients);

}  // namespace baleen::graph
