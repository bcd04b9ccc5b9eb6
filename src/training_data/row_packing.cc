#include "training_data/row_packing.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"

namespace baleen {
namespace {

/// Fewer have nothing to predict.
constexpr std::int64_t kMinPiece = 2;

/// What documents [begin, end) are cut into, the longest first, those of one length in their order.
std::vector<DocumentPiece> cut_documents(const TokenShards& shards, std::int64_t sequence_length,
                                         std::int64_t begin, std::int64_t end) {
  std::vector<DocumentPiece> pieces;
  for (std::int64_t document = begin; document < end; ++document) {
    const std::int64_t size = shards.document_size(document);
    for (std::int64_t at = 0; size - at >= kMinPiece; at += sequence_length)
      pieces.push_back({document, at, std::min(size, at + sequence_length)});
  }
  std::ranges::stable_sort(pieces, std::ranges::greater(), &DocumentPiece::size);
  return pieces;
}

}  // namespace

RowPacking::RowPacking(const TokenShards& shards, std::int64_t sequence_length)
    : shards_(shards), sequence_length_(sequence_length) {
  BALEEN_CHECK(sequence_length >= kMinPiece);
  const std::int64_t group_tokens = kRowsPerGroup * sequence_length;
  Group next;
  std::int64_t num_tokens = 0;
  for (std::int64_t document = 0; document < shards.num_documents(); ++document) {
    num_tokens += shards.document_size(document);
    if (num_tokens < group_tokens && document + 1 < shards.num_documents()) continue;
    groups_.push_back(next);
    next.first_row += static_cast<std::int64_t>(pack(next.first_document, document + 1).size());
    next.first_document = document + 1;
    num_tokens = 0;
  }
  groups_.push_back(next);
}

std::vector<std::vector<DocumentPiece>> RowPacking::pack(std::int64_t begin, std::int64_t end) const {
  std::vector<std::vector<DocumentPiece>> rows;
  std::set<std::pair<std::int64_t, std::size_t>> open;  // tokens left in a row, and the row
  for (const DocumentPiece& piece : cut_documents(shards_, sequence_length_, begin, end)) {
    auto best = open.lower_bound({piece.size(), 0});
    std::int64_t left = sequence_length_;
    std::size_t row = rows.size();
    if (best != open.end()) {
      std::tie(left, row) = *best;
      open.erase(best);
    } else {
      rows.emplace_back();
    }
    rows[row].push_back(piece);
    if (left - piece.size() >= kMinPiece) open.insert({left - piece.size(), row});
  }
  for (std::vector<DocumentPiece>& row : rows) std::ranges::sort(row);
  return rows;
}

std::vector<DocumentPiece> RowPacking::row(std::int64_t row) const {
  BALEEN_CHECK(row >= 0 && row < num_rows());
  const auto after = std::ranges::upper_bound(groups_, row, {}, &Group::first_row);
  const Group& group = *(after - 1);
  return pack(group.first_document, after->first_document)[static_cast<std::size_t>(row - group.first_row)];
}

}  // namespace baleen
