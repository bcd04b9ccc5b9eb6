/// What is lost at one target, as a function of its logits: cross entropy, the clipped policy gradient of
/// GRPO, reverse KL to a teacher. (source: training 1, 13, 14)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/thread_pool.h"
#include "tensor/ragged_batch.h"

namespace baleen {

/// Of the main model's head; targets are numbered in the order of the batch.
template <class T>
class TokenObjective {
 public:
  virtual ~TokenObjective() = default;
  /// Before `loss` of targets [begin, begin + count), which are one chunk.
  virtual void begin_chunk(std::int64_t /*begin*/, std::int64_t /*count*/, ThreadPool& /*pool*/) {}
  /// The loss of target i, whose token is `token`; z [V], its logits, become scale * dloss/dz. Called for
  /// different targets of a chunk from several threads.
  virtual double loss(std::int64_t i, TokenId token, std::span<T> z, T scale) = 0;
};

/// -ln π(token)
template <class T>
class CrossEntropy final : public TokenObjective<T> {
 public:
  double loss(std::int64_t i, TokenId token, std::span<T> z, T scale) override;
};

/// Writes ln π(token) at a temperature to `logprobs` [targets], which outlives it. A measurement: no loss, no
/// gradient.
template <class T>
class MeasuredLogprobs final : public TokenObjective<T> {
 public:
  MeasuredLogprobs(double temperature, std::span<double> logprobs)
      : temperature_(temperature), logprobs_(logprobs) {}
  double loss(std::int64_t i, TokenId token, std::span<T> z, T scale) override;

 private:
  double temperature_;
  std::span<double> logprobs_;
};

/// What GRPO knows of one sampled token.
struct SampledTarget {
  double old_logprob = 0;        ///< what the policy that sampled gave it, at the sampling temperature
  double reference_logprob = 0;  ///< what the reference policy gives it; only with beta
  double advantage = 0;          ///< 0 where the sequence mask leaves it out
  double weight = 0;             ///< 1 / (sequences * tokens of its sequence)
};

struct PolicyGradientOptions {
  double clip = 0.2;  ///< ε
  double beta = 0;    ///< weight of the KL estimate to the reference policy; 0: none
  double temperature = 1;
};

/// -weight (min(r Â, clip(r, 1 - ε, 1 + ε) Â) - β r (ρ - ln ρ - 1)), r = π/π_old, ρ = π_ref/π.
template <class T>
class PolicyGradient final : public TokenObjective<T> {
 public:
  /// `targets` [targets of the batch] outlives it.
  PolicyGradient(const PolicyGradientOptions& options, std::span<const SampledTarget> targets)
      : options_(options), targets_(targets) {}
  double loss(std::int64_t i, TokenId token, std::span<T> z, T scale) override;

 private:
  PolicyGradientOptions options_;
  std::span<const SampledTarget> targets_;
};

/// weight Σ_v π(v) ln(π(v) / π_E(v)) over the whole vocabulary. The teacher's logits are computed chunk by
/// chunk from the inputs of its head.
template <class T>
class ReverseKl final : public TokenObjective<T> {
 public:
  /// `hidden` [targets, width] (TrainingGraph::head_inputs), `head` [V, width], both the teacher's, and
  /// `weights` [targets] outlive it.
  ReverseKl(std::span<const T> hidden, const T* head, std::int64_t width, std::int64_t vocabulary,
            std::span<const double> weights)
      : hidden_(hidden), head_(head), width_(width), vocabulary_(vocabulary), weights_(weights) {}
  void begin_chunk(std::int64_t begin, std::int64_t count, ThreadPool& pool) override;
  double loss(std::int64_t i, TokenId token, std::span<T> z, T scale) override;

 private:
  std::span<const T> hidden_;
  const T* head_;
  std::int64_t width_, vocabulary_;
  std::span<const double> weights_;
  std::int64_t begin_ = 0;
  std::vector<T> logits_;  ///< [chunk, V] the teacher's
};

}  // namespace baleen
