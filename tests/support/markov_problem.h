/// A Markov head with random weights, and rows that ask it, for tests of its kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "numeric/bf16.h"
#include "ops/markov/markov.h"
#include "tests/support/random_weights.h"

namespace baleen::test {

struct MarkovProblem {
  std::int64_t rank, vocabulary, width, num_rows;
  RandomWeight w2;
  std::vector<Bf16Bits> w1;  ///< of kTokens tokens
  std::vector<TokenId> tokens;
  std::vector<float> logits, hidden, confidence_weight;

  static constexpr std::int64_t kTokens = 50;

  MarkovProblem(std::int64_t head_rank, std::int64_t head_vocabulary, std::int64_t head_width,
                std::int64_t rows)
      : rank(head_rank),
        vocabulary(head_vocabulary),
        width(head_width),
        num_rows(rows),
        w2(WeightFormat::kBF16, vocabulary, rank, 1),
        logits(random_values(static_cast<std::size_t>(num_rows * vocabulary), 3, 4.0F)),
        hidden(random_values(static_cast<std::size_t>(num_rows * width), 4)),
        confidence_weight(random_values(static_cast<std::size_t>(width + rank), 5, 0.1F)) {
    for (const float value : random_values(static_cast<std::size_t>(kTokens * rank), 2))
      w1.push_back(float_to_bf16(value));
    for (float& value : hidden) value = round_bf16(value);
    for (std::int64_t row = 0; row < num_rows; ++row)
      tokens.push_back(static_cast<TokenId>(row * 37 % kTokens));
  }

  struct Result {
    std::vector<float> logits, confidence;
  };
  /// By the reference; without confidence its part is empty.
  [[nodiscard]] Result want(bool wants_confidence = true) const {
    Result result{logits, std::vector<float>(wants_confidence ? tokens.size() : 0)};
    markov_ref(args(result));
    return result;
  }
  /// Of a call whose logits are those of `result`, and which has a confidence if that has room for one.
  [[nodiscard]] MarkovArgs args(Result& result) const {
    MarkovArgs args{.tokens = tokens,
                    .w1 = {w1.data(), {kTokens, rank}},
                    .w2 = &w2.matrix(),
                    .logits = {result.logits.data(), {num_rows, vocabulary}}};
    if (result.confidence.empty()) return args;
    args.hidden = {hidden.data(), {num_rows, width}};
    args.confidence_weight = confidence_weight;
    args.confidence = result.confidence;
    return args;
  }
};

}  // namespace baleen::test
