#include "forward/attention.h"

#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "ops/operations.h"

namespace baleen {
namespace {

Activations<3> heads(const Activations<2>& x, std::int64_t num_heads) {
  return x.reshaped<3>({x.extent(0), num_heads, x.extent(1) / num_heads});
}

}  // namespace

AttentionArrays::AttentionArrays(const RankConfig& rank, ActivationArrays& arrays)
    : q_latent(arrays.values(rank.model().q_lora_rank)),
      q_latent_fp8(arrays.fp8(rank.model().q_lora_rank, rank.model().activation_group())),
      q(arrays.values(rank.q_dim())),
      kv(arrays.values(rank.model().head_dim)),
      attended(arrays.values(rank.q_dim())),
      main_kv(arrays.floats(2 * rank.model().head_dim)),
      main_gate(arrays.floats(2 * rank.model().head_dim)),
      index_kv(arrays.floats(2 * rank.model().index_head_dim)),
      index_gate(arrays.floats(2 * rank.model().index_head_dim)),
      index_q(arrays.values(rank.model().index_q_dim())),
      index_weights(arrays.values(rank.model().index_n_heads)),
      selected(arrays.integers(rank.model().index_topk)) {
  const auto& streams = rank.model().streams;
  if (!streams) return;
  latent_kv = arrays.values(rank.model().head_dim);
  latent = arrays.values(rank.model().head_dim);
  index_key = arrays.values(rank.model().index_head_dim);
  candidates = arrays.integers(streams->candidate_topk_blocks);
}

AttentionArrays AttentionArrays::from_row(std::int64_t first) const {
  AttentionArrays rest;
  rest.q_latent = rows_from(q_latent, first);
  rest.q_latent_fp8 = rows_from(q_latent_fp8, first, q_latent.extent(1));
  rest.q = rows_from(q, first);
  rest.kv = rows_from(kv, first);
  rest.attended = rows_from(attended, first);
  rest.main_kv = rows_from(main_kv, first);
  rest.main_gate = rows_from(main_gate, first);
  rest.index_kv = rows_from(index_kv, first);
  rest.index_gate = rows_from(index_gate, first);
  rest.index_q = rows_from(index_q, first);
  rest.index_weights = rows_from(index_weights, first);
  rest.selected = rows_from(selected, first);
  rest.latent_kv = rows_from(latent_kv, first);
  rest.latent = rows_from(latent, first);
  rest.index_key = rows_from(index_key, first);
  if (!candidates.empty()) rest.candidates = rows_from(candidates, first);
  return rest;
}

Attention::Attention(const PassContext& context, ActivationArrays& arrays, MessageArrays& messages,
                     const Activations<2>& sums)
    : context_(context),
      arrays_(AttentionArrays(context.rank, arrays)),
      angles_(context, arrays),
      output_(context, arrays, messages, sums) {}

void Attention::cut(std::int64_t first) {
  arrays_.cut(first);
  angles_.cut(first);
  output_.cut(first);
}

Attention::Call Attention::call(std::int64_t block, const Pass& pass) {
  context_.device.executor().enter_block(block);
  return {.block = block,
          .pass = pass,
          .weights = context_.weights.block(block).attention,
          .shape = context_.rank.attention(block),
          .values = arrays_.of(pass)};
}

void Attention::run(std::int64_t block, const Pass& pass, const HalfBlock& half) {
  const Call call = this->call(block, pass);
  project(call, half);
  norm_and_store(call);
  // Compressors and the indexer begin beside the rotation of the queries, whose result they do not read.
  project_queries(call);
  if (call.makes_entries())
    call.shape.entry_form == EntryForm::kLatent ? store_latents(call) : compress(call);
  if (call.shape.selects()) select(call);
  attend(call);
  output_.run(block, pass, rows(call.values.attended, call.num_attending()), half.f);
}

void Attention::store(std::int64_t block, const Pass& pass, const HalfBlock& half) {
  const Call call = this->call(block, pass);
  BALEEN_CHECK(!call.shape.has_entries());
  const LinearOutput kv{&call.weights.wkv, placed(call, call.values.kv, call.values.kv.extent(1)), false,
                        "wkv"};
  project(call, half, {&kv, 1});
  gather_window_inputs(call);
  context_.device.execute<ops::KvStore>(stored(call));
}

void Attention::store_entries(std::int64_t block, const Pass& pass, const HalfBlock& half) {
  const Call call = this->call(block, pass);
  BALEEN_CHECK(call.shape.makes_entries() && call.shape.entry_form == EntryForm::kLatent);
  project(call, half, entry_products(call));
  gather_entry_inputs(call);
  store_latents(call);
}

Activations<2> Attention::placed(const Call& call, const Activations<2>& all, std::int64_t width) const {
  const RowRange attending = call.attending();
  return rows(all, call.pass.num_rows(), width).slice(attending.begin, attending.end);
}

std::vector<LinearOutput> Attention::entry_products(const Call& call) const {
  const auto& [block, pass, weights, shape, values] = call;
  const CompressorWeights& main = weights.compressor;
  const CompressorWeights& index = weights.indexer.compressor;
  const auto product = [&](const WeightMatrix& weight, const Activations<2>& y, std::string_view name,
                           bool trains_input = true) {
    return LinearOutput{&weight, placed(call, y, weight.rows), call.shape.compresses(), name, trains_input};
  };
  std::vector<LinearOutput> products;
  if (!call.makes_entries()) return products;
  products.push_back(product(main.wkv, entry_inputs(call), "compressor.wkv"));
  if (shape.compresses()) products.push_back(product(main.wgate, values.main_gate, "compressor.wgate"));
  if (shape.pools_keys()) {
    products.push_back(product(index.wkv, values.index_kv, "indexer.wkv", false));
    products.push_back(product(index.wgate, values.index_gate, "indexer.wgate", false));
  }
  return products;
}

void Attention::project(const Call& call, const HalfBlock& half) {
  const auto& [block, pass, weights, shape, values] = call;
  const std::int64_t num_rows = call.num_attending();
  std::vector<LinearOutput> projections{
      {&weights.wq_a, rows(values.q_latent, num_rows), false, "wq_a"},
      {&weights.wkv, placed(call, values.kv, values.kv.extent(1)), false, "wkv"}};
  const std::vector<LinearOutput> products = entry_products(call);
  projections.insert(projections.end(), products.begin(), products.end());
  if (shape.selects()) {
    projections.push_back({&weights.indexer.weights_proj, rows(values.index_weights, num_rows), false,
                           "indexer.weights_proj", false});
  }
  project(call, half, projections);
  gather_window_inputs(call);
  if (call.makes_entries()) gather_entry_inputs(call);
}

const Activations<2>& Attention::entry_inputs(const Call& call) const {
  return call.shape.compresses() ? call.values.main_kv : call.values.latent_kv;
}

void Attention::project(const Call& call, const HalfBlock& half, std::span<const LinearOutput> outputs) {
  const Activations<2> x = rows(half.u, call.num_attending());
  const bool gathers = context_.layout.plan().sequence_parallel;
  if (gathers) gather_rows_of_group(context_, x, call.pass.shares.kept_by_rank());
  context_.device.execute<ops::Linear>({.x = x,
                                        .x_fp8 = gathers ? Fp8Rows() : half.u_fp8,
                                        .outputs = outputs,
                                        .precision = context_.precision});
}

void Attention::gather_window_inputs(const Call& call) {
  if (context_.layout.plan().cp == 1) return;
  gather_rows_of_group(context_, rows(call.values.kv, call.pass.num_rows()), call.pass.shares.kept_by_rank());
}

void Attention::gather_entry_inputs(const Call& call) {
  if (context_.layout.plan().cp == 1) return;
  const auto& [block, pass, weights, shape, values] = call;
  const auto gather = [&](const Activations<2>& x, std::int64_t width) {
    gather_rows_of_group(context_, rows(x, call.pass.num_rows(), width), call.pass.shares.kept_by_rank());
  };
  gather(entry_inputs(call), weights.compressor.wkv.rows);
  if (shape.compresses()) gather(values.main_gate, weights.compressor.wgate.rows);
  if (!shape.pools_keys()) return;
  gather(values.index_kv, weights.indexer.compressor.wkv.rows);
  gather(values.index_gate, weights.indexer.compressor.wgate.rows);
}

void Attention::norm_and_store(const Call& call) {
  const auto& [block, pass, weights, shape, values] = call;
  const Activations<2> latent = rows(values.q_latent, call.num_attending());
  context_.device.execute<ops::RmsNorm, ops::KvStore>({.x = latent,
                                                       .weight = weights.q_norm,
                                                       .eps = context_.norm_eps(),
                                                       .precision = context_.precision,
                                                       .y = latent,
                                                       .y_fp8 = values.q_latent_fp8},
                                                      stored(call));
}

KvStoreArgs Attention::stored(const Call& call) const {
  const auto& [block, pass, weights, shape, values] = call;
  const RowRange all{0, pass.num_rows()};
  return {.kv = rows(values.kv, pass.num_rows()),
          .weight = weights.kv_norm,
          .eps = context_.norm_eps(),
          .cosine = angles_.cosine(shape.rope, pass, all),
          .sine = angles_.sine(shape.rope, pass, all),
          .batch = pass.step.batch,
          .window = context_.cache.window(block)};
}

void Attention::project_queries(const Call& call) {
  const auto& [block, pass, weights, shape, values] = call;
  const std::int64_t num_rows = call.num_attending(), num_heads = context_.rank.num_attention_heads();
  const Activations<2> q = rows(values.q, num_rows);
  const std::array<LinearOutput, 2> outputs{
      {{&weights.wq_b, q, false, "wq_b"},
       {&weights.indexer.wq_b, rows(values.index_q, num_rows), false, "indexer.wq_b", false}}};
  context_.device.execute<ops::Linear>({.x = rows(values.q_latent, num_rows),
                                        .x_fp8 = values.q_latent_fp8,
                                        .outputs = std::span(outputs).first(shape.selects() ? 2 : 1),
                                        .precision = context_.precision});
  const RopeArgs rotation{.x = heads(q, num_heads),
                          .cosine = angles_.cosine(shape.rope, pass, call.attending()),
                          .sine = angles_.sine(shape.rope, pass, call.attending()),
                          .inverse = false,
                          .precision = context_.precision};
  if (!shape.norms_queries) return context_.device.execute<ops::Rope>(rotation);
  const Activations<2> per_head = q.reshaped<2>({num_rows * num_heads, context_.config.head_dim});
  context_.device.execute<ops::RmsNorm, ops::Rope>({.x = per_head,
                                                    .weight = {},
                                                    .eps = context_.norm_eps(),
                                                    .precision = context_.precision,
                                                    .y = per_head,
                                                    .rows_per_token = num_heads},
                                                   rotation);
}

void Attention::compress(const Call& call) {
  const auto& [block, pass, weights, shape, values] = call;
  const auto pool = [&](const CompressorWeights& compressor, const Activations<2>& kv,
                        const Activations<2>& gate, const CompressorState& state,
                        const CompressorOverlap& overlap, const LatentPool& latent,
                        const IndexKeyPool& index_key) {
    context_.device.execute<ops::Compressor>({.kv = rows(kv, call.pass.num_rows(), compressor.wkv.rows),
                                              .gate = rows(gate, call.pass.num_rows(), compressor.wgate.rows),
                                              .ape = compressor.ape,
                                              .norm_weight = compressor.norm,
                                              .eps = context_.norm_eps(),
                                              .frequencies = angles_.frequencies(call.shape.rope),
                                              .ratio = static_cast<int>(call.shape.ratio),
                                              .precision = context_.precision,
                                              .batch = call.pass.step.batch,
                                              .state = state,
                                              .overlap = overlap,
                                              .latent = latent,
                                              .index_key = index_key});
  };
  const KvCache& cache = context_.cache;
  pool(weights.compressor, values.main_kv, values.main_gate, cache.main_state(block),
       cache.main_overlap(block), cache.compressed(block), {});
  if (shape.pools_keys()) {
    pool(weights.indexer.compressor, values.index_kv, values.index_gate, cache.index_state(block),
         cache.index_overlap(block), {}, cache.index_keys(block));
  }
}

void Attention::store_latents(const Call& call) {
  const auto& [block, pass, weights, shape, values] = call;
  const std::int64_t num_rows = pass.num_rows();
  const int ratio = static_cast<int>(shape.ratio);
  const Activations<2> latent = rows(values.latent, num_rows), key = rows(values.index_key, num_rows);
  const KvCache& cache = context_.cache;
  context_.device.execute<ops::Latent>(
      {.kv = rows(entry_inputs(call), num_rows, shape.head_dim),
       .gate = shape.compresses() ? rows(values.main_gate, num_rows, shape.head_dim) : Activations<2>(),
       .norm_weight = weights.compressor.norm,
       .eps = context_.norm_eps(),
       .ratio = ratio,
       .precision = context_.precision,
       .batch = pass.step.batch,
       .state = shape.compresses() ? cache.main_state(block) : CompressorState(),
       .latent = latent});
  // Of the latent as it is: its rotation comes with the entry.
  const LinearOutput wk{&weights.indexer.wk, key, false, "indexer.wk", false};
  context_.device.execute<ops::Linear>({.x = latent, .outputs = {&wk, 1}, .precision = context_.precision});
  context_.device.execute<ops::EntryStore>({.latent = latent,
                                            .key = key,
                                            .key_norm = weights.indexer.k_norm,
                                            .eps = context_.norm_eps(),
                                            .frequencies = angles_.frequencies(shape.rope),
                                            .ratio = ratio,
                                            .batch = pass.step.batch,
                                            .entries = cache.compressed(block),
                                            .index_keys = cache.index_keys(block)});
}

IndexBlocks Attention::blocks_of(const Call& call) {
  const auto& candidates = call.shape.candidates;
  if (!candidates) return {};
  const View<std::int32_t, 2> blocks = rows(call.values.candidates, call.num_attending());
  if (candidates->source == call.block)
    return {.size = candidates->block_size, .chosen = blocks, .given = {}};
  return {.size = candidates->block_size, .chosen = {}, .given = blocks};
}

void Attention::select(const Call& call) {
  const auto& [block, pass, weights, shape, values] = call;
  const std::int64_t num_rows = call.num_attending();
  const BatchPart& part = pass.shares.attending_batch();
  context_.device.execute<ops::Indexer>({.q = heads(rows(values.index_q, num_rows), shape.index_heads),
                                         .head_weights = rows(values.index_weights, num_rows),
                                         .cosine = angles_.cosine(shape.rope, pass, call.attending()),
                                         .sine = angles_.sine(shape.rope, pass, call.attending()),
                                         .precision = context_.precision,
                                         .batch = part.batch,
                                         .first_row = part.first_row,
                                         .keys = context_.cache.index_keys(shape.entries_of(block)),
                                         .selected = rows(values.selected, num_rows),
                                         .ratio = static_cast<int>(shape.ratio),
                                         .hadamard = shape.entry_form == EntryForm::kPooled,
                                         .blocks = blocks_of(call)});
}

void Attention::attend(const Call& call) {
  const auto& [block, pass, weights, shape, values] = call;
  const std::int64_t num_rows = call.num_attending(), num_heads = context_.rank.num_attention_heads();
  const BatchPart& part = pass.shares.attending_batch();
  const Activations<3> attended = heads(rows(values.attended, num_rows), num_heads);
  context_.device.execute<ops::SparseAttention, ops::Rope>(
      {.q = heads(rows(values.q, num_rows), num_heads),
       .batch = part.batch,
       .first_row = part.first_row,
       .first_slice = part.first_slice,
       .window = context_.cache.window(block),
       .compressed = context_.cache.compressed(shape.entries_of(block)),
       .ratio = static_cast<int>(shape.ratio),
       .selected = shape.indexed ? rows(values.selected, num_rows) : View<const std::int32_t, 2>(),
       .sink = weights.sink,
       .window_tokens = shape.window_tokens,
       .scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim)),
       .precision = context_.precision,
       .out = attended},
      {.x = attended,
       .cosine = angles_.cosine(shape.rope, pass, call.attending()),
       .sine = angles_.sine(shape.rope, pass, call.attending()),
       .inverse = true,
       .precision = context_.precision});
}

}  // namespace baleen
