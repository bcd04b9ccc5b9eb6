/// What every part of a training pass shares: sizes, the batch, rotation angles, what runs its operations,
/// threads, and loops over rows whose results do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <vector>

#include "model/config.h"
#include "ops/linear/linear_backward.h"
#include "ops/operation/executor.h"
#include "ops/rms_norm/rms_norm.h"
#include "parallel/thread_pool.h"
#include "trainer/graph/activations.h"
#include "trainer/graph/parameters.h"
#include "trainer/graph/pass_executor.h"
#include "trainer/graph/pass_options.h"
#include "trainer/graph/pass_rounding.h"
#include "training_data/batch_sampler.h"

namespace baleen::graph {

inline constexpr std::int64_t kLoopRows = 64;

/// body(first row, rows) for blocks of rows that do not touch each other's results.
template <class Body>
void for_row_blocks(ThreadPool& pool, std::int64_t rows, Body&& body) {
  pool.parallel_for((rows + kLoopRows - 1) / kLoopRows, [&](std::int64_t block, int) {
    body(block * kLoopRows, std::min(kLoopRows, rows - block * kLoopRows));
  });
}

/// body(item, partial) with a zeroed array of `size` for each item; their sum, in the order of items, is
/// added to `out`.
template <class T, class Body>
void sum_over_items(ThreadPool& pool, std::int64_t items, std::int64_t size, T* out, Body&& body) {
  Values<T> partials(static_cast<std::size_t>(items * size), T{0});
  pool.parallel_for(items, [&](std::int64_t item, int) { body(item, partials.data() + item * size); });
  for (std::int64_t item = 0; item < items; ++item) {
    for (std::int64_t i = 0; i < size; ++i) out[i] += partials[static_cast<std::size_t>(item * size + i)];
  }
}

/// The same over blocks of rows: body(first row, rows, partial).
template <class T, class Body>
void sum_over_rows(ThreadPool& pool, std::int64_t rows, std::int64_t size, T* out, Body&& body) {
  sum_over_items<T>(pool, (rows + kLoopRows - 1) / kLoopRows, size, out, [&](std::int64_t block, T* partial) {
    body(block * kLoopRows, std::min(kLoopRows, rows - block * kLoopRows), partial);
  });
}

/// Makes `values` hold `count` elements of any value.
template <class T>
T* resized(Values<T>& values, std::int64_t count) {
  values.resize(static_cast<std::size_t>(count));
  return values.data();
}

/// Makes `values` hold `count` zeros.
template <class T>
T* zeros(Values<T>& values, std::int64_t count) {
  values.assign(static_cast<std::size_t>(count), T{0});
  return values.data();
}

/// The same on all threads, for values of every token.
template <class T>
T* zeros(Values<T>& values, std::int64_t count, ThreadPool& pool) {
  constexpr std::int64_t kChunk = std::int64_t{1} << 16;
  T* const data = resized(values, count);
  pool.parallel_for((count + kChunk - 1) / kChunk, [&](std::int64_t chunk, int) {
    std::fill_n(data + chunk * kChunk, std::min(kChunk, count - chunk * kChunk), T{0});
  });
  return data;
}

template <class T>
struct RopeTable {
  Values<T> cosine;  ///< [tokens, rotary / 2]
  Values<T> sine;
};

template <class T>
struct GraphContext {
  /// All must outlive this. Computes the rotation angles of the batch's positions.
  GraphContext(const ModelConfig& model_config, const HashTables& tables, const TrainingBatch& documents,
               const PassOptions& options, const PassExecutors& of_operations, ThreadPool& threads);

  const ModelConfig& config;
  const HashTables& hash_tables;
  const TrainingBatch& batch;
  const PassExecutors& executors;
  ThreadPool& pool;
  RopeTable<T> ropes[kNumRopeKinds];
  bool dense_attention = false;
  bool plain_residual = false;
  T indexer_scale = 0;  ///< of the indexers' loss, a sum over queries; 0: the pass has none
  T balance_scale = 0;  ///< of the balance loss, a sum over documents; 0: the pass has none
  PassRounding<T> rounding;
  Operands operands = Operands::kAsStored;  ///< of products but those of routers, mixings and compressors

  /// Runs an operation: of floats by the pass's executor, of doubles as it is specified.
  template <class Op>
  void run(const typename Op::template ArgsOf<T>& args) const {
    if constexpr (std::is_same_v<T, float>) {
      executors.exact.execute<Op>(args);
    } else {
      Op::run_f64(args);
    }
  }
  /// y [rows, out] = x [rows, in] Wᵀ in the pass's arithmetic, a result; `name`: of the weight, for people.
  void linear(std::string_view name, std::int64_t rows, std::int64_t in, std::int64_t out, const T* x,
              const T* w, T* y) const;
  /// The same in float32 and not rounded, as routers, compressors and heads of indexers take it.
  void linear_f32(std::string_view name, std::int64_t rows, std::int64_t in, std::int64_t out, const T* x,
                  const T* w, T* y) const;
  /// y [rows, width] = the norm of x by w [width], or without weight where it is null, a result. Rows are
  /// `rows_per_token` a token.
  void norm(std::int64_t rows, std::int64_t width, const T* x, const T* w, T* y,
            std::int64_t rows_per_token = 1) const;
  /// The arguments of that norm over some of its rows, for the backward.
  [[nodiscard]] RmsNormArgsOf<T> norm_of(std::int64_t rows, std::int64_t width, const T* x,
                                         const T* w) const {
    return {.x = {x, {rows, width}},
            .weight = {w, w == nullptr ? 0 : static_cast<std::size_t>(width)},
            .eps = static_cast<float>(config.rms_norm_eps),
            .precision = precision()};
  }
  /// Of what operations return.
  [[nodiscard]] Precision precision() const {
    return rounding.active() ? Precision::kReleased : Precision::kExact;
  }
  /// Of a product's backward in the pass's arithmetic.
  [[nodiscard]] LinearShape linear_shape(std::int64_t rows, std::int64_t in, std::int64_t out) const {
    return {.rows = rows, .in = in, .out = out, .operands = operands};
  }
  /// PassRounding::result and input on all threads.
  void round_results(std::int64_t rows, std::int64_t width, T* x) const;
  void round_inputs(WeightFormat format, std::int64_t rows, std::int64_t width, T* x) const;
  /// What matrices of `format` multiply where x [N, d] has other readers: x, or `rounded`, which is set.
  [[nodiscard]] const T* rounded_input(WeightFormat format, const T* x, Values<T>& rounded) const;

  [[nodiscard]] std::int64_t tokens() const { return batch.num_tokens(); }
  [[nodiscard]] std::int64_t documents() const { return static_cast<std::int64_t>(batch.documents.size()); }
  [[nodiscard]] const TrainingBatch::Document& document(std::int64_t i) const {
    return batch.documents[static_cast<std::size_t>(i)];
  }
};

}  // namespace baleen::graph
