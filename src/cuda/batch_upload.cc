#include "cuda/batch_upload.h"

#include <algorithm>

#include "base/check.h"

namespace baleen {

BatchUpload::Layout BatchUpload::layout_of(const BatchCapacity& capacity) {
  Layout layout;
  const auto place = [&](std::int64_t bytes) {
    const std::int64_t offset = layout.size;
    layout.size += Arena::bytes_for<std::byte>(bytes);
    return offset;
  };
  layout.tokens = place(capacity.max_rows * std::int64_t{sizeof(TokenId)});
  layout.positions = place(capacity.max_rows * std::int64_t{sizeof(std::int32_t)});
  layout.sequence_of = place(capacity.max_rows * std::int64_t{sizeof(std::int32_t)});
  layout.sequences = place(capacity.max_sequences * std::int64_t{sizeof(DeviceSequence)});
  layout.pages = place(2 * capacity.max_pages * std::int64_t{sizeof(PageId)});
  return layout;
}

BatchUpload::BatchUpload(const BatchCapacity& capacity, Memory& device, Memory& pinned, cudaStream_t stream)
    : capacity_(capacity),
      layout_(layout_of(capacity)),
      on_device_(layout_.size, device),
      staging_{Staging{Buffer(layout_.size, pinned), {}}, Staging{Buffer(layout_.size, pinned), {}}},
      stream_(stream) {}

DeviceBatch BatchUpload::upload(const RaggedBatch& batch, std::int64_t num_rows, std::int64_t num_sequences) {
  BALEEN_CHECK(num_rows <= capacity_.max_rows && num_sequences <= capacity_.max_sequences);
  Staging& staging = staging_[static_cast<std::size_t>(next_)];
  next_ = 1 - next_;
  staging.copied.wait();
  std::byte* host = staging.bytes.data();
  auto* tokens = reinterpret_cast<TokenId*>(host + layout_.tokens);
  auto* positions = reinterpret_cast<std::int32_t*>(host + layout_.positions);
  auto* sequence_of = reinterpret_cast<std::int32_t*>(host + layout_.sequence_of);
  auto* sequences = reinterpret_cast<DeviceSequence*>(host + layout_.sequences);
  auto* pages = reinterpret_cast<PageId*>(host + layout_.pages);
  const auto* device_pages = reinterpret_cast<const PageId*>(on_device_.data() + layout_.pages);

  std::int64_t num_pages = 0;
  const auto put = [&](std::span<const PageId> table) {
    BALEEN_CHECK_LE(num_pages + static_cast<std::int64_t>(table.size()), 2 * capacity_.max_pages);
    std::ranges::copy(table, pages + num_pages);
    const PageId* at = device_pages + num_pages;
    num_pages += static_cast<std::int64_t>(table.size());
    return at;
  };
  std::ranges::copy(batch.tokens, tokens);
  std::fill(tokens + batch.num_rows(), tokens + num_rows, 0);
  std::fill(positions + batch.num_rows(), positions + num_rows, -1);
  std::fill(sequence_of + batch.num_rows(), sequence_of + num_rows, 0);
  std::int32_t sequence = 0;
  for (const SequenceSlice& slice : batch.slices) {
    for (std::int64_t i = 0; i < slice.num_tokens; ++i) {
      positions[slice.first_row + i] = static_cast<std::int32_t>(slice.start + i);
      sequence_of[slice.first_row + i] = sequence;
    }
    BALEEN_CHECK(!slice.sees_ahead || (slice.rows_before == 0 && slice.rows_behind == 0));
    const PageId* const of_slice = put(slice.pages);
    sequences[sequence++] = device_sequence(slice, of_slice, put(slice.window_pages));
  }
  std::fill(sequences + sequence, sequences + num_sequences, DeviceSequence{});
  const std::int64_t used = layout_.pages + num_pages * std::int64_t{sizeof(PageId)};
  check_cuda(cudaMemcpyAsync(on_device_.data(), host, static_cast<std::size_t>(used), cudaMemcpyHostToDevice,
                             stream_),
             "copying a batch to the device");
  staging.copied.record(stream_);
  const std::byte* device = on_device_.data();
  return {reinterpret_cast<const TokenId*>(device + layout_.tokens),
          reinterpret_cast<const std::int32_t*>(device + layout_.positions),
          reinterpret_cast<const std::int32_t*>(device + layout_.sequence_of),
          reinterpret_cast<const DeviceSequence*>(device + layout_.sequences),
          static_cast<std::int32_t>(num_rows),
          static_cast<std::int32_t>(num_sequences)};
}

}  // namespace baleen
