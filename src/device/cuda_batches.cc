#include "device/cuda_batches.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>

#include "comm/meet.h"
#include "cuda/chosen_tokens.h"
#include "cuda/cuda_error.h"

namespace baleen {

CudaBatches::CudaBatches(int index, const DeviceTraits& traits, const BatchCapacity& capacity, Memory& device,
                         Memory& pinned, CudaContext& context)
    : index_(index), traits_(traits), context_(context), upload_(capacity, device, pinned, context.stream) {}

void CudaBatches::agree(Communicator& communicator, RankGroup group) {
  communicator_ = group.size() > 1 ? &communicator : nullptr;
  group_ = std::move(group);
}

std::int64_t CudaBatches::most_rows(std::int64_t own) const {
  if (communicator_ == nullptr) return own;
  return std::ranges::max(tell_all(*communicator_, group_, own));
}

StepRows CudaBatches::begin(const RaggedBatch& batch) {
  // Another thread than the one that made the device may run steps, and every thread has a current GPU of its own.
  check_cuda(cudaSetDevice(index_), "selecting the GPU");
  const std::int64_t own = traits_.padded_rows(batch.num_rows()), most = most_rows(own);
  const StepRows rows = begin_padded(batch, most <= traits_.max_replayed_rows ? most : own);
  context_.most_rows = most;
  return rows;
}

StepRows CudaBatches::begin(const RaggedBatch& batch, std::span<const TokenId> chosen) {
  const StepRows rows = begin(batch);
  if (std::ranges::any_of(batch.tokens, is_chosen_token)) {
    take_chosen_tokens(chosen.data(), batch.num_rows(), upload_.tokens(), context_.stream);
  }
  return rows;
}

StepRows CudaBatches::begin_padded(const RaggedBatch& batch, std::int64_t num_rows) {
  // A replayed step is captured for as many sequences as rows: which of them are there, the batch says.
  const std::int64_t num_sequences =
      num_rows <= traits_.max_replayed_rows ? num_rows : static_cast<std::int64_t>(batch.slices.size());
  context_.most_rows = num_rows;
  context_.batch = upload_.upload(batch, num_rows, num_sequences);
  return {num_rows, {context_.batch.tokens, static_cast<std::size_t>(num_rows)}};
}

}  // namespace baleen
