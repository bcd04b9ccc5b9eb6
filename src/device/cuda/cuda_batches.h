/// Brings batches to a GPU, padded to a size for which a captured step exists.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "cuda/batch_upload.h"
#include "cuda/cuda_context.h"
#include "device/step_batches.h"
#include "ops/operation/device_traits.h"

namespace baleen {

/// The batch of a step is `context.batch`.
class CudaBatches final : public StepBatches {
 public:
  /// All outlive this; kernels run on `context.stream` of GPU `index`. `two_at_once`: steps may have two.
  CudaBatches(int index, const DeviceTraits& traits, const BatchCapacity& capacity, bool two_at_once,
              Memory& device, Memory& pinned, CudaContext& context);

  /// Of ranks of `group`, each with batches of its own, all take part in every step, and their steps of few
  /// rows have as many as the largest of them: what they replay then fits together. `communicator` is the
  /// host's; it outlives this.
  void agree(Communicator& communicator, RankGroup group);

  StepRows begin(const RaggedBatch& batch) override;
  StepRows begin(const RaggedBatch& batch, std::span<const TokenId> chosen) override;
  [[nodiscard]] std::int64_t most_rows() const override { return context_.most_rows; }
  std::array<StepRows, 2> begin(const std::array<RaggedBatch, 2>& parts,
                                std::span<const TokenId> chosen) override;
  void select(int part) override;
  [[nodiscard]] std::vector<std::int64_t> largest_of_ranks(const std::vector<std::int64_t>& own) override;
  /// Whether the two batches of the step have as many rows, on all ranks.
  [[nodiscard]] bool parts_are_even() const { return parts_are_even_; }
  /// The batch as one of `num_rows` rows, and of as many sequences where such steps are replayed.
  StepRows begin_padded(const RaggedBatch& batch, std::int64_t num_rows);
  /// The same of the two batches of a step.
  std::array<StepRows, 2> begin_padded_parts(const std::array<RaggedBatch, 2>& parts,
                                             const std::array<std::int64_t, 2>& num_rows);

 private:
  /// Of a step in which this rank has `own` rows, padded: those of the rank that has most.
  [[nodiscard]] std::int64_t agree_on_rows(std::int64_t own) { return largest_of_ranks({own}).front(); }
  [[nodiscard]] BatchUpload& upload_of(std::size_t part) { return part == 0 ? upload_ : *second_upload_; }
  [[nodiscard]] DeviceBatch upload_padded(BatchUpload& upload, const RaggedBatch& batch,
                                          std::int64_t num_rows);

  int index_;
  const DeviceTraits& traits_;
  CudaContext& context_;
  BatchUpload upload_;
  std::optional<BatchUpload> second_upload_;  ///< set where devices begin two batches
  /// Of a step of two batches.
  struct Part {
    DeviceBatch batch;
    std::int64_t most_rows = 0;
  };
  std::array<Part, 2> parts_;
  bool parts_are_even_ = false;
  Communicator* communicator_ = nullptr;  ///< null: no other rank's batch matters
  RankGroup group_;
};

}  // namespace baleen
