#include "trainer/graph/token_loss.h"

#include <algorithm>
#include <span>

#include "ops/linear/linear_backward.h"
#include "ops/lm_head/lm_head.h"

namespace baleen::graph {
Targets targets_of(const TrainingBatch& batch) {
  Targets targets;
  for (const TrainingBatch::Document& document : batch.documents) {
    for (std::int64_t i = document.begin; i + 1 < document.end; ++i) {
      if (batch.is_target[static_cast<std::size_t>(i) + 1] == 0) continue;
      targets.rows.push_back(i);
      targets.tokens.push_back(batch.tokens[static_cast<std::size_t>(i) + 1]);
    }
  }
  return targets;
}

template <class T>
void head_logits(const GraphContext<T>& context, std::int64_t rows, const T* x, TensorRow head, T* logits) {
  const std::int64_t d = context.config.hidden_size, vocabulary = context.config.vocab_size;
  if constexpr (std::is_same_v<T, float>) {
    const WeightMatrix weight = float_matrix(vocabulary, d, context.weight(head));
    context.executors.products.template execute<ops::LmHead>(
        {.x = {x, {rows, d}}, .weight = &weight, .logits = {logits, {rows, vocabulary}}});
  } else {
    dense_linear<T>(context.linear_shape(rows, d, vocabulary), x, context.weight(head), logits,
                    context.pool.threads());
  }
}

template <class T>
double token_loss(const GraphContext<T>& context, const SiteRows& w, TensorRow head,
                  const SiteInputs<T>& streams, const Targets& targets, TokenObjective<T>& objective,
                  const HeadGradients<T>& gradients) {
  const std::int64_t d = context.config.hidden_size;
  const std::int64_t vocabulary = context.config.vocab_size;
  SiteActivations<T> a;
  site_forward(context, SiteKind::kHead, w, streams, a);
  const bool has_gradients = gradients.streams.x != nullptr;
  Values<T> x;
  Values<T> dx;
  Values<T> logits;
  Values<T> dnormed;
  if (has_gradients) zeros(dnormed, context.tokens() * d);
  std::vector<double> losses(static_cast<std::size_t>(targets.size()));
  for (std::int64_t begin = 0; begin < targets.size(); begin += kLossRows) {
    const std::int64_t rows = std::min(kLossRows, targets.size() - begin);
    const std::int64_t* row = targets.rows.data() + begin;
    resized(x, rows * d);
    context.pool.parallel_for(
        rows, [&](std::int64_t i, int) { std::copy_n(a.normed.data() + row[i] * d, d, x.data() + i * d); });
    head_logits(context, rows, x.data(), head, resized(logits, rows * vocabulary));
    if (context.pool.compute()) objective.begin_chunk(begin, rows, context.pool.threads());
    context.pool.parallel_for(rows, [&](std::int64_t i, int) {
      const auto at = static_cast<std::size_t>(begin + i);
      const std::span<T> z(logits.data() + i * vocabulary, static_cast<std::size_t>(vocabulary));
      losses[at] = objective.loss(begin + i, targets.tokens[at], z, gradients.scale);
    });
    if (!has_gradients) continue;
    context.linear_backward(context.linear_shape(rows, d, vocabulary), x.data(), head, logits.data(),
                            zeros(dx, rows * d));
    context.pool.parallel_for(
        rows, [&](std::int64_t i, int) { std::copy_n(dx.data() + i * d, d, dnormed.data() + row[i] * d); });
  }
  if (has_gradients) {
    site_backward<T>(context, SiteKind::kHead, w, streams, a, {.normed = dnormed.data()}, gradients.streams);
  }
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return sum;
}

template void head_logits(const GraphContext<float>&, std::int64_t, const float*, TensorRow, float*);
template void head_logits(const GraphContext<double>&, std::int64_t, const double*, TensorRow, double*);
template double token_loss(const GraphContext<float>&, const SiteRows&, TensorRow, const SiteInputs<float>&,
                           const Targets&, TokenObjective<float>&, const HeadGradients<float>&);
template double token_loss(const GraphContext<double>&, const SiteRows&, TensorRow, const SiteInputs<double>&,
                           const Targets&, TokenObjective<double>&, const HeadGradients<double>&);

}  // namespace baleen::graph
