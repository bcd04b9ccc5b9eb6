#include "trainer/graph/parameters.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "model_files/random.h"

namespace baleen {
namespace {

/// Biases of one mixing: reads mostly `stream`, writes with weight 1, keeps streams mostly apart.
template <class T>
void mixing_bias(std::span<T> base, std::int64_t streams, std::int64_t stream) {
  for (std::int64_t j = 0; j < streams; ++j)
    base[static_cast<std::size_t>(j)] = j == stream ? T(0.85) : T(-2.2);
  if (static_cast<std::int64_t>(base.size()) == streams) return;  // of the head
  for (std::int64_t j = 0; j < streams; ++j)
    base[static_cast<std::size_t>(2 * streams + j * streams + j)] = T(4);
}

}  // namespace

std::vector<TensorSpec> training_table(const ModelConfig& config, bool plain_residual) {
  std::vector<TensorSpec> table = tensor_table(config);
  if (plain_residual)
    std::erase_if(table, [](const TensorSpec& spec) { return spec.role == TensorRole::kHyperConnection; });
  return table;
}

std::vector<TensorRow> engram_table_rows(const std::vector<TensorSpec>& table) {
  std::vector<TensorRow> rows;
  for (std::size_t i = 0; i < table.size(); ++i)
    if (table[i].role == TensorRole::kEngramTable) rows.push_back({static_cast<std::int32_t>(i)});
  return rows;
}

template <class T>
Parameters<T>::Parameters(const ModelConfig& config) : Parameters(tensor_table(config)) {}

template <class T>
Parameters<T>::Parameters(std::vector<TensorSpec> table) : table_(std::move(table)) {
  values_.resize(table_.size());
  for (std::size_t i = 0; i < table_.size(); ++i) {
    if (table_[i].storage != Storage::kI64)
      values_[i].resize(static_cast<std::size_t>(table_[i].num_elements()));
  }
}

template <class T>
void Parameters<T>::set_zero() {
  for (std::vector<T>& values : values_) std::fill(values.begin(), values.end(), T{0});
}

template <class T>
void Parameters<T>::add(const Parameters& other) {
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const std::vector<T>& from = other.values_[i];
    std::ranges::transform(values_[i], from, values_[i].begin(), std::plus{});
  }
}

template <class T>
void initialise(Parameters<T>& parameters, const ModelConfig& config, double range, std::uint64_t seed) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const TensorSpec& spec = parameters.spec(i);
    const std::span<T> values = parameters.values(i);
    if (spec.kind == TensorKind::kNorm) {
      std::fill(values.begin(), values.end(), T{1});
    } else if (spec.kind == TensorKind::kMixingScale) {
      std::fill(values.begin(), values.end(), T(0.01));
    } else if (spec.kind == TensorKind::kMixingBias) {
      mixing_bias(values, config.hc_mult, spec.stream);
    } else if (spec.is_linear()) {
      const CounterRandom random(seed, spec.name);
      for (std::size_t at = 0; at < values.size(); ++at)
        values[at] = static_cast<T>(range * random.normal(at));
    }
  }
}

TokenTables make_token_tables(const ModelConfig& config, std::uint64_t seed) {
  TokenTables tables;
  const auto num_experts = static_cast<std::size_t>(config.n_routed_experts);
  for (const TensorSpec& spec : rank_table(config)) {
    if (spec.kind != TensorKind::kIds) continue;
    const CounterRandom random(seed, spec.name);
    std::uint64_t draws = 0;
    std::vector<std::int64_t> order(num_experts);
    std::iota(order.begin(), order.end(), 0);
    std::vector<std::int64_t> table;
    table.reserve(static_cast<std::size_t>(config.vocab_size * config.num_experts_per_tok));
    for (std::int64_t token = 0; token < config.vocab_size; ++token) {
      const std::size_t first = static_cast<std::size_t>(token) % num_experts;
      for (std::size_t i = num_experts - 1; first == 0 && i > 0; --i)
        std::swap(order[i], order[random.bits(draws++) % (i + 1)]);
      for (std::int64_t i = 0; i < config.num_experts_per_tok; ++i)
        table.push_back(order[(first + static_cast<std::size_t>(i)) % num_experts]);
    }
    tables.experts.push_back(std::move(table));
  }
  return tables;
}

template class Parameters<float>;
template class Parameters<double>;
template void initialise(Parameters<float>&, const ModelConfig&, double, std::uint64_t);
template void initialise(Parameters<double>&, const ModelConfig&, double, std::uint64_t);

}  // namespace baleen
