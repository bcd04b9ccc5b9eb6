// Rows and batches: every token once an epoch, the same rows for one rank and for many, a function of the
// position.
#include "training_data/batch_sampler.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/error.h"
#include "tests/training_data/packed_corpus.h"
#include "training_data/keyed_permutation.h"

namespace baleen {
namespace {

using test::TemporaryFolder;

TEST(KeyedPermutation, TakesEveryPlaceOnce) {
  rc::check("any size and key", [](std::uint64_t key, std::uint16_t size) {
    const std::int64_t n = size % 700 + 1;
    const KeyedPermutation order(n, key);
    std::set<std::int64_t> places;
    for (std::int64_t i = 0; i < n; ++i) places.insert(order(i));
    RC_ASSERT(static_cast<std::int64_t>(places.size()) == n);
    RC_ASSERT(*places.begin() == 0 && *places.rbegin() == n - 1);
  });
}

/// A packed corpus that lives as long as this.
struct Packed {
  Packed(int num_texts, int max_words, std::uint64_t seed = 3)
      : shards((pack_corpus(test::pack_options(folder, test::random_texts(seed, num_texts, max_words))),
                TokenShards::open(folder / "packed", DataSplit::kTrain))) {}
  TemporaryFolder folder;
  TokenShards shards;
};

TEST(RowPacking, HoldsEveryTokenOnceInRowsThatFit) {
  const Packed packed(300, 60);
  for (const std::int64_t length : {16, 50, 128, 4096}) {
    const RowPacking packing(packed.shards, length);
    std::vector<DocumentPiece> all;
    for (std::int64_t row = 0; row < packing.num_rows(); ++row) {
      std::int64_t size = 0;
      for (const DocumentPiece& piece : packing.row(row)) {
        EXPECT_EQ(piece.begin % length, 0);
        size += piece.size();
        all.push_back(piece);
      }
      EXPECT_GE(size, 2);
      EXPECT_LE(size, length);
    }
    std::ranges::sort(all);
    std::int64_t document = 0, at = 0, num_left_out = 0;
    for (const DocumentPiece& piece : all) {
      for (; document < piece.document; ++document, at = 0)
        num_left_out += packed.shards.document_size(document) - at;
      EXPECT_EQ(piece.begin, at);
      at = piece.end;
    }
    EXPECT_LE(num_left_out, packed.shards.num_documents());  // single tokens behind a cut
    if (length == 4096) {
      EXPECT_EQ(static_cast<std::int64_t>(all.size()), packed.shards.num_documents());
    }
  }
}

TEST(RowPacking, FillsRows) {
  const Packed packed(2000, 60);
  const RowPacking packing(packed.shards, 256);
  const std::int64_t fewest = (packed.shards.num_tokens() + 255) / 256;
  EXPECT_LE(packing.num_rows(), fewest + fewest / 20 + 2);
}

TEST(BatchSampler, AnEpochTakesEveryRowOnceInAnOrderOfItsOwn) {
  const Packed packed(120, 40);
  const BatchSampler sampler(packed.shards, 64, 1, 11);
  std::vector<std::vector<TokenId>> in_order, first, second;
  for (std::int64_t row = 0; row < sampler.num_rows(); ++row) {
    in_order.push_back(sampler.rows_in_order(row, row + 1).tokens);
    first.push_back(sampler.batch(row).tokens);
    second.push_back(sampler.batch(sampler.num_rows() + row).tokens);
  }
  EXPECT_NE(first, second);
  for (auto* rows : {&in_order, &first, &second}) std::ranges::sort(*rows);
  EXPECT_EQ(first, in_order);
  EXPECT_EQ(second, in_order);
}

/// The rows of a batch, each with its tokens, targets and documents.
struct Row {
  std::vector<TokenId> tokens;
  std::vector<std::uint8_t> is_target;
  std::vector<std::int64_t> document_sizes;
  bool operator==(const Row&) const = default;
};

std::vector<Row> rows_of(const TrainingBatch& batch) {
  std::vector<Row> rows;
  auto document = batch.documents.begin();
  for (std::int64_t r = 0; r < batch.num_rows(); ++r) {
    Row row;
    row.tokens.assign(batch.tokens.begin() + batch.row_begin[r],
                      batch.tokens.begin() + batch.row_begin[r + 1]);
    row.is_target.assign(batch.is_target.begin() + batch.row_begin[r],
                         batch.is_target.begin() + batch.row_begin[r + 1]);
    for (; document != batch.documents.end() && document->begin < batch.row_begin[r + 1]; ++document)
      row.document_sizes.push_back(document->end - document->begin);
    EXPECT_EQ(std::accumulate(row.document_sizes.begin(), row.document_sizes.end(), std::int64_t{0}),
              static_cast<std::int64_t>(row.tokens.size()));
    rows.push_back(row);
  }
  return rows;
}

TEST(BatchSampler, RanksTogetherSeeTheBatchOfOne) {
  const Packed packed(150, 40);
  const BatchSampler sampler(packed.shards, 64, 12, 5);
  for (const std::int64_t position : {0, 12, 36, 1000, 1006}) {
    const TrainingBatch whole = sampler.batch(position);
    EXPECT_EQ(whole.num_global_targets, std::ranges::count(whole.is_target, 1));
    EXPECT_EQ(whole.num_global_tokens, whole.num_tokens());
    EXPECT_EQ(whole.num_global_documents, std::ssize(whole.documents));
    for (const std::int64_t num_ranks : {2, 3, 4, 12}) {
      std::vector<Row> together;
      for (std::int64_t rank = 0; rank < num_ranks; ++rank) {
        const TrainingBatch part = sampler.batch(position, {rank, num_ranks});
        EXPECT_EQ(part.num_global_targets, whole.num_global_targets);
        EXPECT_EQ(part.num_global_tokens, whole.num_global_tokens);
        EXPECT_EQ(part.num_global_documents, whole.num_global_documents);
        for (const Row& row : rows_of(part)) together.push_back(row);
      }
      EXPECT_EQ(together, rows_of(whole));
    }
  }
  EXPECT_THROW((void)sampler.batch(0, {0, 5}), Error);
}

TEST(BatchSampler, IsAFunctionOfPositionAndSeed) {
  const Packed packed(150, 40);
  const BatchSampler one(packed.shards, 64, 8, 5), same(packed.shards, 64, 8, 5),
      other(packed.shards, 64, 8, 6);
  (void)one.batch(0);
  EXPECT_EQ(one.batch(40).tokens, same.batch(40).tokens);
  EXPECT_NE(one.batch(40).tokens, other.batch(40).tokens);
}

TEST(BatchSampler, TheFirstTokenOfADocumentIsNoTarget) {
  const Packed packed(40, 120);
  const BatchSampler sampler(packed.shards, 32, 4, 5);  // cuts most documents
  const TrainingBatch batch = sampler.rows_in_order(0, sampler.num_rows());
  for (const TrainingBatch::Document& document : batch.documents) {
    EXPECT_EQ(batch.is_target[document.begin], 0);
    EXPECT_EQ(batch.is_target[document.begin + 1], 1);
  }
  EXPECT_EQ(batch.num_global_targets, std::ranges::count(batch.is_target, 1));
}

TEST(BatchSampler, RefusesACorpusSmallerThanABatch) {
  const Packed packed(3, 5);
  try {
    const BatchSampler sampler(packed.shards, 4096, 64, 1);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("a batch takes 64"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace baleen
