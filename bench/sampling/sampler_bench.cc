// One choice from the full vocabulary of 129,280, by kind of request and shape of the distribution.
#include <benchmark/benchmark.h>

#include <random>

#include "sampling/sampler.h"

namespace baleen {
namespace {

constexpr std::int32_t kVocabSize = 129280;

// Normal logits: a spread of 1 is flatter than any model's, 3 is a model that is unsure. 0 gives equal
// logits, the worst case of partial selection.
std::vector<float> logits_of_spread(float spread) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> logits(kVocabSize, 1.0f);
  if (spread > 0) {
    for (float& logit : logits) logit = normal(generator);
  }
  return logits;
}

void sample(benchmark::State& state, SamplingParams params) {
  const auto logits = logits_of_spread(static_cast<float>(state.range(0)));
  params.seed = 1;
  Sampler sampler(params, kVocabSize);
  for (auto _ : state) benchmark::DoNotOptimize(sampler.sample(logits).value().id);
}

// Under a mask that allows every n-th token: a string's inside (1), mixed (2), a few choices (10,000).
void sample_masked(benchmark::State& state, SamplingParams params) {
  const auto logits = logits_of_spread(3);
  params.seed = 1;
  Sampler sampler(params, kVocabSize);
  std::vector<std::uint64_t> mask(kVocabSize / 64);
  for (std::int64_t id = 0; id < kVocabSize; id += state.range(0)) {
    mask[static_cast<std::size_t>(id / 64)] |= std::uint64_t{1} << (id % 64);
  }
  for (auto _ : state) benchmark::DoNotOptimize(sampler.sample(logits, mask).value().id);
}

#define BALEEN_MASKED_BENCHMARK(name, ...)                            \
  BENCHMARK_CAPTURE(sample_masked, name, SamplingParams{__VA_ARGS__}) \
      ->ArgName("every")                                              \
      ->Arg(1)                                                        \
      ->Arg(2)                                                        \
      ->Arg(10000)                                                    \
      ->Unit(benchmark::kMicrosecond)

BALEEN_MASKED_BENCHMARK(greedy, .temperature = 0);
BALEEN_MASKED_BENCHMARK(softmax, .temperature = 1);
BALEEN_MASKED_BENCHMARK(top_p, .top_p = 0.95);

#define BALEEN_SAMPLE_BENCHMARK(name, ...)                     \
  BENCHMARK_CAPTURE(sample, name, SamplingParams{__VA_ARGS__}) \
      ->ArgName("spread")                                      \
      ->Arg(3)                                                 \
      ->Arg(1)                                                 \
      ->Arg(0)                                                 \
      ->Unit(benchmark::kMicrosecond)

BALEEN_SAMPLE_BENCHMARK(greedy, .temperature = 0);
BALEEN_SAMPLE_BENCHMARK(greedy_logprobs, .temperature = 0, .num_logprobs = 20);
BALEEN_SAMPLE_BENCHMARK(softmax, .temperature = 1);
BALEEN_SAMPLE_BENCHMARK(min_p, .min_p = 0.05);
BALEEN_SAMPLE_BENCHMARK(top_k, .top_k = 50);
BALEEN_SAMPLE_BENCHMARK(top_p, .top_p = 0.95);
BALEEN_SAMPLE_BENCHMARK(top_k_top_p, .temperature = 0.6, .top_k = 50, .top_p = 0.95);
BALEEN_SAMPLE_BENCHMARK(top_p_penalties, .top_p = 0.95, .repetition_penalty = 1.1);

}  // namespace
}  // namespace baleen
