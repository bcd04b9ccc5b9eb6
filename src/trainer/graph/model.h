/// Forward and backward of a whole model of either family over batches of packed documents, in float32 or
/// float64: what a training step needs beside optimisers. Top-k and routing indices are constants of the
/// backward, and gradients pass roundings (PassOptions::rounds_as_released) as they are. The indexers' loss
/// reaches their parameters alone.
/// (source: forward pass 3 to 8, training 1, 6.3, 7, 11; of V4.1 releases specification 2.4 to 2.7, 9.C)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/config.h"
#include "parallel/thread_pool.h"
#include "trainer/graph/parameters.h"
#include "trainer/graph/pass_options.h"
#include "trainer/graph/pass_record.h"
#include "trainer/graph/token_objective.h"
#include "training_data/batch_sampler.h"

namespace baleen {

struct LossReport {
  double loss_sum = 0;          ///< sum of -log p, or of an objective, over the batch's targets
  double mtp_loss_sum = 0;      ///< sum over the MTP blocks, without their weight
  double indexer_loss_sum = 0;  ///< over CSA layers and queries; 0 where the pass has none of it
  double balance_loss_sum = 0;  ///< over score-routed layers and documents; the same
  /// Targets of this batch; `num_global_targets` counts those of all ranks and micro-batches.
  std::int64_t num_targets = 0;
  /// [num_blocks][E] how many tokens chose each expert; of an MTP block that did not run zeros.
  std::vector<std::vector<std::int64_t>> expert_load;
};

enum class LogitsOf : std::uint8_t { kMain, kMtp };

template <class T>
class TrainingGraph {
 public:
  /// All arguments must outlive this. Throws `Error` for a geometry that has no gradients: more than one MTP
  /// block, a DSpark head, a router other than sqrtsoftplus with normalised weights and without groups, a
  /// ratio of 1 without latents, an attention without window; and for tables that are not the model's.
  TrainingGraph(const ModelConfig& config, const TokenTables& token_tables, ThreadPool& pool);

  /// L = (loss_sum + mtp_weight * mtp_loss_sum) / batch.num_global_targets
  ///     + indexer_weight * indexer_loss_sum / batch.num_global_tokens
  ///     + balance_weight * balance_loss_sum / batch.num_global_documents.
  /// Adds dL/dweights to `gradients` where it is not null. Results do not depend on the number of threads.
  /// Memory: activations of one block, or of all without `recompute`, and of each token the streams between
  /// blocks. `objective` takes the place of the main model's cross entropy.
  LossReport run(const Parameters<T>& weights, const TrainingBatch& batch, const PassOptions& options,
                 Parameters<T>* gradients, TokenObjective<T>* objective = nullptr);

  /// [targets, d]: what the head multiplies at the rows that predict the batch's targets, for `ReverseKl`.
  [[nodiscard]] std::vector<T> head_inputs(const Parameters<T>& weights, const TrainingBatch& batch,
                                           const PassOptions& options);

  /// [num_tokens, V], or of the MTP block one row less a document: for comparisons on small batches.
  [[nodiscard]] std::vector<T> logits(const Parameters<T>& weights, const TrainingBatch& batch,
                                      const PassOptions& options, LogitsOf of = LogitsOf::kMain);

 private:
  const ModelConfig& config_;
  const TokenTables& token_tables_;
  ThreadPool& pool_;
};

/// A pass written down (pass_record.h).
struct RecordedPass {
  std::vector<PassOperation> operations;
  PassMemory memory;
};

/// Of one pass with gradients over documents of these lengths, all of whose tokens but the first are targets.
/// With `options.recompute` the operations of `block` in [0, num_hidden_layers) are computed twice and
/// written down once. `num_threads` of the pass count in its memory.
[[nodiscard]] RecordedPass record_pass(const ModelConfig& config,
                                       std::span<const std::int64_t> document_lengths,
                                       const PassOptions& options, std::int64_t num_threads = 1);

}  // namespace baleen
