#include "trainer/post/rollout.h"

#include "base/check.h"
#include "base/error.h"
#include "sampling/sampler.h"

namespace baleen {
namespace {

/// ln softmax(logits / temperature)[token]
double logprob_at(std::span<const float> logits, double temperature, TokenId token) {
  std::vector<float> scaled(logits.begin(), logits.end());
  for (float& value : scaled) value = static_cast<float>(value / temperature);
  return scaled[static_cast<std::size_t>(token)] - log_sum_exp(scaled, logit_extremes(scaled).max);
}

/// One reply in the making.
class Sampling {
 public:
  Sampling(StepEngine& engine, SequenceId sequence, const RolloutConfig& config, TokenId end_token,
           std::uint64_t seed)
      : engine_(engine),
        sequence_(sequence),
        config_(config),
        end_token_(end_token),
        sampler_({.temperature = config.temperature, .seed = seed},
                 static_cast<std::int32_t>(engine.limits().vocab_size)) {}

  [[nodiscard]] SequenceId sequence() const { return sequence_; }
  [[nodiscard]] bool over() const {
    return rollout_.ended || static_cast<std::int64_t>(rollout_.tokens.size()) == config_.max_tokens;
  }
  [[nodiscard]] StepInput next_input() const {
    return {sequence_, std::span(rollout_.tokens).last(1), WantedLogits::kLast};
  }
  void take(std::span<const float> logits) {
    const Result<SampledToken> sampled = sampler_.sample(logits);
    if (!sampled) fail("rollout: {}", sampled.error());
    const TokenId token = sampled.value().id;
    rollout_.tokens.push_back(token);
    rollout_.logprobs.push_back(logprob_at(logits, config_.temperature, token));
    rollout_.ended = token == end_token_;
    if (over()) engine_.close(sequence_, false);
  }
  Rollout rollout() && { return std::move(rollout_); }

 private:
  StepEngine& engine_;
  SequenceId sequence_;
  const RolloutConfig& config_;
  TokenId end_token_;
  Sampler sampler_;
  Rollout rollout_;
};

StepOutput checked(Result<StepOutput> output) {
  if (!output) fail("rollout: {}", output.error());
  return std::move(output).value();
}

/// Feeds what the sequence lacks of the prompt; logits after its last token.
std::span<const float> prefill(StepEngine& engine, SequenceId sequence, std::span<const TokenId> prompt) {
  const auto chunk = static_cast<std::size_t>(engine.limits().max_batch_tokens);
  auto begin = static_cast<std::size_t>(engine.length(sequence));
  for (; begin + chunk < prompt.size(); begin += chunk) {
    const StepInput input{sequence, prompt.subspan(begin, chunk), WantedLogits::kNone};
    checked(engine.step({&input, 1}));
  }
  const StepInput input{sequence, prompt.subspan(begin), WantedLogits::kLast};
  return checked(engine.step({&input, 1})).logits.row(0);
}

}  // namespace

std::vector<Rollout> sample_group(StepEngine& engine, const RolloutConfig& config,
                                  std::span<const TokenId> prompt, TokenId end_token, std::uint64_t seed) {
  std::vector<Sampling> group;
  group.reserve(static_cast<std::size_t>(config.group_size));
  for (std::int64_t i = 0; i < config.group_size; ++i) {
    const std::optional<SequenceId> sequence = engine.open(prompt);
    BALEEN_CHECK(sequence.has_value());
    Sampling& sampling =
        group.emplace_back(engine, *sequence, config, end_token, seed + static_cast<std::uint64_t>(i));
    const std::span<const float> logits = prefill(engine, *sequence, prompt);
    const std::vector<float> kept(logits.begin(), logits.end());
    if (i == 0) engine.share(*sequence);
    sampling.take(kept);
  }
  for (;;) {
    std::vector<StepInput> inputs;
    std::vector<Sampling*> active;
    for (Sampling& sampling : group) {
      if (sampling.over()) continue;
      inputs.push_back(sampling.next_input());
      active.push_back(&sampling);
    }
    if (active.empty()) break;
    const StepOutput output = checked(engine.step(inputs));
    for (std::size_t i = 0; i < active.size(); ++i)
      active[i]->take(output.logits.row(static_cast<std::int64_t>(i)));
  }
  std::vector<Rollout> rollouts;
  for (Sampling& sampling : group) rollouts.push_back(std::move(sampling).rollout());
  return rollouts;
}

}  // namespace baleen
