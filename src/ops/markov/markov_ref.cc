#include <cstring>

#include "ops/markov/markov.h"

namespace baleen {
namespace {

/// Data of a matrix is of any alignment.
double value_of(const WeightMatrix& matrix, std::int64_t row, std::int64_t column) {
  Bf16Bits bits = 0;
  std::memcpy(&bits, matrix.data + (row * matrix.cols + column) * std::int64_t{sizeof(bits)}, sizeof(bits));
  return bf16_to_float(bits);
}

}  // namespace

void markov_ref(const MarkovArgs& args) {
  const std::int64_t rank = args.w1.extent(1), width = args.hidden.extent(1);
  for (std::int64_t row = 0; row < args.logits.extent(0); ++row) {
    const auto r = static_cast<std::size_t>(row);
    const std::span<const Bf16Bits> term = args.w1.row(args.tokens[r]);
    for (std::int64_t v = 0; v < args.w2->rows; ++v) {
      double sum = 0.0;
      for (std::int64_t j = 0; j < rank; ++j) {
        sum +=
            static_cast<double>(bf16_to_float(term[static_cast<std::size_t>(j)])) * value_of(*args.w2, v, j);
      }
      args.logits(row, v) += static_cast<float>(sum);
    }
    if (args.confidence_weight.empty()) continue;
    double sum = 0.0;
    for (std::int64_t i = 0; i < width; ++i) {
      sum += static_cast<double>(args.hidden(row, i)) * args.confidence_weight[static_cast<std::size_t>(i)];
    }
    for (std::int64_t j = 0; j < rank; ++j) {
      sum += static_cast<double>(bf16_to_float(term[static_cast<std::size_t>(j)])) *
             args.confidence_weight[static_cast<std::size_t>(width + j)];
    }
    args.confidence[r] = static_cast<float>(sum);
  }
}

}  // namespace baleen
