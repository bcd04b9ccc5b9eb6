/// What the MTP block has before its block: row i takes the main model's streams of position i and the
/// embedding of the token after it. (source: forward pass 8, training 1)
#pragma once

#include "trainer/graph/activations.h"
#include "trainer/graph/graph_context.h"

namespace baleen::graph {

/// The rows of a batch that have a next token in their document, as a batch of its own: its tokens are those
/// next tokens, and its targets, read as the main model's, the tokens after them. A document of one token
/// has no row. Global counts are the main batch's, so that both weigh a token the same.
struct MtpBatch {
  explicit MtpBatch(const TrainingBatch& main);

  TrainingBatch batch;
  std::vector<std::int64_t> rows;  ///< [N'] of the main batch
};

template <class T>
struct MtpActivations {
  Values<T> embedded, embedded_normed;  ///< [N', d]
  Values<T> streams, streams_normed;    ///< [N', n, d]
};

/// y [N', n, d] of the main streams x [N, n, d]. `context` is of the MTP batch.
template <class T>
void mtp_entry_forward(const GraphContext<T>& context, const MtpBatch& batch, const DraftBlockRows& w,
                       TensorRow embedding, const T* x, MtpActivations<T>& a, T* y);

/// dx [N, n, d] and the gradients accumulate.
template <class T>
void mtp_entry_backward(const GraphContext<T>& context, const MtpBatch& batch, const DraftBlockRows& w,
                        TensorRow embedding, const MtpActivations<T>& a, const T* dy, T* dx);

}  // namespace baleen::graph
