#include "training_data/batch_sampler.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "base/number.h"
#include "training_data/keyed_permutation.h"

namespace baleen {

BatchSampler::BatchSampler(const TokenShards& shards, std::int64_t sequence_length, std::int64_t batch_rows,
                           std::uint64_t seed)
    : shards_(shards), packing_(shards, sequence_length), batch_rows_(batch_rows), seed_(seed) {
  BALEEN_CHECK(batch_rows >= 1);
  if (num_rows() < batch_rows) {
    fail(
        "the data fills {} rows of {} tokens, a batch takes {}; pack more data, or set data.batch_rows lower",
        grouped(num_rows()), grouped(sequence_length), grouped(batch_rows));
  }
}

std::int64_t BatchSampler::row_at(std::int64_t position) const {
  const auto epoch = static_cast<std::uint64_t>(epoch_of(position));
  const KeyedPermutation order(num_rows(), mixed_bits(seed_) ^ mixed_bits(epoch + 1));
  return order(position % num_rows());
}

/// The first token of a piece is never a target: a row does not hold what comes before it.
void BatchSampler::count(std::span<const DocumentPiece> row, TrainingBatch& batch) const {
  for (const DocumentPiece& piece : row) {
    batch.num_global_targets += shards_.count_targets(piece.document, piece.begin + 1, piece.end);
    batch.num_global_tokens += piece.size();
    ++batch.num_global_documents;
  }
}

void BatchSampler::append_row(TrainingBatch& batch, std::span<const DocumentPiece> row) const {
  for (const DocumentPiece& piece : row) {
    const std::size_t begin = batch.tokens.size(), end = begin + static_cast<std::size_t>(piece.size());
    batch.tokens.resize(end);
    batch.is_target.resize(end);
    shards_.read(piece.document, piece.begin, std::span(batch.tokens).subspan(begin),
                 std::span(batch.is_target).subspan(begin));
    batch.is_target[begin] = 0;
    batch.documents.push_back({static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end)});
  }
  batch.row_begin.push_back(batch.num_tokens());
}

TrainingBatch BatchSampler::batch(std::int64_t position, BatchShare share) const {
  BALEEN_CHECK(position >= 0 && share.rank >= 0 && share.rank < share.num_ranks);
  if (batch_rows_ % share.num_ranks != 0) {
    fail("data.batch_rows: {} rows cannot be shared by {} ranks evenly; expected a multiple of {}",
         batch_rows_, share.num_ranks, share.num_ranks);
  }
  const std::int64_t rows_of_rank = batch_rows_ / share.num_ranks;
  TrainingBatch batch;
  batch.row_begin.push_back(0);
  for (std::int64_t i = 0; i < batch_rows_; ++i) {
    const std::vector<DocumentPiece> row = packing_.row(row_at(position + i));
    if (i / rows_of_rank == share.rank) append_row(batch, row);
    count(row, batch);
  }
  return batch;
}

TrainingBatch BatchSampler::rows_in_order(std::int64_t begin, std::int64_t end) const {
  TrainingBatch batch;
  batch.row_begin.push_back(0);
  for (std::int64_t i = std::max<std::int64_t>(begin, 0); i < std::min(end, num_rows()); ++i) {
    const std::vector<DocumentPiece> row = packing_.row(i);
    append_row(batch, row);
    count(row, batch);
  }
  return batch;
}

}  // namespace baleen
