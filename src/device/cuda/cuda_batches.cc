#include "device/cuda/cuda_batches.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "comm/meet.h"
#include "cuda/chosen_tokens.h"
#include "cuda/cuda_error.h"

namespace baleen {

CudaBatches::CudaBatches(int index, const DeviceTraits& traits, const BatchCapacity& capacity,
                         bool two_at_once, Memory& device, Memory& pinned, CudaContext& context)
    : index_(index), traits_(traits), context_(context), upload_(capacity, device, pinned, context.stream) {
  if (two_at_once) second_upload_.emplace(capacity, device, pinned, context.stream);
}

void CudaBatches::agree(Communicator& communicator, RankGroup group) {
  communicator_ = group.size() > 1 ? &communicator : nullptr;
  group_ = std::move(group);
}

std::vector<std::int64_t> CudaBatches::largest_of_ranks(const std::vector<std::int64_t>& own) {
  return communicator_ == nullptr ? own : largest_of_all(*communicator_, group_, own);
}

StepRows CudaBatches::begin(const RaggedBatch& batch) {
  // Another thread than the one that made the device may run steps, and every thread has a current GPU of its
  // own.
  check_cuda(cudaSetDevice(index_), "selecting the GPU");
  const std::int64_t own = traits_.padded_rows(batch.num_rows()), most = agree_on_rows(own);
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

std::array<StepRows, 2> CudaBatches::begin(const std::array<RaggedBatch, 2>& parts,
                                           std::span<const TokenId> chosen) {
  check_cuda(cudaSetDevice(index_), "selecting the GPU");
  std::vector<std::int64_t> own;
  for (const RaggedBatch& part : parts) own.push_back(traits_.padded_rows(part.num_rows()));
  const std::vector<std::int64_t> most = largest_of_ranks(own);
  const std::int64_t larger = std::max(most[0], most[1]);
  const bool replays = parts_are_even_ = larger <= traits_.max_replayed_rows;
  const std::array<StepRows, 2> rows = begin_padded_parts(
      parts, replays ? std::array{larger, larger}
                     : std::array{most[0] <= traits_.max_replayed_rows ? most[0] : own[0],
                                  most[1] <= traits_.max_replayed_rows ? most[1] : own[1]});
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts_[i].most_rows = replays ? larger : most[i];
    if (std::ranges::any_of(parts[i].tokens, is_chosen_token)) {
      take_chosen_tokens(chosen.data(), parts[i].num_rows(), upload_of(i).tokens(), context_.stream);
    }
  }
  return rows;
}

std::array<StepRows, 2> CudaBatches::begin_padded_parts(const std::array<RaggedBatch, 2>& parts,
                                                        const std::array<std::int64_t, 2>& num_rows) {
  BALEEN_CHECK(second_upload_.has_value());
  std::array<StepRows, 2> rows;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts_[i] = {upload_padded(upload_of(i), parts[i], num_rows[i]), num_rows[i]};
    rows[i] = {num_rows[i], {parts_[i].batch.tokens, static_cast<std::size_t>(num_rows[i])}};
  }
  return rows;
}

void CudaBatches::select(int part) {
  const Part& selected = parts_[static_cast<std::size_t>(part)];
  context_.batch = selected.batch;
  context_.most_rows = selected.most_rows;
}

DeviceBatch CudaBatches::upload_padded(BatchUpload& upload, const RaggedBatch& batch, std::int64_t num_rows) {
  // A replayed step is captured for as many sequences as rows: which of them are there, the batch says.
  const std::int64_t num_sequences =
      num_rows <= traits_.max_replayed_rows ? num_rows : static_cast<std::int64_t>(batch.slices.size());
  const DeviceBatch on_device = upload.upload(batch, num_rows, num_sequences);
  context_.stream.order->forget();
  return on_device;
}

StepRows CudaBatches::begin_padded(const RaggedBatch& batch, std::int64_t num_rows) {
  context_.most_rows = num_rows;
  context_.batch = upload_padded(upload_, batch, num_rows);
  return {num_rows, {context_.batch.tokens, static_cast<std::size_t>(num_rows)}};
}

}  // namespace baleen
