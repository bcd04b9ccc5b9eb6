/// A stream, device memory and the context that names them, for one test of kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <deque>
#include <span>
#include <vector>

#include "cuda/cuda_context.h"
#include "cuda/cuda_error.h"
#include "cuda/cuda_memory.h"
#include "cuda/shared_memory_limit.h"
#include "cuda/stream_branch.h"
#include "device/gpu_architecture.h"
#include "numeric/bf16.h"
#include "tensor/activations.h"
#include "tensor/buffer.h"
#include "tests/support/needs_gpu.h"
#include "tests/support/test_architecture.h"

namespace baleen::test {

/// Of the architecture that the program is compiled for, and of the card that BALEEN_TEST_CARD imposes on the
/// GPU: see `DeviceTraits`.
[[nodiscard]] inline const DeviceTraits& architecture_traits() {
  static const DeviceTraits kTraits = [] {
    const GpuArchitecture& row = architecture_by_name(gpu_architectures(), BALEEN_ARCH_NAME);
    const std::string_view card = gpu_use().card;
    return card.empty() ? row.traits : imposed_traits(row, card_by_name(card));
  }();
  return kTraits;
}

/// Everything it hands out lives as long as it does.
class TestCuda {
 public:
  explicit TestCuda(std::int64_t scratch_bytes = std::int64_t{256} << 20)
      : stream_(make_stream()),
        memory_(stream_),
        scratch_(scratch_bytes, memory_),
        context_{.stream = {stream_, nullptr, architecture_traits().starts_kernels_early},
                 .scratch = scratch_,
                 .batch = {},
                 .branch = &branch_} {
    limit_shared_memory(0, architecture_traits().shared_bytes_per_block);
    int sms = 0;
    check_cuda(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0), "reading the device");
    context_.num_sms = gpu_use().card.empty() ? sms : std::min(sms, architecture_traits().num_units);
  }
  TestCuda(const TestCuda&) = delete;
  TestCuda& operator=(const TestCuda&) = delete;
  ~TestCuda() { cudaStreamSynchronize(stream_); }

  CudaContext& context() { return context_; }
  CudaMemory& memory() { return memory_; }

  /// Throws what the kernels queued so far did wrong.
  void synchronise() { check_cuda(cudaStreamSynchronize(stream_), "running kernels"); }

  /// Uninitialised values are poison: bytes of 0xFF, NaN in every format.
  template <class T>
  [[nodiscard]] T* allocate(std::int64_t count) {
    const std::int64_t bytes = count * static_cast<std::int64_t>(sizeof(T));
    buffers_.emplace_back(bytes > 0 ? bytes : 1, memory_);
    check_cuda(cudaMemsetAsync(buffers_.back().data(), 0xFF, static_cast<std::size_t>(bytes), stream_),
               "poisoning");
    return reinterpret_cast<T*>(buffers_.back().data());
  }
  template <class T>
  [[nodiscard]] T* upload(std::span<const T> values) {
    T* data = allocate<T>(static_cast<std::int64_t>(values.size()));
    memory_.upload(reinterpret_cast<std::byte*>(data), std::as_bytes(values));
    return data;
  }
  template <class T>
  [[nodiscard]] T* upload(const std::vector<T>& values) {
    return upload(std::span<const T>(values));
  }
  /// Rounded to BF16.
  [[nodiscard]] Bf16Bits* upload_bf16(std::span<const float> values) {
    std::vector<Bf16Bits> rounded;
    rounded.reserve(values.size());
    for (const float value : values) rounded.push_back(float_to_bf16(value));
    return upload(rounded);
  }
  template <class T>
  [[nodiscard]] std::vector<T> download(const T* data, std::int64_t count) {
    std::vector<T> values(static_cast<std::size_t>(count));
    memory_.download(std::as_writable_bytes(std::span(values)), reinterpret_cast<const std::byte*>(data));
    return values;
  }
  [[nodiscard]] std::vector<float> download_bf16(const Bf16Bits* data, std::int64_t count) {
    std::vector<float> values;
    for (const Bf16Bits bits : download(data, count)) values.push_back(bf16_to_float(bits));
    return values;
  }

  /// Puts `batch` (page tables included) into device memory and into the context, with `padding_rows` more
  /// rows and as many sequences. What kernels read of a row that belongs to no sequence is poison.
  void set_batch(const RaggedBatch& batch, std::int32_t padding_rows = 0) {
    const auto num_rows = static_cast<std::int32_t>(batch.num_rows());
    const auto num_sequences = static_cast<std::int32_t>(batch.slices.size());
    std::vector<TokenId> tokens(batch.tokens.begin(), batch.tokens.end());
    std::vector<std::int32_t> positions, sequence_of;
    std::vector<DeviceSequence> sequences;
    for (const SequenceSlice& slice : batch.slices) {
      for (std::int64_t i = 0; i < slice.num_tokens; ++i) {
        positions.push_back(static_cast<std::int32_t>(slice.start + i));
        sequence_of.push_back(static_cast<std::int32_t>(sequences.size()));
      }
      sequences.push_back(device_sequence(slice, upload(slice.pages), upload(slice.window_pages)));
    }
    tokens.resize(tokens.size() + static_cast<std::size_t>(padding_rows), 0);
    positions.resize(tokens.size(), -1);
    sequence_of.resize(tokens.size(), 0);
    sequences.resize(sequences.size() + static_cast<std::size_t>(padding_rows), DeviceSequence{});
    context_.batch = {upload(tokens),    upload(positions),       upload(sequence_of),
                      upload(sequences), num_rows + padding_rows, num_sequences + padding_rows};
  }

 private:
  static CUstream_st* make_stream() {
    cudaStream_t stream = nullptr;
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
    return stream;
  }

  CUstream_st* stream_;
  CudaMemory memory_;
  Arena scratch_;
  StreamBranch branch_;
  CudaContext context_;
  std::deque<Buffer> buffers_;
};

}  // namespace baleen::test
