/// Brings batches to a GPU, padded to a size for which a captured step exists.
#pragma once

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

  StepRows begin(const RaggedBatch& batch) override;
  StepRows begin(const RaggedBatch& batch, std::span<const TokenId> chosen) override;
  /// The batch as one of `num_rows` rows, and of as many sequences where such steps are replayed.
  StepRows begin_padded(const RaggedBatch& batch, std::int64_t num_rows);

 private:
  int index_;
  const DeviceTraits& traits_;
  CudaContext& context_;
  BatchUpload upload_;
};

}  // namespace baleen
