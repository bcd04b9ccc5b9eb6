#include "device/cuda/cuda_copies.h"

namespace baleen {

CudaCopies::~CudaCopies() { static_cast<void>(cudaStreamSynchronize(stream_.get())); }

void CudaCopies::wait_for_operations() {
  queued_.record(operations_);
  queued_.make_wait(stream_.get());
}

void CudaCopies::start(std::byte* to, const std::byte* from, std::int64_t size_bytes) {
  check_cuda(
      cudaMemcpyAsync(to, from, static_cast<std::size_t>(size_bytes), cudaMemcpyHostToDevice, stream_.get()),
      "copying to the device beside operations");
}

void CudaCopies::set_mark(int mark) { marks_.at(static_cast<std::size_t>(mark)).record(stream_.get()); }

void CudaCopies::make_operations_wait_for(int mark) {
  marks_.at(static_cast<std::size_t>(mark)).make_wait(operations_);
}

void CudaCopies::wait_for(int mark) { marks_.at(static_cast<std::size_t>(mark)).wait(); }

}  // namespace baleen
