#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "numeric/bf16.h"
#include "ops/sparse_attention/entry_list.h"
#include "ops/sparse_attention/sparse_attention.h"

namespace baleen {
namespace {

constexpr std::int64_t kBlockEntries = 64;

std::vector<float> decode(const EntryList::Place& place) {
  std::vector<float> row(static_cast<std::size_t>(place.pool->format.width()));
  decode_latent_row(place.pool->format, place.page, place.pool->rows_per_page, place.row, row);
  return row;
}

void attend(const SparseAttentionArgs& args, const EntryList& list, std::int64_t query, std::int64_t head) {
  const bool round = args.precision != Precision::kExact;
  const std::int64_t key_width = args.q.extent(2), value_width = args.out.extent(2);
  double maximum = -std::numeric_limits<double>::infinity(), denominator = 0.0;
  std::vector<double> sum(static_cast<std::size_t>(value_width), 0.0);
  for (std::int64_t begin = 0; begin < list.size(); begin += kBlockEntries) {
    const std::int64_t end = std::min(begin + kBlockEntries, list.size());
    std::vector<std::vector<float>> rows;
    std::vector<double> scores;
    double new_maximum = maximum;
    for (std::int64_t entry = begin; entry < end; ++entry) {
      rows.push_back(decode(list[entry]));
      double dot = 0.0;
      for (std::int64_t i = 0; i < key_width; ++i) {
        dot += static_cast<double>(args.q(query, head, i)) * rows.back()[static_cast<std::size_t>(i)];
      }
      scores.push_back(dot * args.scale);
      new_maximum = std::max(new_maximum, scores.back());
    }
    const double correction = std::exp(maximum - new_maximum);
    denominator *= correction;
    for (double& value : sum) value *= correction;
    for (std::size_t k = 0; k < rows.size(); ++k) {
      const double weight = std::exp(scores[k] - new_maximum);
      denominator += weight;
      const double rounded = round ? round_bf16(static_cast<float>(weight)) : weight;
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += rounded * rows[k][i];
    }
    maximum = new_maximum;
  }
  denominator += std::exp(static_cast<double>(args.sink[static_cast<std::size_t>(head)]) - maximum);
  for (std::int64_t i = 0; i < value_width; ++i) {
    const auto value =
        list.size() == 0 ? 0.0F : static_cast<float>(sum[static_cast<std::size_t>(i)] / denominator);
    args.out(query, head, i) = round ? round_bf16(value) : value;
  }
}

}  // namespace

void sparse_attention_ref(const SparseAttentionArgs& args) {
  for (std::int64_t query = 0; query < args.q.extent(0); ++query) {
    const EntryList list(args, query);
    for (std::int64_t head = 0; head < args.q.extent(1); ++head) attend(args, list, query, head);
  }
}

}  // namespace baleen
