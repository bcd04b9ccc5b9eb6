// The first half of a block but for its output projection: projections, compressors, the indexer's choice,
// attention.

#include <array>
#include <cmath>

#include "forward/forward.h"
#include "ops/operations.h"

namespace baleen {
namespace {

std::size_t angles_of(RopeKind kind) { return static_cast<std::size_t>(kind); }

Activations<3> heads(const Activations<2>& x, std::int64_t num_heads) {
  return x.reshaped<3>({x.extent(0), num_heads, x.extent(1) / num_heads});
}

}  // namespace

void Forward::project_queries(std::int64_t block, const LayerAttention& shape) {
  const AttentionWeights& weights = weights_.block(block).attention;
  const BlockValues& values = buffers_.block;
  const float eps = static_cast<float>(config_.rms_norm_eps);
  const auto [begin, end] = attending_;
  const std::int64_t num_rows = attending_.size();
  const Activations<2> latent = rows(values.q_latent, num_rows);
  const Activations<2> up = rows(values.q_up, num_rows), q = rows(values.q, num_rows);
  const std::array<LinearOutput, 2> outputs{
      {{&weights.wq_b, up, false, "wq_b"},
       {&weights.indexer.wq_b, rows(values.index_q, num_rows), false, "indexer.wq_b", false}}};
  device_.execute<ops::Linear>({.x = latent,
                                .x_fp8 = values.q_latent_fp8,
                                .outputs = std::span(outputs).first(shape.indexed ? 2 : 1),
                                .precision = precision_});
  const std::array<std::int64_t, 2> per_head{num_rows * config_.num_attention_heads, config_.head_dim};
  device_.execute<ops::RmsNorm, ops::Rope>(
      {.x = up.reshaped<2>(per_head),
       .weight = {},
       .eps = eps,
       .precision = precision_,
       .y = q.reshaped<2>(per_head),
       .rows_per_token = config_.num_attention_heads},
      {.x = heads(q, config_.num_attention_heads),
       .cosine = buffers_.cosine[angles_of(shape.rope)].slice(begin, end),
       .sine = buffers_.sine[angles_of(shape.rope)].slice(begin, end),
       .inverse = false,
       .precision = precision_});
}

void Forward::compress(std::int64_t block, const LayerAttention& shape, const Step& step) {
  const AttentionWeights& weights = weights_.block(block).attention;
  const BlockValues& values = buffers_.block;
  const std::int64_t num_rows = step.rows.num_rows;
  // Settled behind the rotation of queries, of which a rank that attends with no row has none.
  const auto pool = [&](const CompressorWeights& compressor, const Activations<2>& kv,
                        const Activations<2>& gate, const CompressorState& state,
                        const CompressorOverlap& overlap, const LatentPool& latent,
                        const IndexKeyPool& index_key) {
    device_.execute<ops::Compressor>({.kv = rows(kv, num_rows, compressor.wkv.rows),
                                      .gate = rows(gate, num_rows, compressor.wgate.rows),
                                      .ape = compressor.ape,
                                      .norm_weight = compressor.norm,
                                      .eps = static_cast<float>(config_.rms_norm_eps),
                                      .frequencies = frequencies(shape.rope),
                                      .ratio = static_cast<int>(shape.ratio),
                                      .precision = precision_,
                                      .rows_are_settled = attending_.size() > 0,
                                      .batch = step.batch,
                                      .state = state,
                                      .overlap = overlap,
                                      .latent = latent,
                                      .index_key = index_key});
  };
  pool(weights.compressor, values.main_kv, values.main_gate, cache_.main_state(block),
       cache_.main_overlap(block), cache_.compressed(block), {});
  if (shape.indexed) {
    pool(weights.indexer.compressor, values.index_kv, values.index_gate, cache_.index_state(block),
         cache_.index_overlap(block), {}, cache_.index_keys(block));
  }
}

void Forward::project(std::int64_t block, const LayerAttention& shape) {
  const AttentionWeights& weights = weights_.block(block).attention;
  const BlockValues& values = buffers_.block;
  const std::int64_t num_rows = attending_.size();
  const Activations<2> x = rows(values.attention.u, num_rows);
  const CompressorWeights& main = weights.compressor;
  const CompressorWeights& index = weights.indexer.compressor;
  // What the cache is made from comes to the place of its row in the batch.
  const auto placed = [&](const Activations<2>& all, std::int64_t width) {
    return rows(all, num_rows_, width).slice(attending_.begin, attending_.end);
  };
  const std::array<LinearOutput, 7> projections{
      {{&weights.wq_a, rows(values.q_down, num_rows), false, "wq_a"},
       {&weights.wkv, placed(values.kv, values.kv.extent(1)), false, "wkv"},
       {&main.wkv, placed(values.main_kv, main.wkv.rows), true, "compressor.wkv"},
       {&main.wgate, placed(values.main_gate, main.wgate.rows), true, "compressor.wgate"},
       {&index.wkv, placed(values.index_kv, index.wkv.rows), true, "indexer.wkv", false},
       {&index.wgate, placed(values.index_gate, index.wgate.rows), true, "indexer.wgate", false},
       {&weights.indexer.weights_proj, rows(values.index_weights, num_rows), false, "indexer.weights_proj",
        false}}};
  const std::size_t num_projections = shape.indexed ? 7 : shape.compresses() ? 4 : 2;
  const bool gathers = layout_.plan().sequence_parallel;
  if (gathers) gather_rows_of(x, kept_rows_);
  device_.execute<ops::Linear>({.x = x,
                                .x_fp8 = gathers ? Fp8Rows() : values.attention.u_fp8,
                                .outputs = std::span(projections).first(num_projections),
                                .precision = precision_});
  if (layout_.plan().cp > 1) gather_cache_inputs(block, shape);
}

void Forward::gather_cache_inputs(std::int64_t block, const LayerAttention& shape) {
  const AttentionWeights& weights = weights_.block(block).attention;
  const BlockValues& values = buffers_.block;
  const auto gather = [&](const Activations<2>& x, std::int64_t width) {
    gather_rows_of(rows(x, num_rows_, width), kept_rows_);
  };
  gather(values.kv, values.kv.extent(1));
  if (!shape.compresses()) return;
  gather(values.main_kv, weights.compressor.wkv.rows);
  gather(values.main_gate, weights.compressor.wgate.rows);
  if (!shape.indexed) return;
  gather(values.index_kv, weights.indexer.compressor.wkv.rows);
  gather(values.index_gate, weights.indexer.compressor.wgate.rows);
}

void Forward::attention(std::int64_t block, const Step& step) {
  const AttentionWeights& weights = weights_.block(block).attention;
  const BlockValues& values = buffers_.block;
  const LayerAttention shape = config_.attention(block);
  const std::size_t angles = angles_of(shape.rope);
  const auto [begin, end] = attending_;
  const std::int64_t num_rows = attending_.size();
  const ConstActivations<2> cosine = buffers_.cosine[angles].slice(begin, end);
  const ConstActivations<2> sine = buffers_.sine[angles].slice(begin, end);
  device_.executor().enter_block(block);
  project(block, shape);

  const float eps = static_cast<float>(config_.rms_norm_eps);
  device_.execute<ops::RmsNorm, ops::KvStore>({.x = rows(values.q_down, num_rows),
                                               .weight = weights.q_norm,
                                               .eps = eps,
                                               .precision = precision_,
                                               .y = rows(values.q_latent, num_rows),
                                               .y_fp8 = values.q_latent_fp8},
                                              {.kv = rows(values.kv, num_rows_),
                                               .weight = weights.kv_norm,
                                               .eps = eps,
                                               .cosine = rows(buffers_.cosine[angles], num_rows_),
                                               .sine = rows(buffers_.sine[angles], num_rows_),
                                               .batch = step.batch,
                                               .window = cache_.window(block)});
  // Compressors and the indexer begin beside the rotation of the queries, whose result they do not read.
  project_queries(block, shape);
  if (shape.compresses()) compress(block, shape, step);
  const View<std::int32_t, 2> selected = rows(values.selected, num_rows);
  if (shape.indexed) {
    device_.execute<ops::Indexer>({.q = heads(rows(values.index_q, num_rows), shape.index_heads),
                                   .head_weights = rows(values.index_weights, num_rows),
                                   .cosine = cosine,
                                   .sine = sine,
                                   .precision = precision_,
                                   .queries_are_settled = true,
                                   .batch = attending_batch_.batch,
                                   .first_row = attending_batch_.first_row,
                                   .keys = cache_.index_keys(block),
                                   .selected = selected});
  }
  const Activations<2> attended = rows(values.attended, num_rows);
  device_.execute<ops::SparseAttention, ops::Rope>(
      {.q = heads(rows(values.q, num_rows), config_.num_attention_heads),
       .batch = attending_batch_.batch,
       .first_row = attending_batch_.first_row,
       .first_slice = attending_batch_.first_slice,
       .window = cache_.window(block),
       .compressed = cache_.compressed(block),
       .ratio = static_cast<int>(shape.ratio),
       .selected = shape.indexed ? selected : View<const std::int32_t, 2>(),
       .sink = weights.sink,
       .window_tokens = shape.window_tokens,
       .scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim)),
       .precision = precision_,
       .out = heads(attended, config_.num_attention_heads)},
      {.x = heads(attended, config_.num_attention_heads),
       .cosine = cosine,
       .sine = sine,
       .inverse = true,
       .precision = precision_});
  project_output(block);
}

}  // namespace baleen
