#include "trainer/graph/indexer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "numeric/top_k_indices.h"
#include "ops/indexer_loss/index_scores.h"
#include "ops/indexer_loss/indexer_loss.h"
#include "ops/linear/linear_backward.h"
#include "trainer/graph/compressor.h"
#include "trainer/graph/latents.h"
#include "trainer/graph/rotation.h"

namespace baleen::graph {
namespace {

/// The entries of one document and where its matrices [tokens, entries] begin.
struct DocumentEntries {
  std::int64_t first_token, tokens, first_entry, entries, place;

  template <class T>
  DocumentEntries(const GraphContext<T>& context, const AttentionActivations<T>& a, std::int64_t i)
      : first_token(context.document(i).begin),
        tokens(context.document(i).end - first_token),
        first_entry(a.entry_begin[static_cast<std::size_t>(i)]),
        entries(a.entry_begin[static_cast<std::size_t>(i) + 1] - first_entry),
        place(a.visible_begin[static_cast<std::size_t>(i)]) {}
};

/// body(i, document) for the documents that have entries.
template <class T, class Body>
void for_documents(const GraphContext<T>& context, const AttentionActivations<T>& a, Body&& body) {
  context.pool.parallel_for(context.documents(), [&](std::int64_t i, int) {
    const DocumentEntries document(context, a, i);
    if (document.entries > 0) body(i, document);
  });
}

bool has_latents(const LayerAttention& shape) { return shape.entry_form == EntryForm::kLatent; }

/// [M, c_I]
template <class T>
const T* index_keys(const LayerAttention& shape, std::int64_t block, SharedOfBlocks<T>& shared,
                    const AttentionActivations<T>& a) {
  return has_latents(shape) ? shared[static_cast<std::size_t>(shape.entries_of(block))].key.data()
                            : a.index_compressor.entry.data();
}

/// `keys`: of all documents.
template <class T>
IndexScoreValues<T> score_values(const GraphContext<T>& context, const LayerAttention& shape,
                                 const DocumentEntries& document, const T* keys,
                                 const AttentionActivations<T>& a) {
  const std::int64_t heads = shape.index_heads, width = shape.index_dim;
  return {.tokens = document.tokens,
          .heads = heads,
          .width = width,
          .entries = document.entries,
          .ratio = shape.ratio,
          .q = a.index_q.data() + document.first_token * heads * width,
          .k = keys + document.first_entry * width,
          .weight = a.index_weights.data() + document.first_token * heads,
          .operands = context.operands};
}

/// The constant is part of the loss alone: it changes no order of scores.
template <class T>
IndexerLossValues<T> loss_values(const LayerAttention& shape, const DocumentEntries& document,
                                 const AttentionActivations<T>& a) {
  return {.tokens = document.tokens,
          .entries = document.entries,
          .visible = a.visible.data() + document.place,
          .share = a.entry_share.data() + document.place,
          .score = a.index_score.data() + document.place,
          .scale = T{1} / std::sqrt(static_cast<T>(shape.index_dim * shape.index_heads))};
}

/// Whether a document has more entries than a query may select, or more than are candidates.
template <class T>
bool leaves_out(const LayerAttention& shape, const AttentionActivations<T>& a) {
  std::int64_t most = shape.top_k;
  if (shape.candidates) most = std::min(most, shape.candidates->count * shape.candidates->block_size);
  for (std::size_t i = 0; i + 1 < a.entry_begin.size(); ++i) {
    if (a.entry_begin[i + 1] - a.entry_begin[i] > most) return true;
  }
  return false;
}

/// Marks the entries of the best blocks of one query, of which all `scores` are complete entries': blocks by
/// their best entry, that of the newest entry always.
template <class T>
void mark_candidates(const CandidateBlocks& blocks, std::span<const T> scores, std::uint8_t* marks) {
  const auto complete = static_cast<std::int64_t>(scores.size()), size = blocks.block_size;
  if (complete == 0) return;
  const std::int64_t newest = (complete - 1) / size;
  std::vector<T> best(static_cast<std::size_t>(newest), -std::numeric_limits<T>::infinity());
  for (std::int64_t entry = 0; entry < newest * size; ++entry) {
    T& most = best[static_cast<std::size_t>(entry / size)];
    most = std::max(most, scores[static_cast<std::size_t>(entry)]);
  }
  std::vector<std::int32_t> chosen =
      top_k_indices(std::span<const T>(best), std::min(newest, blocks.count - 1));
  chosen.push_back(static_cast<std::int32_t>(newest));
  for (const std::int32_t block : chosen)
    std::fill(marks + block * size, marks + std::min((block + 1) * size, complete), std::uint8_t{1});
}

/// Marks the `most` entries of one query that score best, all where there are no more; of `candidates` alone
/// where they are not null.
template <class T>
void mark_selected(std::span<const T> scores, const std::uint8_t* candidates, std::int64_t most,
                   std::uint8_t* marks) {
  const auto complete = static_cast<std::int64_t>(scores.size());
  if (candidates == nullptr) {
    if (complete <= most) return static_cast<void>(std::fill(marks, marks + complete, std::uint8_t{1}));
    for (const std::int32_t entry : top_k_indices(scores, most)) marks[entry] = 1;
    return;
  }
  std::vector<std::int32_t> entries;
  std::vector<T> of_entries;
  for (std::size_t entry = 0; entry < scores.size(); ++entry) {
    if (candidates[entry] == 0) continue;
    entries.push_back(static_cast<std::int32_t>(entry));
    of_entries.push_back(scores[entry]);
  }
  const auto count = std::min(most, static_cast<std::int64_t>(entries.size()));
  for (const std::int32_t place : top_k_indices(std::span<const T>(of_entries), count))
    marks[entries[static_cast<std::size_t>(place)]] = 1;
}

template <class T>
void note_scores(const GraphContext<T>& c, const LayerAttention& shape, const T* keys,
                 const AttentionActivations<T>& a) {
  if constexpr (std::is_same_v<T, float>) {
    for (std::int64_t i = 0; i < c.documents(); ++i) {
      const DocumentEntries document(c, a, i);
      if (document.entries == 0) continue;
      const IndexScoreValues<float> values = score_values(c, shape, document, keys, a);
      c.record()->add("index_scores", "", document.tokens, index_scores_cost(values),
                      index_scores_backward_cost(values));
    }
  }
}

/// The indexers learn from it, whatever else does.
template <class T>
void note_loss(const GraphContext<T>& c, const LayerAttention& shape, const AttentionActivations<T>& a) {
  if constexpr (std::is_same_v<T, float>) {
    const RecordedTraining training(c.record(), true);
    for (std::int64_t i = 0; i < c.documents(); ++i) {
      const IndexerLossValues<float> values = loss_values(shape, DocumentEntries(c, a, i), a);
      c.record()->add("indexer_loss", "", values.tokens, indexer_loss_cost(values),
                      indexer_loss_backward_cost(values));
    }
  }
}

/// a.index_score. The Hadamard transform of both sides, which inference has, changes no score; where the pass
/// rounds, it is in q and k.
template <class T>
void score_entries(const GraphContext<T>& c, std::int64_t block, const LayerAttention& shape,
                   const AttentionRows& w, const T* x, SharedOfBlocks<T>& shared,
                   AttentionActivations<T>& a) {
  const std::int64_t n = c.tokens(), heads = shape.index_heads, width = heads * shape.index_dim;
  c.linear("indexer.wq_b", n, c.config.q_lora_rank, width, a.q_latent_normed.data(), w.indexer.wq_b,
           resized(a.index_q, n * width), false);
  rotate_result(c, shape, heads, shape.index_dim, false, a.index_q.data());
  for_row_blocks(c.pool, n * heads, [&](std::int64_t row, std::int64_t rows) {
    c.rounding.index_vectors(shape.entry_form, rows, a.index_q.data() + row * shape.index_dim);
  });
  c.linear_f32("indexer.weights_proj", n, c.config.hidden_size, heads, x, w.indexer.weights_proj,
               resized(a.index_weights, n * heads), false);
  for_row_blocks(c.pool, n, [&](std::int64_t row, std::int64_t rows) {
    c.rounding.index_weights(rows, a.index_weights.data() + row * heads);
  });
  if (!has_latents(shape)) {
    compressor_forward(c, shape, EntryKind::kIndexKey, w.indexer.compressor, x, a.entry_begin,
                       a.index_compressor);
  }
  const T* const keys = index_keys(shape, block, shared, a);
  resized(a.index_score, a.visible_begin.back());
  if (c.record() != nullptr) note_scores(c, shape, keys, a);
  for_documents(c, a, [&](std::int64_t, const DocumentEntries& document) {
    index_scores_forward(score_values(c, shape, document, keys, a), a.index_score.data() + document.place);
  });
}

}  // namespace

template <class T>
void select_entries(const GraphContext<T>& context, std::int64_t block, const AttentionRows& w, const T* x,
                    SharedOfBlocks<T>& shared, AttentionActivations<T>& a) {
  const LayerAttention shape = context.config.attention(block);
  zeros(a.visible, a.visible_begin.back());
  SharedActivations<T>& made_here = shared[static_cast<std::size_t>(block)];
  if (shape.index_source) {
    const Values<std::uint8_t>& selected = shared[static_cast<std::size_t>(*shape.index_source)].visible;
    if (context.pool.compute()) std::ranges::copy(selected, a.visible.begin());
    return;
  }
  const bool chooses = shape.indexed && !context.dense_attention && leaves_out(shape, a);
  if (chooses || has_indexer_loss(context, shape)) {
    const RecordedTraining training(context.record(), has_indexer_loss(context, shape));
    score_entries(context, block, shape, w, x, shared, a);
  }
  const bool makes_candidates = chooses && shape.candidates && shape.candidates->source == block;
  const bool has_candidates = chooses && shape.candidates && !makes_candidates;
  if (makes_candidates) zeros(made_here.candidates, a.visible_begin.back());
  for_documents(context, a, [&](std::int64_t, const DocumentEntries& document) {
    for (std::int64_t t = 0; t < document.tokens; ++t) {
      const std::int64_t complete = (t + 1) / shape.ratio;
      const std::int64_t row = document.place + t * document.entries;
      std::uint8_t* marks = a.visible.data() + row;
      if (!chooses) {
        std::fill(marks, marks + complete, std::uint8_t{1});
        continue;
      }
      const std::span<const T> scores(a.index_score.data() + row, static_cast<std::size_t>(complete));
      if (makes_candidates) mark_candidates(*shape.candidates, scores, made_here.candidates.data() + row);
      const std::uint8_t* candidates = nullptr;
      if (has_candidates)
        candidates = shared[static_cast<std::size_t>(shape.candidates->source)].candidates.data() + row;
      mark_selected(scores, candidates, shape.top_k, marks);
    }
  });
  if (!has_latents(shape)) return;
  resized(made_here.visible, a.visible_begin.back());
  if (context.pool.compute()) std::ranges::copy(a.visible, made_here.visible.begin());
}

template <class T>
void indexer_loss(const GraphContext<T>& context, const LayerAttention& shape, AttentionActivations<T>& a) {
  if (context.record() != nullptr) note_loss(context, shape, a);
  std::vector<double> losses(static_cast<std::size_t>(context.documents()));
  for_documents(context, a, [&](std::int64_t i, const DocumentEntries& document) {
    losses[static_cast<std::size_t>(i)] = indexer_loss_forward(loss_values(shape, document, a));
  });
  a.indexer_loss = std::accumulate(losses.begin(), losses.end(), 0.0);
}

template <class T>
void indexer_backward(const GraphContext<T>& c, std::int64_t block, const AttentionRows& w, const T* x,
                      SharedOfBlocks<T>& shared, const AttentionActivations<T>& a) {
  const LayerAttention shape = c.config.attention(block);
  const std::int64_t n = c.tokens(), heads = shape.index_heads, width = heads * shape.index_dim;
  Values<T> dq;
  Values<T> dweights;
  Values<T> own_dkey;
  zeros(dq, n * width, c.pool);
  zeros(dweights, n * heads);
  const std::int64_t key_values = a.entry_begin.back() * shape.index_dim;
  SharedActivations<T>& made_here = shared[static_cast<std::size_t>(block)];
  T* const dkey = zeros(has_latents(shape) ? made_here.dkey : own_dkey, key_values);
  const T* const keys = index_keys(shape, block, shared, a);
  if (c.record() != nullptr) {
    std::int64_t most = 0;  // gradients of a document's scores
    for (std::size_t i = 0; i + 1 < a.visible_begin.size(); ++i)
      most = std::max(most, a.visible_begin[i + 1] - a.visible_begin[i]);
    c.record()->scratch(c.documents(), most * static_cast<std::int64_t>(sizeof(T)));
  }
  for_documents(c, a, [&](std::int64_t, const DocumentEntries& document) {
    Values<T> dscore(static_cast<std::size_t>(document.tokens * document.entries));
    indexer_loss_backward(loss_values(shape, document, a), c.indexer_scale, dscore.data());
    index_scores_backward(
        score_values(c, shape, document, keys, a), dscore.data(), dq.data() + document.first_token * width,
        dkey + document.first_entry * shape.index_dim, dweights.data() + document.first_token * heads);
  });
  for_row_blocks(c.pool, n * heads, [&](std::int64_t row, std::int64_t rows) {
    c.rounding.index_vectors_backward(shape.entry_form, rows, dq.data() + row * shape.index_dim);
  });
  rotate_gradient(c, shape, heads, shape.index_dim, false, dq.data());
  T* const no_dx = nullptr;
  c.linear_backward(c.linear_shape(n, c.config.q_lora_rank, width), a.q_latent_normed.data(), w.indexer.wq_b,
                    dq.data(), no_dx);
  c.linear_backward({n, c.config.hidden_size, heads}, x, w.indexer.weights_proj, dweights.data(), no_dx);
  if (has_latents(shape)) return;
  compressor_backward(c, shape, EntryKind::kIndexKey, w.indexer.compressor, x, a.entry_begin,
                      a.index_compressor, own_dkey, no_dx);
}

template void select_entries(const GraphContext<float>&, std::int64_t, const AttentionRows&, const float*,
                             SharedOfBlocks<float>&, AttentionActivations<float>&);
template void select_entries(const GraphContext<double>&, std::int64_t, const AttentionRows&, const double*,
                             SharedOfBlocks<double>&, AttentionActivations<double>&);
template void indexer_loss(const GraphContext<float>&, const LayerAttention&, AttentionActivations<float>&);
template void indexer_loss(const GraphContext<double>&, const LayerAttention&, AttentionActivations<double>&);
template void indexer_backward(const GraphContext<float>&, std::int64_t, const AttentionRows&, const float*,
                               SharedOfBlocks<float>&, const AttentionActivations<float>&);
template void indexer_backward(const GraphContext<double>&, std::int64_t, const AttentionRows&, const double*,
                               SharedOfBlocks<double>&, const AttentionActivations<double>&);

}  // namespace baleen::graph
