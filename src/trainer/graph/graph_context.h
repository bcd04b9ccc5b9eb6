/// What every part of a training pass shares: sizes, the batch, rotation angles, rows of n-grams, what runs
/// its operations, threads, and loops over rows whose results do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>
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
#include "trainer/graph/pass_record.h"
#include "trainer/graph/pass_rounding.h"
#include "training_data/batch_sampler.h"

namespace baleen::graph {

inline constexpr std::int64_t kLoopRows = 64;

/// The threads of a pass; of one that is written down there are none, and its loops compute nothing.
class PassThreads {
 public:
  explicit PassThreads(ThreadPool* threads) : threads_(threads) {}

  [[nodiscard]] bool compute() const { return threads_ != nullptr; }
  [[nodiscard]] ThreadPool& threads() const { return *threads_; }
  template <class Body>
  void parallel_for(std::int64_t count, Body&& body) const {
    if (compute()) threads_->parallel_for(count, std::forward<Body>(body));
  }

 private:
  ThreadPool* threads_;
};

/// body(first row, rows) for blocks of rows that do not touch each other's results.
template <class Body>
void for_row_blocks(const PassThreads& pool, std::int64_t rows, Body&& body) {
  pool.parallel_for((rows + kLoopRows - 1) / kLoopRows, [&](std::int64_t block, int) {
    body(block * kLoopRows, std::min(kLoopRows, rows - block * kLoopRows));
  });
}

/// Makes `values` hold `count` elements of any value; what it held is gone.
template <class T>
T* resized(Values<T>& values, std::int64_t count) {
  if (values.capacity() < static_cast<std::size_t>(count)) Values<T>().swap(values);
  values.resize(static_cast<std::size_t>(count));
  return values.data();
}

/// Makes `values` hold `count` zeros.
template <class T>
T* zeros(Values<T>& values, std::int64_t count) {
  T* const data = resized(values, count);
  if (RecordedMemory::current() == nullptr) std::fill_n(data, count, T{0});
  return data;
}

/// The same on all threads, for values of every token.
template <class T>
T* zeros(Values<T>& values, std::int64_t count, const PassThreads& pool) {
  constexpr std::int64_t kChunk = std::int64_t{1} << 16;
  T* const data = resized(values, count);
  pool.parallel_for((count + kChunk - 1) / kChunk, [&](std::int64_t chunk, int) {
    std::fill_n(data + chunk * kChunk, std::min(kChunk, count - chunk * kChunk), T{0});
  });
  return data;
}

/// to += from, where the pass computes.
template <class T>
void add_values(const PassThreads& pool, const T* from, std::int64_t count, T* to) {
  for (std::int64_t i = 0; pool.compute() && i < count; ++i) to[i] += from[i];
}

/// body(item, partial) with a zeroed array of `size` for each item; their sum, in the order of items, is
/// added to `out`.
template <class T, class Body>
void sum_over_items(const PassThreads& pool, std::int64_t items, std::int64_t size, T* out, Body&& body) {
  Values<T> partials;
  zeros(partials, items * size);
  pool.parallel_for(items, [&](std::int64_t item, int) { body(item, partials.data() + item * size); });
  for (std::int64_t item = 0; item < items; ++item)
    add_values(pool, partials.data() + item * size, size, out);
}

/// The same over blocks of rows: body(first row, rows, partial).
template <class T, class Body>
void sum_over_rows(const PassThreads& pool, std::int64_t rows, std::int64_t size, T* out, Body&& body) {
  sum_over_items<T>(pool, (rows + kLoopRows - 1) / kLoopRows, size, out, [&](std::int64_t block, T* partial) {
    body(block * kLoopRows, std::min(kLoopRows, rows - block * kLoopRows), partial);
  });
}

template <class T>
struct RopeTable {
  Values<T> cosine;  ///< [tokens, rotary / 2]
  Values<T> sine;
};

using MixingRows = RowLeaves::Mixing;
using CompressorRows = CompressorWeightsOf<RowLeaves>;
using AttentionRows = AttentionWeightsOf<RowLeaves>;
using MoeRows = MoeWeightsOf<RowLeaves>;
using BlockRows = BlockWeightsOf<RowLeaves>;
using DraftBlockRows = DraftBlockWeightsOf<RowLeaves>;

/// What a pass reads, and where it adds gradients up.
template <class T>
struct PassParameters {
  const Parameters<T>* weights = nullptr;  ///< null: the pass is written down
  Parameters<T>* gradients = nullptr;      ///< rows of the same table; null: it has none, or is written down
};

template <class T>
struct GraphContext {
  /// All must outlive this. Computes the rotation angles of the batch's positions, and which rows of the
  /// Engram tables its n-grams read.
  GraphContext(const ModelConfig& model_config, const TokenTables& tables, const TrainingBatch& documents,
               const PassOptions& options, const PassExecutors& of_operations, PassThreads threads,
               const PassParameters<T>& of_model);

  const ModelConfig& config;
  const TokenTables& token_tables;
  const TrainingBatch& batch;
  const PassExecutors& executors;
  PassThreads pool;
  PassParameters<T> parameters;
  RopeTable<T> ropes[kNumRopeKinds];
  Values<std::int64_t> ngram_rows;       ///< [N, tables, hashes] of each Engram table
  std::vector<TensorRow> engram_tables;  ///< where each is among the weights
  bool dense_attention = false;
  bool plain_residual = false;
  bool indexers_alone = false;  ///< nothing else has gradients
  T indexer_scale = 0;          ///< scales the indexers' loss, a sum over queries; 0: the pass has none
  T balance_scale = 0;          ///< scales the balance loss, a sum over documents; 0: the pass has none
  PassRounding<T> rounding;
  /// How products round, but those of routers, mixings and compressors.
  Operands operands = Operands::kAsStored;

  /// Runs an operation: of floats by the pass's executor, of doubles as it is specified.
  template <class Op>
  void run(const typename Op::template ArgsOf<T>& args) const {
    if constexpr (std::is_same_v<T, float>) {
      executors.exact.execute<Op>(args);
    } else {
      Op::run_f64(args);
    }
  }
  /// Values of a tensor, and of its gradient; null for one that the model has not. Of a pass that is written
  /// down addresses that may not be read or written.
  [[nodiscard]] const T* weight(TensorRow row) const {
    if (!row.exists()) return nullptr;
    if (parameters.weights == nullptr) return reinterpret_cast<const T*>(kNoMemory);
    return parameters.weights->values(row).data();
  }
  [[nodiscard]] T* gradient(TensorRow row) const {
    if (!row.exists()) return nullptr;
    if (parameters.weights == nullptr) return reinterpret_cast<T*>(kNoMemory);
    return parameters.gradients->values(row).data();
  }
  /// Null where the pass computes.
  [[nodiscard]] PassRecord* record() const { return executors.record; }
  /// What follows is of this part of the model, for who writes the pass down.
  void enter(ModelPart part, std::int64_t block) const {
    if (record() != nullptr) record()->enter(part, block, !indexers_alone);
  }
  /// y [rows, out] = x [rows, in] Wᵀ in the pass's arithmetic, a result; `name`: of the weight, for people.
  /// `trains_input`: a gradient of y goes on to x.
  void linear(std::string_view name, std::int64_t rows, std::int64_t in, std::int64_t out, const T* x,
              TensorRow w, T* y, bool trains_input = true) const;
  /// The same in float32 and not rounded, as routers, compressors and heads of indexers take it.
  void linear_f32(std::string_view name, std::int64_t rows, std::int64_t in, std::int64_t out, const T* x,
                  TensorRow w, T* y, bool trains_input = true) const;
  /// The backward of either: dx += dy W, where it is not null, and the gradient of W += dyᵀ x.
  void linear_backward(const LinearShape& shape, const T* x, TensorRow w, const T* dy, T* dx) const {
    if (pool.compute()) baleen::linear_backward<T>(shape, x, weight(w), dy, dx, gradient(w), pool.threads());
  }
  /// y [rows, width] = the norm of x by w [width], or without weight where there is none, a result.
  void norm(std::int64_t rows, std::int64_t width, const T* x, TensorRow w, T* y) const;
  /// The arguments of that norm over some of its rows, for the backward.
  [[nodiscard]] RmsNormArgsOf<T> norm_of(std::int64_t rows, std::int64_t width, const T* x,
                                         TensorRow w) const {
    return {.x = {x, {rows, width}},
            .weight = {weight(w), w.exists() ? static_cast<std::size_t>(width) : 0},
            .eps = static_cast<float>(config.rms_norm_eps),
            .precision = precision()};
  }
  /// The backward of `norm`: dx [rows, width] += and the gradient of w, where it is there.
  void norm_backward(std::int64_t rows, std::int64_t width, const T* x, TensorRow w, const T* dy,
                     T* dx) const;
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

 private:
  static constexpr std::uintptr_t kNoMemory = std::uintptr_t{1} << 56;  ///< where no program has any
};

}  // namespace baleen::graph
