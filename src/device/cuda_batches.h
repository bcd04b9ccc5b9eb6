/// Brings batches to a GPU, padded to a size for which a captured step exists.
#pragma once

#include "comm/communicator.h"
#include "cuda/batch_upload.h"
#include "cuda/cuda_context.h"
#include "device/step_batches.h"
#include "ops/operation/device_traits.h"

namespace baleen {

/// The batch of a step is `context.batch`.
class CudaBatches final : public StepBatches {
 public:
  /// All outlive this; kernels run on `context.stream` of GPU `index`.
  CudaBatches(int index, const DeviceTraits& traits, const BatchCapacity& capacity, Memory& device,
              Memory& pinned, CudaContext& context);

  /// Of ranks of `group`, each with batches of its own, all take part in every step, and their steps of few
  /// rows have as many as the largest of them: what they replay then fits together. `communicator` is the
  /// host's; it outlives this.
  void agree(Communicator& communicator, RankGroup group);

  StepRows begin(const RaggedBatch& batch) override;
  StepRows begin(const RaggedBatch& batch, std::span<const TokenId> chosen) override;
  [[nodiscard]] std::int64_t most_rows() const override { return context_.most_rows; }
  /// The batch as one of `num_rows` rows, and of as many sequences where such steps are replayed.
  StepRows begin_padded(const RaggedBatch& batch, std::int64_t num_rows);

 private:
  /// Of a step in which this rank has `own` rows, padded: those of the rank that has most.
  [[nodiscard]] std::int64_t agree_on_rows(std::int64_t own) const;

  int index_;
  const DeviceTraits& traits_;
  CudaContext& context_;
  BatchUpload upload_;
  Communicator* communicator_ = nullptr;  ///< null: no other rank's batch matters
  RankGroup group_;
};

}  // namespace baleen
