#include <algorithm>
#include <cmath>
#include <vector>

#include "numeric/bf16.h"
#include "numeric/block_scale.h"
#include "numeric/hadamard.h"
#include "ops/indexer/indexer.h"
#include "ops/indexer/top_k.h"
#include "ops/rope/rope_frequencies.h"

namespace baleen {
namespace {

std::vector<float> prepared_query(const IndexerArgs& args, std::int64_t row, std::int64_t head) {
  const auto round = [&](std::span<float> values) {
    if (args.precision == Precision::kExact) return;
    for (float& value : values) value = round_bf16(value);
  };
  const auto from = args.q[row].row(head);
  std::vector<float> q(from.begin(), from.end());
  const std::span<float> rotated = std::span(q).last(2 * static_cast<std::size_t>(args.cosine.extent(1)));
  rotate_pairs(rotated, args.cosine.row(row), args.sine.row(row));
  round(rotated);
  if (args.hadamard) {
    hadamard_transform(q);
    round(q);
  }
  if (args.precision == Precision::kReleased) simulate_fp4(q, kIndexerGroup);
  return q;
}

std::vector<ScoredIndex> scores(const IndexerArgs& args, const SequenceSlice& slice, std::int64_t row,
                                std::int64_t num_visible) {
  const std::int64_t num_heads = args.q.extent(1), dim = args.q.extent(2);
  const auto factor =
      static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim) * static_cast<double>(num_heads)));
  std::vector<std::vector<float>> queries;
  for (std::int64_t head = 0; head < num_heads; ++head) queries.push_back(prepared_query(args, row, head));
  std::vector<ScoredIndex> scored;
  std::vector<float> key(static_cast<std::size_t>(dim));
  for (std::int64_t j = 0; j < num_visible; ++j) {
    const PageId page = slice.pages[static_cast<std::size_t>(j / args.keys.rows_per_page)];
    decode_index_key(args.keys.format, args.keys.page(static_cast<std::int64_t>(page)),
                     args.keys.rows_per_page, static_cast<int>(j % args.keys.rows_per_page), key);
    double score = 0.0;
    for (std::int64_t head = 0; head < num_heads; ++head) {
      float weight = args.head_weights(row, head) * factor;
      if (args.precision != Precision::kExact) weight = round_bf16(weight);
      double dot = 0.0;
      for (std::size_t i = 0; i < key.size(); ++i)
        dot += static_cast<double>(queries[static_cast<std::size_t>(head)][i]) * key[i];
      score += weight * std::max(dot, 0.0);
    }
    scored.push_back({static_cast<float>(score), static_cast<std::int32_t>(j)});
  }
  return scored;
}

/// Without NaN; best first.
void sort_by_score(std::vector<ScoredIndex>& scored) {
  for (ScoredIndex& one : scored) {
    if (std::isnan(one.score)) one.score = -std::numeric_limits<float>::infinity();
  }
  std::sort(scored.begin(), scored.end(), better);
}

std::span<const ScoredIndex> first_of(const std::vector<ScoredIndex>& scored, std::int64_t count) {
  return std::span(scored).first(std::min(scored.size(), static_cast<std::size_t>(count)));
}

/// The best blocks by their best entry, with that of the newest entry. `scored`: of all visible ones.
void choose_blocks(std::span<const ScoredIndex> scored, std::int64_t block_size,
                   std::span<std::int32_t> chosen) {
  const auto num_visible = std::ssize(scored);
  std::vector<ScoredIndex> blocks;
  for (std::int64_t block = 0; block * block_size < num_visible; ++block)
    blocks.push_back({-std::numeric_limits<float>::infinity(), static_cast<std::int32_t>(block)});
  for (const ScoredIndex& one : scored) {
    float& best = blocks[static_cast<std::size_t>(one.index / block_size)].score;
    best = std::fmax(best, one.score);  // not by what is NaN
  }
  std::vector<ScoredIndex> best;
  if (!blocks.empty()) {
    best.push_back(blocks.back());
    blocks.pop_back();
  }
  sort_by_score(blocks);
  const auto others = first_of(blocks, std::ssize(chosen) - 1);
  best.insert(best.end(), others.begin(), others.end());
  write_selection(best, chosen);
}

/// Entries of the blocks given for `row`.
bool is_candidate(const IndexBlocks& blocks, std::int64_t row, std::int32_t entry) {
  return std::ranges::find(blocks.given.row(row), entry / blocks.size) != blocks.given.row(row).end();
}

}  // namespace

void indexer_ref(const IndexerArgs& args) {
  const std::int64_t top_k = args.selected.extent(1);
  for (std::int64_t row = 0; row < args.q.extent(0); ++row) {
    const SequenceSlice& slice = args.batch.slice_of(row);
    const std::int64_t num_visible = (slice.start + row - slice.first_row + 1) / args.ratio;
    if (args.blocks.size == 0 && num_visible <= top_k) {
      select_all(num_visible, args.selected.row(row));
      continue;
    }
    std::vector<ScoredIndex> scored = scores(args, slice, row, num_visible);
    if (args.blocks.are_chosen()) choose_blocks(scored, args.blocks.size, args.blocks.chosen.row(row));
    if (args.blocks.are_given()) {
      std::erase_if(scored,
                    [&](const ScoredIndex& one) { return !is_candidate(args.blocks, row, one.index); });
    }
    sort_by_score(scored);
    write_selection(first_of(scored, top_k), args.selected.row(row));
  }
}

}  // namespace baleen
