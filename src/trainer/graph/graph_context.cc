#include "trainer/graph/graph_context.h"

#include "ops/linear/linear.h"
#include "ops/rms_norm/rms_norm_backward.h"
#include "ops/rope/rope_frequencies.h"

namespace baleen::graph {
namespace {

template <class T>
RopeTable<T> rope_table(const TrainingBatch& batch, const std::vector<float>& frequencies,
                        const PassThreads& pool) {
  const auto pairs = static_cast<std::int64_t>(frequencies.size());
  RopeTable<T> table;
  zeros(table.cosine, batch.num_tokens() * pairs);
  zeros(table.sine, batch.num_tokens() * pairs);
  pool.parallel_for(static_cast<std::int64_t>(batch.documents.size()), [&](std::int64_t i, int) {
    const TrainingBatch::Document& document = batch.documents[static_cast<std::size_t>(i)];
    std::vector<float> cosine(frequencies.size());
    std::vector<float> sine(frequencies.size());
    for (std::int64_t row = document.begin; row < document.end; ++row) {
      rope_angles(frequencies, row - document.begin, cosine, sine);
      std::copy(cosine.begin(), cosine.end(), table.cosine.begin() + row * pairs);
      std::copy(sine.begin(), sine.end(), table.sine.begin() + row * pairs);
    }
  });
  return table;
}

/// Of each document's tokens.
void find_ngrams(const EngramHashes& hashes, const TrainingBatch& batch, const PassThreads& pool,
                 Values<std::int64_t>& rows) {
  const std::int64_t tables = hashes.num_tables(), each = hashes.num_hashes(), all = tables * each;
  std::int64_t* const to = resized(rows, batch.num_tokens() * all);
  pool.parallel_for(static_cast<std::int64_t>(batch.documents.size()), [&](std::int64_t i, int) {
    const TrainingBatch::Document& document = batch.documents[static_cast<std::size_t>(i)];
    const std::int64_t count = document.end - document.begin;
    const EngramRun run{
        .before = {},
        .ids = std::span(batch.tokens)
                   .subspan(static_cast<std::size_t>(document.begin), static_cast<std::size_t>(count))};
    hashes.find({&run, 1}, {to + document.begin * all, {count, tables, each}});
  });
}

/// Of each of `count` summands of a mean that weighs `weight`.
template <class T>
T share_of(double weight, std::int64_t count) {
  return static_cast<T>(weight / static_cast<double>(std::max<std::int64_t>(count, 1)));
}

}  // namespace

template <class T>
GraphContext<T>::GraphContext(const ModelConfig& model_config, const TokenTables& tables,
                              const TrainingBatch& documents, const PassOptions& options,
                              const PassExecutors& of_operations, PassThreads threads,
                              const PassParameters<T>& of_model)
    : config(model_config),
      token_tables(tables),
      batch(documents),
      executors(of_operations),
      pool(threads),
      parameters(of_model),
      dense_attention(options.dense_attention),
      plain_residual(options.plain_residual),
      indexers_alone(options.indexers_alone),
      indexer_scale(share_of<T>(options.indexer_weight, documents.num_global_tokens)),
      balance_scale(share_of<T>(options.balance_weight, documents.num_global_documents)),
      rounding(model_config, options.rounds_as_released),
      operands(options.bf16_products ? Operands::kBf16 : Operands::kAsStored) {
  const RopeScaling& scaling = config.rope_scaling;
  const YarnParams yarn{static_cast<float>(scaling.factor), scaling.original_max_position_embeddings,
                        static_cast<float>(scaling.beta_fast), static_cast<float>(scaling.beta_slow)};
  const bool scales = options.scaled_rope && scaling.original_max_position_embeddings > 0;
  const auto rotary = static_cast<int>(config.qk_rope_head_dim);
  ropes[static_cast<int>(RopeKind::kPlain)] =
      rope_table<T>(batch, rope_frequencies(static_cast<float>(config.rope_theta), rotary, nullptr), pool);
  ropes[static_cast<int>(RopeKind::kScaled)] = rope_table<T>(
      batch,
      rope_frequencies(static_cast<float>(config.compress_rope_theta), rotary, scales ? &yarn : nullptr),
      pool);
  if (!config.engram) return;
  if (parameters.weights == nullptr) {
    engram_tables.assign(config.engram->layer_ids.size(), TensorRow{0});  // any that exists
    return;
  }
  engram_tables = engram_table_rows(parameters.weights->table());
  find_ngrams(*tables.ngrams, batch, pool, ngram_rows);
}

namespace {

void run_linear(Executor& executor, std::string_view name, bool keep_f32, Precision precision,
                std::int64_t rows, std::int64_t in, std::int64_t out, const float* x, const float* w,
                float* y, bool trains_input) {
  const WeightMatrix weight = float_matrix(out, in, w);
  const LinearOutput output{&weight, {y, {rows, out}}, keep_f32, name, trains_input};
  executor.execute<ops::Linear>({.x = {x, {rows, in}}, .outputs = {&output, 1}, .precision = precision});
}

}  // namespace

template <class T>
void GraphContext<T>::linear(std::string_view name, std::int64_t rows, std::int64_t in, std::int64_t out,
                             const T* x, TensorRow w, T* y, bool trains_input) const {
  if constexpr (std::is_same_v<T, float>) {
    run_linear(executors.products, name, false, precision(), rows, in, out, x, weight(w), y, trains_input);
  } else {
    dense_linear<T>(linear_shape(rows, in, out), x, weight(w), y, pool.threads());
    round_results(rows, out, y);
  }
}

template <class T>
void GraphContext<T>::linear_f32(std::string_view name, std::int64_t rows, std::int64_t in, std::int64_t out,
                                 const T* x, TensorRow w, T* y, bool trains_input) const {
  if constexpr (std::is_same_v<T, float>) {
    run_linear(executors.exact, name, true, precision(), rows, in, out, x, weight(w), y, trains_input);
  } else {
    dense_linear<T>({.rows = rows, .in = in, .out = out}, x, weight(w), y, pool.threads());
  }
}

template <class T>
void GraphContext<T>::norm(std::int64_t rows, std::int64_t width, const T* x, TensorRow w, T* y) const {
  RmsNormArgsOf<T> args = norm_of(rows, width, x, w);
  args.y = {y, {rows, width}};
  run<ops::RmsNorm>(args);
}

template <class T>
void GraphContext<T>::norm_backward(std::int64_t rows, std::int64_t width, const T* x, TensorRow w,
                                    const T* dy, T* dx) const {
  sum_over_rows<T>(pool, rows, w.exists() ? width : 0, gradient(w),
                   [&](std::int64_t row, std::int64_t count, T* partial) {
                     rms_norm_backward(norm_of(count, width, x + row * width, w), dy + row * width,
                                       dx + row * width, partial);
                   });
}

template <class T>
void GraphContext<T>::round_results(std::int64_t rows, std::int64_t width, T* x) const {
  if (!rounding.active()) return;
  for_row_blocks(pool, rows, [&](std::int64_t row, std::int64_t count) {
    rounding.result(count, width, x + row * width);
  });
}

template <class T>
void GraphContext<T>::round_inputs(WeightFormat format, std::int64_t rows, std::int64_t width, T* x) const {
  if (!rounding.rounds_inputs(format)) return;
  for_row_blocks(pool, rows, [&](std::int64_t row, std::int64_t count) {
    rounding.input(format, count, width, x + row * width);
  });
}

template <class T>
const T* GraphContext<T>::rounded_input(WeightFormat format, const T* x, Values<T>& rounded) const {
  if (!rounding.rounds_inputs(format)) return x;
  resized(rounded, tokens() * config.hidden_size);
  for_row_blocks(pool, tokens(), [&](std::int64_t row, std::int64_t rows) {
    std::copy_n(x + row * config.hidden_size, rows * config.hidden_size,
                rounded.data() + row * config.hidden_size);
  });
  round_inputs(format, tokens(), config.hidden_size, rounded.data());
  return rounded.data();
}

template struct GraphContext<float>;
template struct GraphContext<double>;

}  // namespace baleen::graph
