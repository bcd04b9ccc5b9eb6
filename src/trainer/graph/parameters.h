/// All trained tensors of a model as flat arrays, by the table that names the released ones. Gradients and
/// optimiser states are further objects of the same shape.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engram/engram_hashes.h"
#include "model/tensor_table.h"

namespace baleen {

/// Tensors of a model in training: `tensor_table(config)`, with plain residuals without the mixings.
[[nodiscard]] std::vector<TensorSpec> training_table(const ModelConfig& config, bool plain_residual);

template <class T>
class Parameters {
 public:
  using value_type = T;

  /// Zeros, one array a tensor of `tensor_table(config)`; hash tables (int64) have none.
  explicit Parameters(const ModelConfig& config);
  /// The same of any other table.
  explicit Parameters(std::vector<TensorSpec> table);

  [[nodiscard]] std::size_t size() const { return table_.size(); }
  [[nodiscard]] const std::vector<TensorSpec>& table() const { return table_; }
  [[nodiscard]] const TensorSpec& spec(std::size_t i) const { return table_[i]; }
  [[nodiscard]] std::span<T> values(std::size_t i) { return values_[i]; }
  [[nodiscard]] std::span<const T> values(std::size_t i) const { return values_[i]; }
  /// Of a row that exists.
  [[nodiscard]] std::span<T> values(TensorRow row) { return values_[static_cast<std::size_t>(row.index)]; }
  [[nodiscard]] std::span<const T> values(TensorRow row) const {
    return values_[static_cast<std::size_t>(row.index)];
  }
  void set_zero();
  /// Adds the values of `other`, of the same table.
  void add(const Parameters& other);

 private:
  std::vector<TensorSpec> table_;
  std::vector<std::vector<T>> values_;
};

/// The rows of the Engram tables, in the order of the layers that read them.
[[nodiscard]] std::vector<TensorRow> engram_table_rows(const std::vector<TensorSpec>& table);

/// Weights that training starts from: normal with deviation `range` for matrices, ones for norms, the mixing
/// biases of the specification. A tensor's values depend on the seed and its name alone. (source: training 2)
template <class T>
void initialise(Parameters<T>& parameters, const ModelConfig& config, double range, std::uint64_t seed);

/// What a model looks up by token ids: constants, which no training changes.
struct TokenTables {
  /// Of each hash-routed layer [V, k]: the experts of each token id.
  std::vector<std::vector<std::int64_t>> experts;
  /// Which rows of the Engram tables n-grams read; null: the model has no such tables.
  std::shared_ptr<const EngramHashes> ngrams = nullptr;
};

/// The experts of a new model's token ids: k distinct ones each, and each column gives equally many ids to
/// every expert, up to one. Without n-grams, which are a tokenizer's.
/// (source: training 6.2)
[[nodiscard]] TokenTables make_token_tables(const ModelConfig& config, std::uint64_t seed);

}  // namespace baleen
