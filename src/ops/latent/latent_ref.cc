#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "numeric/bf16.h"
#include "ops/compressor/step_entries.h"
#include "ops/latent/latent.h"
#include "ops/latent/pair.h"

namespace baleen {
namespace {

double pooled(const Pair& pair, std::size_t channel) {
  const double most = std::max(pair.gate[0][channel], pair.gate[1][channel]);
  const double first = std::exp(pair.gate[0][channel] - most),
               second = std::exp(pair.gate[1][channel] - most);
  return (first * pair.kv[0][channel] + second * pair.kv[1][channel]) / (first + second);
}

void make_latent(const LatentArgs& args, const SequenceSlice& slice, std::int64_t row) {
  const auto round = [&](double value) {
    const auto single = static_cast<float>(value);
    return args.precision == Precision::kExact ? single : round_bf16(single);
  };
  std::vector<double> values(args.norm_weight.size());
  double squares = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = round(args.ratio == 1 ? args.kv.row(row)[i] : pooled(Pair(args, slice, row), i));
    squares += values[i] * values[i];
  }
  const double inverse =
      1.0 / std::sqrt(squares / static_cast<double>(values.size()) + static_cast<double>(args.eps));
  for (std::size_t i = 0; i < values.size(); ++i)
    args.latent.row(row)[i] = round(static_cast<double>(args.norm_weight[i]) * values[i] * inverse);
}

}  // namespace

void latent_ref(const LatentArgs& args) {
  for (const SequenceSlice& slice : args.batch.slices) {
    for (std::int64_t row = slice.first_row; row < slice.first_row + slice.num_tokens; ++row) {
      if (entry_of_row(slice, row, args.ratio) < 0) {
        std::ranges::fill(args.latent.row(row), 0.0F);
      } else {
        make_latent(args, slice, row);
      }
    }
    keep_pairs(args, slice);
  }
}

}  // namespace baleen
