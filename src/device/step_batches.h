/// What brings a step's batch to where operations read it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/chosen_token.h"
#include "tensor/ragged_batch.h"

namespace baleen {

/// A batch as the device has it.
struct StepRows {
  std::int64_t num_rows = 0;        ///< of the batch, and perhaps some of padding behind them
  std::span<const TokenId> tokens;  ///< [num_rows], where operations read them
};

class StepBatches {
 public:
  virtual ~StepBatches() = default;

  /// The operations that follow are over `batch`, until the next call.
  virtual StepRows begin(const RaggedBatch& batch) = 0;
  /// The same for a batch with tokens that operations called before leave at `chosen`, where both device and host reach
  /// them: a negative token of the batch is the index of its place there (`chosen_token`). A negative one there counts as 0.
  virtual StepRows begin(const RaggedBatch& batch, std::span<const TokenId> chosen) = 0;
  /// Rows of the step on the rank that has most, the same on all ranks, where what ranks send each other has
  /// places by it; 0: where as much arrives as is sent.
  [[nodiscard]] virtual std::int64_t most_rows() const { return 0; }
};

/// Of devices that read the host's arrays: nothing to bring.
class HostBatches final : public StepBatches {
 public:
  StepRows begin(const RaggedBatch& batch) override { return {batch.num_rows(), batch.tokens}; }
  StepRows begin(const RaggedBatch& batch, std::span<const TokenId> chosen) override {
    chosen_.clear();
    for (const TokenId token : batch.tokens) {
      chosen_.push_back(is_chosen_token(token) ? std::max(chosen[chosen_index(token)], 0) : token);
    }
    return {batch.num_rows(), chosen_};
  }

 private:
  std::vector<TokenId> chosen_;  ///< of the step, where it was begun with such
};

}  // namespace baleen
