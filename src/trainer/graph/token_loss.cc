#include "trainer/graph/token_loss.h"

#include <cmath>

#include "numeric/row_math.h"
#include "ops/linear/linear_backward.h"
#include "trainer/graph/site.h"

namespace baleen::graph {
namespace {

constexpr std::int64_t kLossRows = 256;

/// -log softmax(z)[target]; z becomes scale * (softmax(z) - one-hot).
template <class T>
double cross_entropy(T* z, std::int64_t size, TokenId target, T scale) {
  const T top = *std::max_element(z, z + size);
  const double target_logit = static_cast<double>(z[target] - top);
  const double sum = row_math::exp_and_sum(top, z, size);
  row_math::scale(scale / static_cast<T>(sum), z, size);
  z[target] -= scale;
  return std::log(sum) - target_logit;
}

}  // namespace

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
double token_loss(const GraphContext<T>& context, const SiteWeights<const T>& w, const T* head,
                  const T* streams, const Targets& targets, const HeadGradients<T>& gradients) {
  const std::int64_t d = context.config.hidden_size;
  const std::int64_t vocabulary = context.config.vocab_size;
  SiteActivations<T> a;
  site_forward(context, SiteKind::kHead, w, streams, a);
  Values<T> x;
  Values<T> dx;
  Values<T> logits;
  Values<T> dnormed;
  if (gradients.site != nullptr) zeros(dnormed, context.tokens() * d);
  std::vector<double> losses(static_cast<std::size_t>(targets.size()));
  for (std::int64_t begin = 0; begin < targets.size(); begin += kLossRows) {
    const std::int64_t rows = std::min(kLossRows, targets.size() - begin);
    const std::int64_t* row = targets.rows.data() + begin;
    resized(x, rows * d);
    for (std::int64_t i = 0; i < rows; ++i) std::copy_n(a.normed.data() + row[i] * d, d, x.data() + i * d);
    linear_forward<T>({rows, d, vocabulary}, x.data(), head, resized(logits, rows * vocabulary),
                      context.pool);
    context.pool.parallel_for(rows, [&](std::int64_t i, int) {
      const auto at = static_cast<std::size_t>(begin + i);
      losses[at] =
          cross_entropy(logits.data() + i * vocabulary, vocabulary, targets.tokens[at], gradients.scale);
    });
    if (gradients.site == nullptr) continue;
    linear_backward<T>({rows, d, vocabulary}, x.data(), head, logits.data(), zeros(dx, rows * d),
                       gradients.head, context.pool);
    for (std::int64_t i = 0; i < rows; ++i) std::copy_n(dx.data() + i * d, d, dnormed.data() + row[i] * d);
  }
  if (gradients.site != nullptr) {
    site_backward<T>(context, SiteKind::kHead, w, *gradients.site, streams, a, dnormed.data(), nullptr,
                     nullptr, gradients.dstreams);
  }
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return sum;
}

template double token_loss(const GraphContext<float>&, const SiteWeights<const float>&, const float*,
                           const float*, const Targets&, const HeadGradients<float>&);
template double token_loss(const GraphContext<double>&, const SiteWeights<const double>&, const double*,
                           const double*, const Targets&, const HeadGradients<double>&);

}  // namespace baleen::graph
