/// From a position in the data to a batch of packed rows: a pure function, so that a resumed run continues to
/// the bit and every rank knows what the others see.
///
/// Documents are packed into rows of at most `sequence_length` tokens, whole where they fit; a longer one is
/// cut into pieces of that length, each a document of its own from then on. Rows are numbered once
/// (`row_packing.h`) and every epoch takes all of them in a new order, a keyed permutation that takes no
/// memory. The position counts rows since the start of the run, over all epochs; step s of a run with
/// constant batches begins at s * batch_rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/ragged_batch.h"
#include "training_data/row_packing.h"
#include "training_data/token_shards.h"

namespace baleen {

/// One rank's rows of a global batch, without padding: rows one after the other, and in them documents one
/// after the other.
struct TrainingBatch {
  /// Tokens [begin, end) of the batch. Attention, compressors and MTP stay inside; positions count from its
  /// begin.
  struct Document {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };

  std::vector<TokenId> tokens;  ///< [num_tokens], each in [0, vocab_size)
  /// [num_tokens], 1 where this token may be predicted: token i is a target of token i - 1 (main) and of
  /// token i - 2 (MTP) where those are in its document. The first token of a document has 0.
  std::vector<std::uint8_t> is_target;
  std::vector<Document> documents;      ///< sorted by row; together they are all tokens
  std::vector<std::int64_t> row_begin;  ///< [num_rows + 1], in tokens
  /// Sum of `is_target` over the rows of all ranks: what the losses of tokens are divided by.
  std::int64_t num_global_targets = 0;
  std::int64_t num_global_tokens = 0;     ///< queries over all ranks that the indexers' loss is the mean of
  std::int64_t num_global_documents = 0;  ///< documents over all ranks that the balance loss is the mean of

  [[nodiscard]] std::int64_t num_tokens() const { return static_cast<std::int64_t>(tokens.size()); }
  [[nodiscard]] std::int64_t num_rows() const { return static_cast<std::int64_t>(row_begin.size()) - 1; }
};

/// Which part of a global batch a caller wants.
struct BatchShare {
  std::int64_t rank = 0;
  std::int64_t num_ranks = 1;
};

class BatchSampler {
 public:
  /// `shards` outlives it. Throws `Error` where the split has fewer rows than `batch_rows`, with both
  /// numbers. Reads the length of every document once.
  BatchSampler(const TokenShards& shards, std::int64_t sequence_length, std::int64_t batch_rows,
               std::uint64_t seed);

  /// Of one epoch.
  [[nodiscard]] std::int64_t num_rows() const { return packing_.num_rows(); }
  [[nodiscard]] std::int64_t batch_rows() const { return batch_rows_; }
  [[nodiscard]] std::int64_t sequence_length() const { return packing_.sequence_length(); }
  /// The epoch, from 0, that the row at `position` belongs to.
  [[nodiscard]] std::int64_t epoch_of(std::int64_t position) const { return position / num_rows(); }

  /// Rows [position, position + batch_rows) of the run, shuffled by epoch; of them the rows
  /// [rank * batch_rows / num_ranks, (rank + 1) * batch_rows / num_ranks): the batches of all ranks in order
  /// are the batch of one rank. Throws `Error` where batch_rows is no multiple of num_ranks, and where a
  /// shard turns out to be damaged. Costs one copy of the tokens, and a pass over the other ranks' masks.
  [[nodiscard]] TrainingBatch batch(std::int64_t position, BatchShare share = {}) const;

  /// Rows [begin, end) in their own order, unshuffled, clamped to num_rows(): for evaluation. Their counts
  /// are the global ones.
  [[nodiscard]] TrainingBatch rows_in_order(std::int64_t begin, std::int64_t end) const;

 private:
  [[nodiscard]] std::int64_t row_at(std::int64_t position) const;
  /// Adds the row to the global counts.
  void count(std::span<const DocumentPiece> row, TrainingBatch& batch) const;
  void append_row(TrainingBatch& batch, std::span<const DocumentPiece> row) const;

  const TokenShards& shards_;
  RowPacking packing_;
  std::int64_t batch_rows_;
  std::uint64_t seed_;
};

}  // namespace baleen
