#include "trainer/graph/token_objective.h"

#include <algorithm>
#include <cmath>

#include "numeric/row_math.h"
#include "ops/linear/linear_backward.h"

namespace baleen {
namespace {

/// z becomes softmax(z) * factor; returns ln of the sum of e^z.
template <class T>
double softmax(std::span<T> z, T factor) {
  const auto size = static_cast<std::int64_t>(z.size());
  const T top = *std::ranges::max_element(z);
  const double sum = row_math::exp_and_sum(top, z.data(), size);
  row_math::scale(factor / static_cast<T>(sum), z.data(), size);
  return std::log(sum) + static_cast<double>(top);
}

template <class T>
void divide(std::span<T> z, double temperature) {
  if (temperature == 1) return;
  row_math::scale(static_cast<T>(1 / temperature), z.data(), static_cast<std::int64_t>(z.size()));
}

}  // namespace

template <class T>
double CrossEntropy<T>::loss(std::int64_t /*i*/, TokenId token, std::span<T> z, T scale) {
  const auto target = static_cast<std::size_t>(token);
  const auto logit = static_cast<double>(z[target]);
  const double log_sum = softmax(z, scale);
  z[target] -= scale;
  return log_sum - logit;
}

template <class T>
double MeasuredLogprobs<T>::loss(std::int64_t i, TokenId token, std::span<T> z, T /*scale*/) {
  divide(z, temperature_);
  const auto logit = static_cast<double>(z[static_cast<std::size_t>(token)]);
  logprobs_[static_cast<std::size_t>(i)] = logit - softmax(z, T{1});
  std::ranges::fill(z, T{0});
  return 0;
}

template <class T>
double PolicyGradient<T>::loss(std::int64_t i, TokenId token, std::span<T> z, T scale) {
  const SampledTarget& sampled = targets_[static_cast<std::size_t>(i)];
  const auto target = static_cast<std::size_t>(token);
  divide(z, options_.temperature);
  const auto logit = static_cast<double>(z[target]);
  const double logprob = logit - softmax(z, T{1});
  const double ratio = std::exp(logprob - sampled.old_logprob);
  const double free = ratio * sampled.advantage;
  const double clipped = std::clamp(ratio, 1 - options_.clip, 1 + options_.clip) * sampled.advantage;
  double gain = std::min(free, clipped);
  double slope = free <= clipped ? free : 0;  // of the gain by the log probability
  if (options_.beta != 0) {
    const double log_rho = sampled.reference_logprob - logprob;
    gain -= options_.beta * ratio * (std::exp(log_rho) - log_rho - 1);
    slope += options_.beta * ratio * log_rho;
  }
  const T factor = scale * static_cast<T>(sampled.weight * slope / options_.temperature);
  row_math::scale(factor, z.data(), static_cast<std::int64_t>(z.size()));
  z[target] -= factor;
  return -sampled.weight * gain;
}

template <class T>
void ReverseKl<T>::begin_chunk(std::int64_t begin, std::int64_t count, ThreadPool& pool) {
  begin_ = begin;
  logits_.resize(static_cast<std::size_t>(count * vocabulary_));
  dense_linear<T>({count, width_, vocabulary_}, hidden_.data() + begin * width_, head_, logits_.data(), pool);
}

template <class T>
double ReverseKl<T>::loss(std::int64_t i, TokenId /*token*/, std::span<T> z, T scale) {
  const T* teacher = logits_.data() + (i - begin_) * vocabulary_;
  const std::vector<T> student(z.begin(), z.end());
  std::vector<T> scratch(teacher, teacher + vocabulary_);
  const double teacher_log_sum = softmax(std::span<T>(scratch), T{1});
  const double log_sum = softmax(z, T{1});
  const auto log_ratio = [&](std::size_t v) {
    return (static_cast<double>(student[v]) - log_sum) - (static_cast<double>(teacher[v]) - teacher_log_sum);
  };
  double divergence = 0;
  for (std::size_t v = 0; v < z.size(); ++v) divergence += static_cast<double>(z[v]) * log_ratio(v);
  const double weight = weights_[static_cast<std::size_t>(i)];
  const double factor = static_cast<double>(scale) * weight;
  for (std::size_t v = 0; v < z.size(); ++v)
    z[v] = static_cast<T>(factor * static_cast<double>(z[v]) * (log_ratio(v) - divergence));
  return weight * divergence;
}

template class CrossEntropy<float>;
template class CrossEntropy<double>;
template class MeasuredLogprobs<float>;
template class MeasuredLogprobs<double>;
template class PolicyGradient<float>;
template class PolicyGradient<double>;
template class ReverseKl<float>;
template class ReverseKl<double>;

}  // namespace baleen
