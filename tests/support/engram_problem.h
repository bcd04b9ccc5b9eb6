/// Arguments of engram: streams, keys and weights as a model has them, and what NumPy makes of a small one.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "numeric/bf16.h"
#include "ops/engram/engram.h"
#include "tests/support/random_weights.h"

namespace baleen::test {

/// Owns what `args` points to. Values are BF16 numbers.
struct EngramProblem {
  std::int64_t num_rows, num_streams, width;
  std::vector<TokenId> tokens;
  std::vector<float> projected, streams;
  std::vector<Bf16Bits> q_weight, k_weight;

  /// Rows whose streams are some hundred times as large as their keys, as those of a trained model are.
  EngramProblem(std::int64_t rows, std::int64_t n, std::int64_t d, std::uint32_t seed)
      : num_rows(rows),
        num_streams(n),
        width(d),
        tokens(static_cast<std::size_t>(rows)),
        projected(rounded(random_values(static_cast<std::size_t>(rows * (n + 1) * d), seed, 0.5F))),
        streams(rounded(random_values(static_cast<std::size_t>(rows * n * d), seed + 1, 60.0F))),
        q_weight(around_one(n * d, seed + 2)),
        k_weight(around_one(n * d, seed + 3)) {
    for (std::size_t row = 0; row < tokens.size(); ++row) tokens[row] = static_cast<TokenId>(row);
  }

  [[nodiscard]] EngramArgs args() {
    return {.tokens = tokens,
            .projected = {projected.data(), {num_rows, (num_streams + 1) * width}},
            .q_weight = {q_weight.data(), {num_streams, width}},
            .k_weight = {k_weight.data(), {num_streams, width}},
            .eps = 1e-20F,
            .streams = {streams.data(), {num_rows, num_streams, width}}};
  }

 private:
  static std::vector<float> rounded(std::vector<float> values) {
    for (float& value : values) value = round_bf16(value);
    return values;
  }
  static std::vector<Bf16Bits> around_one(std::int64_t count, std::uint32_t seed) {
    std::vector<Bf16Bits> weights;
    for (const float value : random_values(static_cast<std::size_t>(count), seed, 0.3F))
      weights.push_back(float_to_bf16(1.0F + value));
    return weights;
  }
};

}  // namespace baleen::test
