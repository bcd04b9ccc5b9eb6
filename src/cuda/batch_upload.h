/// Brings a step's batch to the device: one copy from pinned memory, to the same addresses every time, so
/// that captured graphs find the next batch where they found the last.
#pragma once

#include <array>
#include <cstdint>

#include "cuda/cuda_stream.h"
#include "cuda/device_batch.h"
#include "tensor/buffer.h"

namespace baleen {

struct BatchCapacity {
  std::int64_t max_rows = 0;
  std::int64_t max_sequences = 0;
  std::int64_t max_pages = 0;  ///< pages that all sequences' tables have together, each once
};

class BatchUpload {
 public:
  BatchUpload(const BatchCapacity& capacity, Memory& device, Memory& pinned, cudaStream_t stream);

  /// Queues the copy and returns the batch as kernels will see it, padded to num_rows and num_sequences.
  /// Waits only when the host is two batches ahead.
  [[nodiscard]] DeviceBatch upload(const RaggedBatch& batch, std::int64_t num_rows,
                                   std::int64_t num_sequences);

  /// Where the tokens of a batch are once it is on the device: an operation may put others in their place.
  [[nodiscard]] TokenId* tokens() const {
    return reinterpret_cast<TokenId*>(on_device_.data() + layout_.tokens);
  }

 private:
  /// Byte offsets of the arrays.
  struct Layout {
    std::int64_t tokens = 0, positions = 0, sequence_of = 0, sequences = 0, pages = 0, size = 0;
  };
  struct Staging {
    Buffer bytes;
    CudaEvent copied;
  };
  static Layout layout_of(const BatchCapacity& capacity);

  BatchCapacity capacity_;
  Layout layout_;
  Buffer on_device_;
  std::array<Staging, 2> staging_;
  int next_ = 0;
  cudaStream_t stream_;
};

}  // namespace baleen
