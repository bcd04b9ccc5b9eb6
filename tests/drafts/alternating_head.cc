#include "tests/drafts/alternating_head.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "tensor/chosen_token.h"

namespace baleen::test {
namespace {

/// More than it needs: as of a head that drafts a block at once, however few are wanted.
constexpr std::int64_t kBlockPositions = 6;

std::int64_t rows_of(const DraftSizes& sizes) { return sizes.max_draft_tokens + 1; }

TokenId named(TokenId token, std::span<const TokenId> chosen) {
  return is_chosen_token(token) ? std::max(chosen[chosen_index(token)], 0) : token;
}

class AlternatingHead final : public DraftHead {
 public:
  explicit AlternatingHead(const DraftParts& parts)
      : num_rows_(rows_of(parts.sizes)),
        tokens_(parts.arena.allocate<TokenId>(parts.sizes.max_sequences * num_rows_)) {}

  void capture(std::int64_t /*num_rows*/) override {}
  std::int64_t follow(const FollowedStep& step, Activations<2> /*logits*/) override {
    BALEEN_CHECK_EQ(step.parts.size(), step.batch.slices.size());
    BALEEN_CHECK_EQ(step.streams.extent(0), step.batch.num_rows());
    for (const SequenceSlice& slice : step.batch.slices) {
      for (std::int64_t t = 0; t < slice.num_tokens; ++t) {
        *at(slice.state_slot, slice.start + t) =
            named(step.batch.tokens[static_cast<std::size_t>(slice.first_row + t)], step.chosen);
      }
    }
    return 0;
  }
  void draft(std::span<const DraftRow> rows, std::int64_t depth, std::span<const TokenId> chosen,
             Activations<2> logits, std::span<float> confidence) override {
    BALEEN_CHECK(confidence.empty() || confidence.size() == rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const SequenceSlice& sequence = rows[i].sequence;
      BALEEN_CHECK_LE(sequence.start + kBlockPositions, std::ssize(sequence.window_pages) * kPageTokens);
      TokenId& before = before_[sequence.state_slot];
      if (depth == 0) before = *at(sequence.state_slot, sequence.start - 1);
      const std::span<float> row(logits.row(static_cast<std::int64_t>(i)));
      std::ranges::fill(row, 0.0F);
      row[static_cast<std::size_t>(before)] = 1000.0F;  // for certain, at any temperature
      before = named(rows[i].token, chosen);
      // After the token that was fed, as a head's that looks at its own draft before.
      if (!confidence.empty()) confidence[i] = alternating_confidence(before, depth);
    }
  }
  void run_all(const RaggedBatch& /*batch*/, Activations<2> /*logits*/) override {}
  void clear_due_rows(const SequenceSlice& /*sequence*/, std::int64_t /*end*/) override {}
  [[nodiscard]] std::vector<std::span<std::byte>> carried(std::int32_t state_slot,
                                                          std::int64_t length) const override {
    std::vector<std::span<std::byte>> pieces;
    for (std::int64_t p = std::max<std::int64_t>(0, length - num_rows_); p < length; ++p)
      pieces.push_back(std::as_writable_bytes(std::span(at(state_slot, p), 1)));
    return pieces;
  }

 private:
  [[nodiscard]] TokenId* at(std::int32_t state_slot, std::int64_t position) const {
    return tokens_ + state_slot * num_rows_ + position % num_rows_;
  }

  std::int64_t num_rows_;
  TokenId* tokens_;
  std::map<std::int32_t, TokenId> before_;  ///< by state slot: the token before that of the latest draft
};

}  // namespace

float alternating_confidence(TokenId fed, std::int64_t depth) {
  return 2.0F - static_cast<float>(depth) + 0.01F * static_cast<float>(fed);
}

const DraftHeadType kAlternatingHead{
    .name = "alternating",
    .title = "alternating head",
    .has_row_logits = false,
    .is_in = [](const ModelConfig& /*config*/) { return false; },
    .traits =
        [](const RankConfig& /*rank*/, const DraftSizes& sizes) {
          return DraftTraits{.buffer_bytes = Arena::bytes_for<TokenId>(sizes.max_sequences * rows_of(sizes)),
                             .most_tokens = 4,
                             .block_positions = kBlockPositions,
                             .tells_confidence = true};
        },
    .make = [](const DraftParts& parts) -> std::unique_ptr<DraftHead> {
      return std::make_unique<AlternatingHead>(parts);
    }};

}  // namespace baleen::test
