/// What brings a step's batch to where operations read it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "comm/meet.h"
#include "tensor/chosen_token.h"
#include "tensor/ragged_batch.h"

namespace baleen {

/// A batch as the device has it.
struct StepRows {
  std::int64_t num_rows = 0;        ///< rows of the batch, and perhaps some of padding behind them
  std::span<const TokenId> tokens;  ///< [num_rows], where operations read them
};

class StepBatches {
 public:
  virtual ~StepBatches() = default;

  /// The operations that follow are over `batch`, until the next call.
  virtual StepRows begin(const RaggedBatch& batch) = 0;
  /// The same for a batch with tokens that operations called before leave at `chosen`, where both device and
  /// host reach them: a negative token of the batch is the index of its place there (`chosen_token`). A
  /// negative one there counts as 0.
  virtual StepRows begin(const RaggedBatch& batch, std::span<const TokenId> chosen) = 0;
  /// Rows of the step on the rank that has most, the same on all ranks, where what ranks send each other has
  /// places by it; 0: where as much arrives as is sent.
  [[nodiscard]] virtual std::int64_t most_rows() const { return 0; }

  /// Two batches of one step, either perhaps empty: the operations that follow are over the one that was
  /// selected last. `chosen` as above; empty: none of their tokens is there.
  virtual std::array<StepRows, 2> begin(const std::array<RaggedBatch, 2>& parts,
                                        std::span<const TokenId> chosen) = 0;
  virtual void select(int part) = 0;

  /// Of each of `own` the largest of those ranks that have batches of their own in a step; all of them call
  /// it.
  [[nodiscard]] virtual std::vector<std::int64_t> largest_of_ranks(const std::vector<std::int64_t>& own) = 0;
};

/// Of devices that read the host's arrays: nothing to bring.
class HostBatches final : public StepBatches {
 public:
  StepRows begin(const RaggedBatch& batch) override { return {batch.num_rows(), batch.tokens}; }
  StepRows begin(const RaggedBatch& batch, std::span<const TokenId> chosen) override {
    return {batch.num_rows(), known_tokens(batch, chosen, 0)};
  }
  std::array<StepRows, 2> begin(const std::array<RaggedBatch, 2>& parts,
                                std::span<const TokenId> chosen) override {
    return {StepRows{parts[0].num_rows(), known_tokens(parts[0], chosen, 0)},
            StepRows{parts[1].num_rows(), known_tokens(parts[1], chosen, 1)}};
  }
  void select(int /*part*/) override {}

  /// `communicator` to the ranks of `group`, this one among them; outlives this. Null: there are no others.
  void agree(Communicator* communicator, RankGroup group) {
    communicator_ = communicator;
    group_ = std::move(group);
  }
  [[nodiscard]] std::vector<std::int64_t> largest_of_ranks(const std::vector<std::int64_t>& own) override {
    return communicator_ == nullptr || group_.size() == 1 ? own : largest_of_all(*communicator_, group_, own);
  }

 private:
  std::span<const TokenId> known_tokens(const RaggedBatch& batch, std::span<const TokenId> chosen,
                                        std::size_t part) {
    chosen_[part].clear();
    for (const TokenId token : batch.tokens) {
      chosen_[part].push_back(is_chosen_token(token) ? std::max(chosen[chosen_index(token)], 0) : token);
    }
    return chosen_[part];
  }

  std::array<std::vector<TokenId>, 2> chosen_;  ///< tokens of a batch that was begun with such
  Communicator* communicator_ = nullptr;
  RankGroup group_;
};

}  // namespace baleen
